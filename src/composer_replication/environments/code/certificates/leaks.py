"""The leak certificate: does what an agent can read tell what was deleted from its tree?

Reads the tree in one pass, the original texts and the hidden tests; with a toolchain also all that its sandbox shows
(`world_index.py`). Writes nothing. A *hard* finding fails the
certificate. A *soft* one is for people (a function of the same shape under other names). A *declared* one is a mention
of a symbol where its specification may stand.

Does not see: encoded, translated or paraphrased copies, and what a model remembers of a public repository.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from composer_replication.records import Record

from ..tasks.task import Symbol
from ..tasks.test_ids import function_of
from .leak_files import (
    FILES,
    FOLDERS,
    archive_members,
    byte_suspicion,
    holds_target,
    is_archive,
    kind_suspicion,
    name_suspicion,
)
from .leak_text import (
    Line,
    Shingle,
    by_first_line,
    code_facts,
    deleted_functions,
    first_twin,
    function_lines,
    removed_runs,
    shingles,
    text_facts,
)

if TYPE_CHECKING:
    from ..sandbox.toolchain import Toolchain
    from .world_index import ShownFolder, WorldIndex

Severity = Literal["hard", "soft", "declared"]
CHECKS = (
    "history", "compiled", "packaging", "caches", "archives", "links", "twins", "binary_copies", "hidden_tests",
    "mentions",
)  # fmt: skip
INTERPRETER_CHECK, WORLD_CHECK = "interpreters", "world"
DOCUMENTATION = "*.rst *.md *.txt *.html *.pyi *.ipynb *.py PKG-INFO README* CHANGE* NEWS*".split()
"""Where a specification may stand; of a Python file only the doctests count."""
TEST_PATTERNS = ("test_*.py", "*_test.py", "conftest.py", "tests.py")
LARGEST_FILE_BYTES = 8 * 1024 * 1024
SHORTEST_BINARY_LINE = 24
MOST_FINDINGS = 200


class LeakFinding(Record):
    check: str
    path: str
    line: int = 0
    """0 where the file as a whole is meant."""
    detail: str
    severity: Severity = "hard"


class LeakCertificate(Record):
    passed: bool
    checks: tuple[str, ...]
    findings: tuple[LeakFinding, ...] = ()
    dropped_findings: int = 0
    """Soft and declared ones beyond the first 200; hard ones are all kept."""
    files: int = 0

    def hard(self) -> tuple[LeakFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "hard")


def leak_certificate(
    tree: Path,
    *,
    deleted: Mapping[str, str],
    symbols: Collection[Symbol] = (),
    packages: Collection[str] = (),
    hidden_tests: Collection[str] = (),
    hidden_texts: Mapping[str, str] | None = None,
    toolchain: Toolchain | None = None,
    backend: str = "auto",
    runtime: ShownFolder | None = None,
) -> LeakCertificate:
    """`deleted` and `hidden_texts` map each edited source and test file to its original text; what is gone from it is
    found by comparing with the tree. With a toolchain its interpreters are asked for the target, and all that a sandbox
    with it shows is searched; so is a harness's `runtime`."""
    secrets = Secrets(tree, deleted, symbols, packages, hidden_tests, hidden_texts or {})
    findings: list[LeakFinding] = []
    files = 0
    for path, entry in walk(tree):
        if entry.is_dir(follow_symlinks=False):
            findings += folder_findings(path, Path(entry.path))
            continue
        files += 1
        findings += file_findings(path, Path(entry.path), secrets)
    checks = CHECKS
    if toolchain is not None:
        from .world_index import index_of, installed_copies, packages_in

        checks = (*CHECKS, INTERPRETER_CHECK, WORLD_CHECK)
        findings += world_findings(secrets, index_of(toolchain, backend))
        findings += [
            LeakFinding(
                check=INTERPRETER_CHECK, path=copy.interpreter, detail=f"{copy.package} is importable: {copy.place}"
            )
            for copy in installed_copies(tuple(sorted(packages)), toolchain, backend)
        ]
        if runtime is not None:
            findings += world_findings(secrets, index_of(toolchain, backend, runtime))
            findings += [
                LeakFinding(check=INTERPRETER_CHECK, path=str(path.relative_to(runtime.folder)), detail="is importable")
                for path in packages_in(runtime.folder, packages)
            ]
    hard = [finding for finding in findings if finding.severity == "hard"]
    other = [finding for finding in findings if finding.severity != "hard"]
    kept = tuple(hard + other[:MOST_FINDINGS])
    return LeakCertificate(
        passed=not hard, checks=checks, findings=kept, dropped_findings=len(findings) - len(kept), files=files
    )


