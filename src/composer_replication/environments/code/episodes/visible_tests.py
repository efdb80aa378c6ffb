"""The tests that a policy may see run on its definition: those that its statement shows, the examples of the
documentation, and some that are left in the tree.

A task hides every test of the deleted code from the tree, so the first two kinds are the ones that cover it. They are
laid in as files of their own, which hold nothing that the statement or the tree does not show. Only those that the
solution passes are kept: that run is in a sandbox that no policy ever sees, once per task. What a policy reads of a run
leaves out times and places, so that the same failure reads the same.
"""

from __future__ import annotations

import ast
import doctest
import re
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from composer_replication.syntax import parse

from ..tasks.repository import module_name
from ..tasks.symbols import DefinitionNode, docstring_node, parse_module
from ..tasks.task import TaskFolder
from ..tasks.test_ids import file_of
from .session import SessionLimits, TaskSession, TestReport

MOST_GUARDS = 30
RUN_S = 20.0
_SHOWN_TEST = re.compile(r"^```python\n(def (test\w*)\(.*?)\n```$", re.DOTALL | re.MULTILINE)
_DOCUMENTATION = '''\
"""Examples that the documentation shows."""

import doctest
import importlib

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def check(name):
    told = []
    module, text = EXAMPLES[name]
    names = dict(vars(importlib.import_module(module)))
    examples = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(examples, out=told.append)
    assert not told, "".join(told)
'''
MOST_FAILURES = 3
MOST_LINES = 8
MOST_CHARS = 1200
LAST_LINES = 12
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_SECTION = re.compile(r"^_{3,} (?:ERROR \w+ (?:of |at \w+ of )?|ERROR collecting )?(.+?) _{3,}$", re.MULTILINE)
_PASSES = re.compile(r"^={3,} PASSES ={3,}$.*?(?=^={3,} |\Z)", re.DOTALL | re.MULTILINE)
"""What tests printed that passed."""
_ENDS = re.compile(r"^={3,} |^-{3,} Captured", re.MULTILINE)
_PLACE = re.compile(r"^\S+:\d+: ")
_NOISE = re.compile(
    r"^(?:E\s+)?(?:(?:AssertionError: )?\*+|Line \d+, in .*|Use -v to get more diff|check\(.*\)"
    r'|Traceback \(most recent call last\):|File "[^"]*", line \d+, in .*|exec\(compile\(example\.source, .*'
    r"|compileflags, True\), .*|[\^~]+|assert not told, .*|assert not \[['\"]\*{3,}.*)?$"
)
"""Of a failed example of the documentation, also the way through `doctest` to it."""
PUT_IN = "The block was put in"


@dataclass(frozen=True)
class VisibleTests:
    laid_in: dict[str, str]
    covering: tuple[str, ...]
    """Ids of tests that run what was asked for."""
    others: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self.covering, *self.others)


@dataclass
class VisibleTestsOf:
    """Finds them once per task, whoever asks first."""

    backend: str
    _found: dict[str, VisibleTests] = field(default_factory=dict[str, VisibleTests])
    _locks: dict[str, threading.Lock] = field(default_factory=dict[str, threading.Lock])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, task: TaskFolder) -> VisibleTests:
        task_id = task.code_task.task.task_id
        with self._lock:
            own = self._locks.setdefault(task_id, threading.Lock())
        with own:
            if task_id not in self._found:
                self._found[task_id] = visible_tests(task, self.backend)
            return self._found[task_id]


def visible_tests(task: TaskFolder, backend: str) -> VisibleTests:
    others = tuple(_nearby_guards(task))
    laid_in = {**_shown_tests(task), **_documentation_tests(task)}
    if not laid_in:
        return VisibleTests({}, (), others)
    limits = SessionLimits(command_s=RUN_S)
    with TaskSession(task, backend, limits, audit=False, laid_in=laid_in | dict(_gold_texts(task))) as session:
        told = outcomes(session.test_output(tuple(laid_in)))
    covering = tuple(test for test, passed in told.items() if passed)
    used = {file_of(test) for test in covering}
    return VisibleTests({path: text for path, text in laid_in.items() if path in used}, covering, others)


def _gold_texts(task: TaskFolder) -> Iterator[tuple[str, str]]:
    for symbol in task.code_task.symbols:
        yield symbol.file, _text(task.gold / symbol.file) or ""


def _shown_tests(task: TaskFolder) -> dict[str, str]:
    """Test functions of the statement, each next to its own file and with the imports of that."""
    shown = {name: text for text, name in _SHOWN_TEST.findall(task.code_task.task.statement)}
    files: dict[str, str] = {}
    for path in task.code_task.test_files if shown else ():
        text = _text(task.overlay / path) or _text(task.tree / path)
        if text is None or not any(f"def {name}(" in text for name in shown):
            continue
        module = parse_module(path, text)
        imports = [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        bare = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list}
        tests = [shown[name] for name in sorted(shown) if name in bare]
        if tests:
            pure = PurePosixPath(path)
            name = (pure.parent / f"test_shown_{pure.stem.removeprefix('test_')}.py").as_posix()
            files[name] = "\n\n\n".join(["\n".join(map(ast.unparse, imports)), *tests]) + "\n"
    return files


