"""Puts together what an attempt left behind, for `evidence`: facts of the task, texts before and after, the grade.

Reads the task's folder, also its trusted tests, and the changes of a sandbox. Writes nothing. Long texts are cut and
very many files are left out, those first that no interpreter, test runner or start-up reads.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from composer_replication.syntax import parse

from ...evidence import GradeFacts, TaskFacts
from ..sandbox.interface import Changes
from ..tasks.task import Grade, TaskFolder
from ..tasks.trees import content_of, files_of
from .shown_examples import shown_examples

MOST_FILES, MOST_CHARS, MOST_BINARY_BYTES = 300, 200_000, 4_000
MOST_LITERALS, LONGEST_LITERAL, MOST_TEST_BYTES = 600, 80, 2_000_000
OFTEN_READ = (".py", ".ini", ".cfg", ".toml", ".pth", ".txt", ".json", ".xml", ".sh")


class Texts(NamedTuple):
    before: dict[str, str]
    written: dict[str, str]
    left_out: int


def task_facts(task: TaskFolder) -> TaskFacts:
    known = task.code_task
    names = frozenset(symbol.name.rpartition(".")[2] for symbol in known.symbols)
    by_suffix = _files_by_suffix(task.tree, known.task.visible_hash)
    return TaskFacts(
        task_id=known.task.task_id,
        packages=known.packages,
        symbols=known.symbols,
        test_files=known.test_files,
        editable=known.editable,
        files=sum(by_suffix.values()),
        files_by_suffix=by_suffix,
        test_literals=_test_literals(task.overlay, task.tree, known.test_files, names, known.task.task_id),
        examples=tuple(dict.fromkeys(shown_examples(known.task.statement, names))),
    )


def grade_facts(grade: Grade) -> GradeFacts:
    return GradeFacts(
        reward=grade.reward,
        hidden_passed=len(grade.hidden_passed),
        hidden_failed=len(grade.hidden_failed),
        guards_broken=grade.guards_broken,
        dropped=grade.dropped,
        notes=grade.notes,
    )


def changed_texts(changes: Changes, tree: Path, planted: Mapping[str, bytes]) -> Texts:
    """`planted` are files that were laid over the tree before the agent came."""
    kept = sorted(changes.written, key=lambda path: (not (tree / path).is_file(), not path.endswith(OFTEN_READ), path))
    written = {path: _text(changes.written[path]) for path in kept[:MOST_FILES]}
    before: dict[str, str] = {}
    for path in (*written, *changes.removed):
        content = planted[path] if path in planted else content_of(tree / path)
        if content is not None and len(before) < 2 * MOST_FILES:
            before[path] = _text(content)
    return Texts(before, dict(sorted(written.items())), len(kept[MOST_FILES:]))


def _text(content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return content[:MOST_BINARY_BYTES].decode("latin-1")
    return text[:MOST_CHARS]


@lru_cache(maxsize=64)
def _files_by_suffix(tree: Path, visible_hash: str) -> dict[str, int]:
    return dict(sorted(Counter(PurePosixPath(path).suffix for path in files_of(tree)).items()))


@lru_cache(maxsize=64)
def _test_literals(
    overlay: Path, tree: Path, test_files: tuple[str, ...], names: frozenset[str], task_id: str
) -> tuple[str, ...]:
    """Those of tests that name a symbol of the task come first."""
    near: dict[str, None] = {}
    far: dict[str, None] = {}
    left_bytes = MOST_TEST_BYTES
    for path in test_files:
        for folder in (overlay, tree):
            content = content_of(folder / path)
            if content is None or PurePosixPath(path).suffix != ".py" or len(content) > left_bytes:
                continue
            left_bytes -= len(content)
            text = content.decode("utf-8", "replace")
            literals = near if any(name in text for name in names) else far
            literals.update(dict.fromkeys(_literals(text)))
            break
    return (*near, *(literal for literal in far if literal not in near))[:MOST_LITERALS]


def _literals(text: str) -> Iterator[str]:
    """Texts, and lists, tuples, sets and dicts of constants; single numbers say nothing."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and len(node.value) > 1:
            value: object = node.value
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            try:
                value = ast.literal_eval(node)
            except (ValueError, TypeError, MemoryError, RecursionError):
                continue
        else:
            continue
        shown = repr(value)
        if 3 < len(shown) <= LONGEST_LITERAL:
            yield shown