@dataclass(frozen=True)
class Secrets:
    """What the tree must not tell, in the form in which it is looked for."""

    tree: Path
    deleted: Mapping[str, str]
    symbols: Collection[Symbol]
    packages: Collection[str]
    hidden_tests: Collection[str]
    hidden_texts: Mapping[str, str]

    def _current(self, path: str) -> str | None:
        file = self.tree / path
        return file.read_text(errors="replace") if file.is_file() else None

    @cached_property
    def removed(self) -> dict[str, list[list[Line]]]:
        return {path: removed_runs(text, self._current(path)) for path, text in self.deleted.items()}

    @cached_property
    def twins(self) -> dict[str, list[Shingle]]:
        return by_first_line(shingle for runs in self.removed.values() for run in runs for shingle in shingles(run))

    @cached_property
    def bodies(self) -> dict[str, list[Shingle]]:
        """Whole bodies of hidden tests; a body of one short line is no secret."""
        wanted = {(path, name) for path, name in map(split_id, self.hidden_tests) if path in self.hidden_texts}
        found = (function_lines(self.hidden_texts[path], name) for path, name in sorted(wanted))
        return by_first_line(body for body in found if len(body) > 1)

    @cached_property
    def prints(self) -> dict[str, tuple[str, str]]:
        """Fingerprint -> (name, exact or renamed) of every deleted function."""
        found: dict[str, tuple[str, str]] = {}
        for path, text in self.deleted.items():
            for name, (exact, renamed) in deleted_functions(text, self._current(path)):
                found[renamed] = name, "renamed"
                found[exact] = name, "exact"
        return found

    @cached_property
    def deleted_bodies(self) -> dict[str, str]:
        """Qualified name -> the lines of its body, of every deleted function that is long enough."""
        found: dict[str, str] = {}
        for path, text in self.deleted.items():
            facts, lines = code_facts(text), text.splitlines()
            functions = facts.functions if facts else {}
            for name, _ in deleted_functions(text, self._current(path)):
                body = functions[name].body
                found[name] = "\n".join(lines[body.start - 1 : body.stop - 1])
        return found

    @cached_property
    def long_lines(self) -> list[bytes]:
        lines = {
            line.strip()
            for path, runs in self.removed.items()
            for raw in [self.deleted[path].splitlines()]
            for run in runs
            for line in (raw[one.number - 1] for one in run)
            if len(line.strip()) >= SHORTEST_BINARY_LINE
        }
        return [line.encode() for line in sorted(lines)]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(symbol.name.rpartition(".")[2] for symbol in self.symbols)

    @cached_property
    def test_names(self) -> dict[str, set[tuple[str, str]]]:
        """Bare function name -> (file, qualified name) of the hidden tests."""
        found: dict[str, set[tuple[str, str]]] = {}
        for path, name in map(split_id, self.hidden_tests):
            found.setdefault(name.rpartition(".")[2], set()).add((path, name))
        return found

    @cached_property
    def file_names(self) -> frozenset[str]:
        return frozenset(PurePosixPath(path).name for path in self.deleted) - {"__init__.py"}


def split_id(test_id: str) -> tuple[str, str]:
    """`tests/test_a.py::TestB::test_c[1-2]` -> its file and `TestB.test_c`."""
    path, name = function_of(test_id)
    return path, name.replace("::", ".")


