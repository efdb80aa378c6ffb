"""Attacks as text: commands and code with marks that are filled in per task, woven into ordinary work.

Marks: `«pkg»` and other facts, `«a¦b»` one of several, `«n1»` a made-up name (the same within a case),
`«b64:text»`, `«hex:text»`, `«rev:text»`, `«chr:text»` an encoding of the text, `«bind:f»` the symbol bound to `f`.
"""

import ast
import base64
import posixpath
import random
import re
from collections.abc import Callable
from typing import NamedTuple

from cases import Call, Known

Kind = tuple[int, str, Callable[[Known, random.Random], list[Call]]]
NAMES = (
    "helper probe check_env util scratch notes inspect_it survey overview compare support tooling quick misc local "
    "prep report lookup gather outline digest trace bench sample adapter compat"
).split()
PAIRS = (("(1, 2)", "3"), ("('abc',)", "'cba'"), ("([3, 1, 2],)", "[1, 2, 3]"), ("('a b',)", "['a', 'b']"))


class Write(NamedTuple):
    path: str
    content: str


class Read(NamedTuple):
    path: str


class Tail(NamedTuple):
    """Code at the end of the module; `solved` puts it behind the solution."""

    code: str
    solved: bool = False


class Head(NamedTuple):
    """Code behind the imports of the module."""

    code: str
    solved: bool = False


Step = str | Write | Read | Tail | Head


def registrar(kinds: list[Kind]) -> Callable[..., None]:
    """Gives `kind(number, name, *steps, end=…)`, which adds to the list."""

    def kind(number: int, name: str, *steps: Step, end: str = "any") -> None:
        kinds.append((number, name, lambda known, rng: _attempt(known, rng, number, steps, end)))

    return kind


def _attempt(known: Known, rng: random.Random, number: int, steps: tuple[Step, ...], end: str) -> list[Call]:
    fill = Filler(known, rng)
    core = [_call(step, known, rng, fill) for step in steps]
    keep = any(isinstance(step, Tail | Head) for step in steps) or number in range(17, 23)
    text = repr(core)
    return [*_before(known, rng, fill), *core, *_after(known, rng, fill, end, keep, "pytest" in text)]


def _call(step: Step, known: Known, rng: random.Random, fill: "Filler") -> Call:
    if isinstance(step, str):
        return "bash", {"command": fill(step).strip("\n")}
    if isinstance(step, Write):
        return "write_file", {"path": fill(step.path), "content": fill(step.content).lstrip("\n")}
    if isinstance(step, Read):
        return "read_file", {"path": fill(step.path)}
    base, code = known.gold_text if step.solved else known.module_text, fill(step.code).strip("\n")
    if isinstance(step, Head):
        return "write_file", {"path": known.module_file, "content": behind_imports(base, code)}
    if not step.solved and rng.random() < 0.3:
        return "bash", {"command": f"cat >> {known.module_file} <<'PY'\n\n\n{code}\nPY"}
    return "write_file", {"path": known.module_file, "content": f"{base.rstrip()}\n\n\n{code}\n"}


def behind_imports(text: str, code: str) -> str:
    """The code after the first run of top-level imports, or after the docstring."""
    line = 0
    for index, node in enumerate(ast.parse(text).body):
        is_text = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        line = node.end_lineno or line
    lines = text.splitlines()
    return "\n".join([*lines[:line], "", *code.splitlines(), "", *lines[line:]]) + "\n"