def _documentation_tests(task: TaskFolder) -> dict[str, str]:
    known = task.code_task
    examples: dict[str, tuple[str, str]] = {}
    for symbol in known.symbols:
        gold = _text(task.gold / symbol.file)
        node = _definition(gold, symbol.name) if gold else None
        documented = docstring_node(node) if node else None
        text = str(documented.value.value) if documented and isinstance(documented.value, ast.Constant) else ""
        if text and shows_examples(text, known.task.statement + (_text(task.tree / symbol.file) or "")):
            examples[symbol.name] = (module_name(symbol.file, task.code_task.source_roots), text)
    checks = [f"def test_documentation_of_{name.replace('.', '_')}():\n    check({name!r})\n" for name in examples]
    folder = PurePosixPath(known.test_files[0]).parent if known.test_files else PurePosixPath(".")
    written = "\n\n".join([_DOCUMENTATION, f"EXAMPLES = {examples!r}\n", *checks])
    return {(folder / "test_documentation.py").as_posix(): written} if checks else {}


def shows_examples(text: str, seen: str) -> bool:
    """Whether there are examples, and each line of them can be seen."""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return False
    lines = [line for each in examples for line in (each.source + each.want).splitlines()]
    return bool(examples) and all(line.strip() in seen for line in lines)


def _definition(text: str, name: str) -> DefinitionNode | None:
    return next((each.node for each in parse_module("", text).definitions if each.symbol.name == name), None)


def _nearby_guards(task: TaskFolder) -> Iterator[str]:
    """Tests of the tree that pass before and after, from files that import the module, shortest names first."""
    modules = {module_name(symbol.file, task.code_task.source_roots) for symbol in task.code_task.symbols}
    guards = sorted(task.code_task.guard_tests, key=lambda test: (len(test), test))
    near = {path for path in {file_of(test) for test in guards} if _imports_any(task.tree / path, modules)}
    yield from [test for test in guards if file_of(test) in near][:MOST_GUARDS]


def _imports_any(path: Path, modules: set[str]) -> bool:
    try:
        tree = parse(_text(path) or "")
    except (SyntaxError, ValueError, RecursionError):
        return False
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return bool(found & modules) or any(module.startswith(f"{name}.") for module in modules for name in found)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8") if path.is_file() else None
    except UnicodeDecodeError:
        return None


def outcomes(printed: str) -> dict[str, bool]:
    """Test id -> whether it passed."""
    found: dict[str, bool] = {}
    for outcome, test in _OUTCOME.findall(printed):
        found[test] = outcome == "PASSED" and found.get(test, True)
    return found


def test_report(printed: str, covering: Collection[str]) -> TestReport:
    """`covering` are the tests that run what was asked for; others only show that nothing else broke."""
    told = outcomes(printed)
    failing = [test for test, passed in told.items() if not passed]
    if failing or (printed and not told):
        number = f"{len(failing)} of {len(told)} visible tests fail" if told else "the visible tests could not run"
        return TestReport(f"{PUT_IN}, and {number}.\n{_reasons(printed)}"[:MOST_CHARS].rstrip(), failed=True)
    if not covering:
        return TestReport(f"{PUT_IN}; no visible test covers it. The work is handed in.", failed=False)
    return TestReport(f"{PUT_IN}, and {len(told)} visible tests pass. The work is handed in.", failed=False)


test_report.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def _reasons(printed: str) -> str:
    parts = _SECTION.split(_PASSES.sub("", printed))
    titles, bodies = parts[1::2], parts[2::2]
    told = [f"{title}:\n{_shown(body)}" for title, body in zip(titles, bodies, strict=True)]
    if not told:
        return "\n".join(printed.strip().splitlines()[-LAST_LINES:])
    left = f"\n({len(told) - MOST_FAILURES} more)" if len(told) > MOST_FAILURES else ""
    return "\n".join(told[:MOST_FAILURES]) + left


def _shown(body: str) -> str:
    """The line of the test that failed and what pytest says of it."""
    text = _ENDS.split(body, maxsplit=1)[0]
    lines = [
        line for line in text.splitlines() if line.strip() and not _PLACE.match(line) and not _NOISE.match(line.strip())
    ]
    said = [line for line in lines if line.startswith("E ")] or lines
    first = next((line.strip() for line in lines if not line.startswith("E ")), "")
    reasons = [line.removeprefix("E").strip() for line in said[:MOST_LINES]]
    return "\n".join(f"  {line}" for line in dict.fromkeys([first, *reasons]) if line)
