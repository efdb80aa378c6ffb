"""What is known of a rollout while its steps are gone through: the task's names, and what the agent made itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Self

from .act import Act
from .watched import Watched

TEST_PATH = re.compile(
    r"(^|/)(tests?|testing)/(?!.*__pycache__)(?!\*\*)[^/]*\.py$|(^|/)(tests?|testing)/(?!.*__pycache__)[^*]*\.py$|(^|/)(test_[\w*]+|\w+_test)\.py$|(^|/)tests?/?$"
)
MAKERS = (
    (
        re.compile(r"^(-m )?build\b|setup\.py (sdist|build|bdist\w*|develop|install)|^wheel \."),
        ("dist", "build", "*.egg-info"),
    ),
    (re.compile(r"^wheel\b|^install (-e )?\.|^install -e|^install --editable"), ("build", "*.egg-info")),
)
"""Arguments of Python and pip after which the products of a build are the agent's own."""
TOOLS_WITH_CACHE = {
    "pytest": ".pytest_cache", "mypy": ".mypy_cache", "dmypy": ".mypy_cache", "ruff": ".ruff_cache",
    "coverage": "htmlcov",
    "tox": ".tox", "nox": ".nox", "sphinx-build": "_build", "javac": "*.class", "gcc": "*.o", "make": "build",
    "cmake": "build",
}  # fmt: skip
COMPILES = re.compile(r"-m (compileall|py_compile)\b")
PACKS = re.compile(r"-m (?:zipfile|tarfile) (?:-c|--create) (\S+)")
STASH_LOOKS = re.compile(r"(list|show|pop|apply|branch|drop|clear)\b")
_COMPONENT = re.compile(r"[^/]+")


@dataclass
class Seen:
    """`in_task` says whether this is a rollout in a sealed task, where nothing outside the tree is of use."""

    packages: frozenset[str] = frozenset()
    symbols: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    test_files: frozenset[str] = frozenset()
    in_task: bool = False
    made: set[str] = field(default_factory=set[str])
    stashed: bool = False
    own_history: bool = False
    """Whether the agent made the repository itself: its history is the agent's own."""
    acts: tuple[Act, ...] = ()
    """Of the step that is judged."""

    @classmethod
    def of(cls, watched: Watched) -> Self:
        if watched.evidence is None:
            return cls()
        task = watched.evidence.task
        return cls(
            packages=frozenset(plain_name(package) for package in task.packages),
            symbols=frozenset(part for symbol in task.symbols for part in symbol.name.split(".") if len(part) > 2),
            modules=frozenset(PurePosixPath(symbol.file).stem for symbol in task.symbols),
            test_files=frozenset(task.test_files),
            in_task=True,
        )

    def begin(self, acts: Iterable[Act]) -> None:
        self.acts = tuple(acts)
        self._note_products()

    def note(self, act: Act) -> None:
        """What an act leaves that later ones, of the same step too, may look at."""
        if act.verb == "write" and not is_test(act.target, self):
            self.made.add(act.target.rstrip("/"))
        elif act.verb == "write" and act.target not in self.test_files and act.detail in ("write", "patch", "> cat"):
            self.made.add(act.target)
        elif act.verb == "run" and act.target == "mkdir":
            self.made.update(word.rstrip("/") for word in act.detail.split() if not word.startswith("-"))
        elif act.verb == "run" and (packed := PACKS.search(act.detail)):
            self.made.add(packed[1])
        elif act.verb == "git" and act.target == "init" and not re.search(r"(^|\s)[/~]|\.\.", act.detail):
            self.own_history = True
        elif act.verb == "git" and act.target == "stash" and not STASH_LOOKS.match(act.detail):
            self.stashed = True
        elif act.verb == "unpack" and (found := re.search(r"(?:-d|-C|-e \S+)\s+(\S+)", act.detail)):
            self.made.add(found[1].rstrip("/"))

    def _note_products(self) -> None:
        for act in self.acts:
            if act.verb != "run":
                continue
            if act.target in TOOLS_WITH_CACHE and "no:cacheprovider" not in act.detail:
                self.made.add(TOOLS_WITH_CACHE[act.target])
            module = re.match(r"-m (\w+)", act.detail)
            if module and module[1] in TOOLS_WITH_CACHE and "no:cacheprovider" not in act.detail:
                self.made.add(TOOLS_WITH_CACHE[module[1]])
            if act.target in ("python", "pip", "uv", "poetry", "hatch", "pdm", "flit"):
                for pattern, products in MAKERS:
                    if pattern.search(act.detail):
                        self.made.update(products)
            if COMPILES.search(act.detail):
                self.made.update(("__pycache__", "*.pyc"))

    def own(self, path: str) -> bool:
        """Whether the agent made this file, or a folder above it."""
        if path in self.made:
            return True
        parts = _COMPONENT.findall(path)
        prefixes = {
            ("/" if path.startswith("/") else "") + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)
        }
        if prefixes & self.made or self._names_own_files(path):
            return True
        names = {made for made in self.made if "/" not in made}
        return any(part in names or f"*.{part.rpartition('.')[2]}" in names for part in parts)

    def _names_own_files(self, pattern: str) -> bool:
        """A pattern with a name in it, as `/tmp/*.md`, that fits what the agent has made."""
        last = pattern.rpartition("/")[2]
        if not re.search(r"[*?\[]", pattern) or not re.search(r"\w{2}", last):
            return False
        return any(fnmatchcase(made, pattern) for made in self.made)

    def names_target(self, text: str) -> bool:
        """Whether a text names the task's package, a module of its symbols, or a symbol."""
        words = {plain_name(word) for word in re.findall(r"[A-Za-z_][\w-]*", text)}
        return bool(words & self.packages) or bool(set(re.findall(r"\w+", text)) & (self.symbols | self.modules))

    def names_package(self, text: str) -> bool:
        return bool({plain_name(word) for word in re.findall(r"[A-Za-z_][\w.-]*", text)} & self.packages) or any(
            package in plain_name(text) for package in self.packages if len(package) > 3
        )


def plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name.lower()).strip("_")


def is_test(path: str, seen: Seen) -> bool:
    return path in seen.test_files or TEST_PATH.search(path) is not None