def walk(tree: Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry with its path in the tree; git's histories are not entered."""
    with os.scandir(tree) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            path = f"{prefix}{entry.name}"
            yield path, entry
            if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                yield from walk(Path(entry.path), f"{path}/")


def folder_findings(path: str, folder: Path) -> Iterator[LeakFinding]:
    suspicion = name_suspicion(path, FOLDERS)
    # An empty folder tells nothing.
    if suspicion is not None and any(files for _, _, files in os.walk(folder)):
        yield LeakFinding(check=suspicion.check, path=path, detail=suspicion.detail)


def file_findings(path: str, file: Path, secrets: Secrets) -> Iterator[LeakFinding]:
    if file.name == ".git":
        yield LeakFinding(check="history", path=path, detail="a link to a history elsewhere")
        return
    suspicion = kind_suspicion(file, secrets.tree)
    if suspicion is not None:
        yield LeakFinding(check=suspicion.check, path=path, detail=suspicion.detail)
        return
    if file.is_symlink():
        return
    with file.open("rb") as handle:
        content = handle.read(LARGEST_FILE_BYTES)
    suspicion = name_suspicion(path, FILES) or byte_suspicion(content)
    if suspicion is not None:
        yield LeakFinding(check=suspicion.check, path=path, detail=suspicion.detail)
    if is_archive(path, content):
        yield from archive_findings(path, content, secrets)
    elif b"\0" in content[:8192]:
        yield from binary_findings(path, content, secrets)
    else:
        yield from text_findings(path, content.decode("utf-8", "replace"), secrets)


def world_findings(secrets: Secrets, world: WorldIndex) -> Iterator[LeakFinding]:
    """Outside the tree: near copies of what was deleted, and definitions of the same name."""
    for copy in world.near_copies(secrets.deleted_bodies):
        yield LeakFinding(
            check=WORLD_CHECK, path=copy.file, detail=f"{copy.share:.0%} of {copy.function}",
            severity="hard" if copy.certain else "soft",
        )  # fmt: skip
    for name in sorted(secrets.names):
        if places := world.defines(name):
            detail = f"defines {name}" + (f", as do {len(places) - 1} others" if len(places) > 1 else "")
            yield LeakFinding(check=WORLD_CHECK, path=places[0], detail=detail, severity="soft")


def archive_findings(path: str, content: bytes, secrets: Secrets) -> Iterator[LeakFinding]:
    try:
        for member in archive_members(content):
            if holds_target(member, secrets.packages, secrets.file_names):
                yield LeakFinding(check="archives", path=path, detail=f"holds {member.name} of the target")
            if first_twin(text_facts(member.content.decode("utf-8", "replace")), secrets.twins):
                yield LeakFinding(check="archives", path=path, detail=f"holds deleted lines in {member.name}")
    except ValueError as error:
        yield LeakFinding(check="archives", path=path, detail=f"cannot be read: {error}", severity="soft")


def binary_findings(path: str, content: bytes, secrets: Secrets) -> Iterator[LeakFinding]:
    lines = secrets.long_lines
    held = sum(line in content for line in lines)
    if lines and held >= min(3, len(lines)):
        yield LeakFinding(check="binary_copies", path=path, detail=f"a binary file with {held} of the deleted lines")


def text_findings(path: str, text: str, secrets: Secrets) -> Iterator[LeakFinding]:
    facts = text_facts(text)
    is_test = any(fnmatch(PurePosixPath(path).name, pattern) for pattern in TEST_PATTERNS)
    twin = first_twin(facts, secrets.twins)
    if twin is not None:
        yield LeakFinding(check="twins", path=path, line=twin.number, detail=f"deleted lines from: {twin.text[:80]}")
    body = first_twin(facts, secrets.bodies)
    if body is not None:
        # A visible test with this body passes without the feature, or the guards would be red: it tests something else.
        yield LeakFinding(
            check="hidden_tests", path=path, line=body.number, detail="the body of a hidden test",
            severity="soft" if is_test else "hard",
        )  # fmt: skip
    if path.endswith(".py"):
        yield from function_findings(path, text, secrets)
    yield from hidden_test_findings(path, text, facts.words, secrets)
    yield from mention_findings(path, text, facts.doctest_words if path.endswith(".py") else facts.words, secrets)


def function_findings(path: str, text: str, secrets: Secrets) -> Iterator[LeakFinding]:
    if not secrets.prints or (facts := code_facts(text)) is None:
        return
    for found, kind in ((facts.exact, "exact"), (facts.renamed, "renamed")):
        for print_ in found.keys() & secrets.prints.keys():
            name, secret_kind = secrets.prints[print_]
            if secret_kind == kind:
                yield LeakFinding(
                    check="twins", path=path, line=found[print_],
                    detail=f"a function with the syntax of {name}" + (", renamed" if kind == "renamed" else ""),
                    severity="soft" if kind == "renamed" else "hard",
                )  # fmt: skip


def hidden_test_findings(path: str, text: str, words: frozenset[str], secrets: Secrets) -> Iterator[LeakFinding]:
    for bare in words & secrets.test_names.keys():
        for file, name in sorted(secrets.test_names[bare]):
            test_id = f"{file}::{name.replace('.', '::')}"
            if test_id in text:
                yield LeakFinding(
                    check="hidden_tests", path=path, line=line_of(text, test_id), detail=f"names {test_id}"
                )
            elif path == file and (facts := code_facts(text)) is not None and name in facts.definitions:
                yield LeakFinding(check="hidden_tests", path=path, line=line_of(text, bare), detail=f"holds {test_id}")
            elif not path.endswith(".py"):
                yield LeakFinding(
                    check="hidden_tests", path=path, line=line_of(text, bare), detail=f"names {bare}", severity="soft"
                )


def mention_findings(path: str, text: str, words: frozenset[str], secrets: Secrets) -> Iterator[LeakFinding]:
    is_documentation = any(fnmatch(PurePosixPath(path).name, pattern) for pattern in DOCUMENTATION)
    severity: Severity = "declared" if is_documentation else "soft"
    for name in sorted(words & secrets.names):
        yield LeakFinding(
            check="mentions", path=path, line=line_of(text, name), detail=f"mentions {name}", severity=severity
        )


def line_of(text: str, part: str) -> int:
    return text.count("\n", 0, max(text.find(part), 0)) + 1
