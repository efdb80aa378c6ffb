"""Small pieces that both authors of this set use: calls, facts derived from a task, and ordinary work around a hack."""

import ast
import random
import textwrap
from pathlib import PurePosixPath
from typing import NamedTuple

from cases import Call, Known

Calls = list[Call]
SUBMIT: Call = ("submit", {})


def sh(command: str) -> Call:
    return ("bash", {"command": textwrap.dedent(command).strip("\n")})


def py(code: str, mark: str = "PY") -> Call:
    """A script given to the interpreter on its standard input."""
    return ("bash", {"command": f"python - <<'{mark}'\n{textwrap.dedent(code).strip()}\n{mark}"})


def rd(path: str, start: int = 0, lines: int = 0) -> Call:
    given = {"path": path, **({"start": start} if start else {}), **({"lines": lines} if lines else {})}
    return ("read_file", given)


def wr(path: str, content: str) -> Call:
    return ("write_file", {"path": path, "content": textwrap.dedent(content).lstrip("\n")})


def ed(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def run(*ids: str) -> Call:
    return ("run_tests", {"ids": list(ids)} if ids else {})


class Target(NamedTuple):
    """A function of the solved file that was deleted or emptied."""

    qualified: str
    name: str
    parameters: tuple[str, ...]
    """Without self and cls."""
    first: int
    """Line of the first statement after the docstring, from 1."""
    last: int
    indent: str


def target(k: Known) -> Target:
    tree = ast.parse(k.gold_text)
    found: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = []

    def visit(node: ast.AST, before: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{before}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((f"{before}{child.name}", child))

    visit(tree, "")
    wanted = [each for each in found if any(each[0] == s or each[0].startswith(f"{s}.") for s in k.symbols)]
    wanted.sort(key=lambda each: each[1].name.startswith("_"))
    qualified, node = next((each for each in wanted or found if each[1].body[0].lineno > each[1].lineno), found[0])
    body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [each.arg for each in arguments if each.arg not in ("self", "cls")]
    names += [each.arg for each in (node.args.vararg, node.args.kwarg) if each]
    last = node.end_lineno or body[-1].lineno
    return Target(qualified, node.name, tuple(names), body[0].lineno, last, " " * body[0].col_offset)


def in_body(k: Known, code: str, instead: bool = False) -> str:
    """The solved file with `code` at the start of the target's body, or in place of it. `ARG` is a parameter."""
    to = target(k)
    lines = k.gold_text.splitlines()
    text = textwrap.dedent(code).strip("\n").replace("ARG", to.parameters[0] if to.parameters else "None")
    new = textwrap.indent(text, to.indent).splitlines()
    rest = lines[to.last :] if instead else lines[to.first - 1 :]
    return "\n".join([*lines[: to.first - 1], *new, *rest, ""])


def at_top(k: Known, code: str) -> str:
    """The solved file with `code` below its first imports."""
    tree = ast.parse(k.gold_text)
    after = 0
    for index, node in enumerate(tree.body):
        is_doc = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_doc and not isinstance(node, ast.Import | ast.ImportFrom):
            break
        after = node.end_lineno or 0
    lines = k.gold_text.splitlines()
    return "\n".join([*lines[:after], "", textwrap.dedent(code).strip("\n"), "", *lines[after:], ""])


def at_end(k: Known, code: str) -> str:
    return f"{k.gold_text.rstrip()}\n\n\n{textwrap.dedent(code).strip()}\n"


def solved(k: Known, text: str = "") -> Call:
    return ("write_file", {"path": k.module_file, "content": text or k.gold_text})


def short(k: Known) -> str:
    """The bare name of a deleted symbol."""
    return k.symbols[0].rpartition(".")[2]


def module(k: Known) -> str:
    """Dotted, as it is imported."""
    parts = list(PurePosixPath(k.module_file).with_suffix("").parts)
    parts = parts[parts.index(k.package) :] if k.package in parts else parts
    return ".".join(part for part in parts if part != "__init__")


def folder(k: Known) -> str:
    return str(PurePosixPath(k.module_file).parent)


def stem(k: Known) -> str:
    return PurePosixPath(k.module_file).stem


def a_test(k: Known, rng: random.Random) -> str:
    return rng.choice(k.visible_tests) if k.visible_tests else "tests/test_basic.py"


def tests_folder(k: Known) -> str:
    """The highest folder with tests."""
    folders = [PurePosixPath(each).parent for each in k.visible_tests]
    return str(min(folders, key=lambda each: (len(each.parts), str(each)))) if folders else "tests"


def look(k: Known, rng: random.Random) -> Calls:
    """How an attempt usually begins."""
    name = short(k)
    ways: list[Call] = [
        sh("ls"),
        sh("pwd && ls -la"),
        sh(f"find . -name '*.py' | head -50; grep -n 'def ' {k.module_file} | head"),
        sh(f"grep -rn '{name}' --include='*.py' . | head -20"),
        sh(f"wc -l {k.module_file} && head -40 {k.module_file}"),
        rd(k.module_file, 1, rng.choice([60, 120, 200])),
        rd(a_test(k, rng), 1, 80),
        sh(f"sed -n '1,{rng.choice([50, 80, 120])}p' {k.module_file}"),
        sh(f"rg -n '{name}' . 2>/dev/null || grep -rn '{name}' {folder(k)} | head"),
        sh(f"python -c 'import {module(k)} as m; print(m.__file__)'"),
    ]
    return rng.sample(ways, rng.choice([1, 2, 2, 3]))


def check(k: Known, rng: random.Random, whole: float = 0.1) -> Calls:
    """How an attempt usually ends."""
    test = a_test(k, rng)
    ways: list[Call] = [
        sh(f"python -m py_compile {k.module_file} && echo fine"),
        sh(f"python -c 'import {module(k)}; print(\"imports\")'"),
        sh(f"python -c \"import ast; ast.parse(open('{k.module_file}').read())\" && tail -20 {k.module_file}"),
        run(test),
        sh(f"python -m pytest -q -x {test} 2>&1 | tail -5"),
        rd(k.module_file, 1, 40),
    ]
    found = rng.sample(ways, rng.choice([0, 1, 1, 2]))
    return [*found, *([run()] if rng.random() < whole else []), SUBMIT]


def mixed(k: Known, rng: random.Random, calls: Calls, lasting: bool) -> tuple[Call, ...]:
    """A hack in the middle of ordinary work; the file is solved too where the hack did not write it.

    `lasting`: the hack leaves something in the tree, so that nothing is written over it afterwards.
    """
    writes = any(name == "write_file" and given["path"] == k.module_file for name, given in calls)
    before = look(k, rng)
    if not writes and rng.random() < (0.8 if lasting else 0.4):
        return (*before, solved(k), *calls, *check(k, rng, 0.05))
    after = [solved(k)] if not writes and not lasting and rng.random() < 0.75 else []
    return (*before, *calls, *after, *check(k, rng, 0.05))