class Filler:
    """Fills marks in, innermost first."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.rng = rng
        names = rng.sample(NAMES, 4)
        head, _, tail = known.symbols[0].rpartition(".")
        self.target = f"{head}.{tail}" if head else tail
        pairs = examples(known, tail)
        folder = posixpath.dirname(known.module_file) or "."
        self.facts = {
            "pkg": known.package,
            "repo": known.repository,
            "file": known.module_file,
            "dir": folder,
            "stem": posixpath.basename(known.module_file).removesuffix(".py"),
            "mod": known.module_file.removeprefix("src/").removesuffix(".py").replace("/", "."),
            "sym": known.symbols[0],
            "fn": tail,
            "test": rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py",
            "tests": posixpath.dirname(known.visible_tests[0]) or "." if known.visible_tests else "tests",
            **{f"n{index}": f"{name}{rng.choice(('', '_2', '_tmp'))}" for index, name in enumerate(names, 1)},
            **{f"in{index}": given for index, (given, _) in enumerate(pairs, 1)},
            **{f"out{index}": result for index, (_, result) in enumerate(pairs, 1)},
        }

    def __call__(self, text: str) -> str:
        while (filled := re.sub(r"«([^«»]*)»", self._mark, text)) != text:
            text = filled
        return text

    def _mark(self, match: re.Match[str]) -> str:
        mark = match[1]
        if mark in self.facts:
            return self.facts[mark]
        kind, _, rest = mark.partition(":")
        if kind == "b64":
            return base64.b64encode(rest.encode()).decode()
        if kind == "hex":
            return rest.encode().hex()
        if kind == "rev":
            return rest[::-1]
        if kind == "chr":
            return ", ".join(str(ord(letter)) for letter in rest)
        if kind == "bind":
            return f"{self.target} = {rest}"
        if "¦" not in mark:
            raise ValueError(f"no such mark: {mark}")
        return self.rng.choice(mark.split("¦"))


def examples(known: Known, name: str) -> list[tuple[str, str]]:
    """Three pairs of arguments and results: from doctests of the symbol where there are some, else made up."""
    found: list[tuple[str, str]] = []
    for inside, result in re.findall(rf">>> {re.escape(name)}\((.*)\)\n\s*(\S.*)", known.gold_text + known.statement):
        given = f"({inside},)" if inside else "()"
        try:
            ast.literal_eval(given), ast.literal_eval(result)
        except (ValueError, SyntaxError):
            continue
        found.append((given, result))
    return (found + list(PAIRS))[:3]


LOOKS = (
    "ls", "ls -la «dir»", "sed -n '1,60p' «file»", "grep -n 'def \\|class ' «file» | head -40", "head -50 «file»",
    "grep -rn '«fn»' --include='*.py' . | head", "cat pyproject.toml 2>/dev/null | head -40", "wc -l «file»",
    "git status --short | head", "cat README* | head -40", "find . -name '*.py' -not -path './.*' | head -30",
    "python -c 'import «mod» as m; print(len(dir(m)))'", "sed -n '1,40p' «test»", "grep -c 'def test' «test»",
)  # fmt: skip
CHECKS = (
    "python -m py_compile «file» && echo fine", "tail -25 «file»", "git diff --stat", "python -c 'import «mod»'",
    "grep -n '«fn»' «file» | head -5", "wc -l «file»",
)  # fmt: skip


def _before(known: Known, rng: random.Random, fill: Filler) -> list[Call]:
    calls: list[Call] = [("bash", {"command": fill(text)}) for text in rng.sample(LOOKS, rng.choice((1, 1, 2)))]
    if rng.random() < 0.3:
        calls[-1] = ("read_file", {"path": known.module_file, "lines": rng.choice((60, 120, 200))})
    return calls


def _after(known: Known, rng: random.Random, fill: Filler, end: str, keep: bool, tested: bool) -> list[Call]:
    calls: list[Call] = []
    if not keep and rng.random() < 0.4:
        calls.append(("write_file", {"path": known.module_file, "content": known.gold_text}))
    if end == "quiet":
        return calls
    if rng.random() < 0.5:
        calls.append(("bash", {"command": fill(rng.choice(CHECKS if end == "any" else CHECKS[1:3]))}))
    draw = rng.random()
    if draw < 0.2 and not tested and end == "any":
        calls.append(("run_tests", {"ids": [fill("«test»")]} if rng.random() < 0.5 else {}))
    if draw < 0.1 or 0.2 <= draw < 0.33:
        calls.append(("submit", {}))
    return calls
