"""Shared helpers of the honest-code sets: solving by edits, placing texts, filling templates. Has no kinds."""

import ast
import difflib
import random
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from cases import Call, Known

Kind = Callable[[Known, random.Random], list[Call]]
KINDS: tuple[tuple[str, Kind], ...] = ()
WORDS = ("helpers", "support", "internals", "common", "shared", "core_utils", "misc", "toolkit", "extras", "bits")
NOUNS = ("item", "entry", "record", "node", "field", "token", "value", "part", "chunk", "element")


def bash(command: str) -> Call:
    return ("bash", {"command": command})


def read(path: str, start: int = 1, lines: int = 400) -> Call:
    return ("read_file", {"path": path, "start": start, "lines": lines})


def write(path: str, content: str) -> Call:
    return ("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def heredoc(path: str, content: str, append: bool = False) -> Call:
    return bash(f"cat {'>>' if append else '>'} {path} <<'EOF'\n{content.rstrip()}\nEOF")


def python(code: str) -> Call:
    return bash(f"python - <<'EOF'\n{code.strip()}\nEOF")


def tests(*ids: str) -> Call:
    return ("run_tests", {"ids": list(ids)} if ids else {})


SUBMIT: Call = ("submit", {})


def put(rng: random.Random, path: str, content: str) -> Call:
    """A new file, in one of the ways agents write one."""
    way = rng.randrange(4)
    if way == 0 and "\nEOF" not in content:
        folder = str(PurePosixPath(path).parent)
        call = heredoc(path, content)
        return call if folder == "." else bash(f"mkdir -p {folder} && {call[1]['command']}")
    return write(path, content)


def append(rng: random.Random, path: str, content: str) -> Call:
    """Text at the end of a file that stays as it is otherwise."""
    way = rng.randrange(3)
    if way == 0:
        return python(
            f"from pathlib import Path\n\npath = Path({path!r})\n"
            f"path.write_text(path.read_text().rstrip() + {content!r})"
        )
    if way == 1:
        return python(f'with open("{path}", "a", encoding="utf-8") as file:\n    file.write({content!r})')
    return heredoc(path, "\n\n" + content.strip("\n"), append=True)


def edits(path: str, before: str, after: str) -> list[Call]:
    """`edit_file` calls that lead from one text to the other, each old text being there once."""
    calls: list[Call] = []
    old_lines, new_lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    current = before
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for tag, low, high, new_low, new_high in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        start, stop = low, high
        while True:
            old = "".join(old_lines[start:stop])
            if old.strip() and current.count(old) == 1:
                break
            if start == 0 and stop == len(old_lines):
                return [write(path, after)]
            start, stop = max(0, start - 1), min(len(old_lines), stop + (1 if start == 0 else 0))
        head, tail = "".join(old_lines[start:low]), "".join(old_lines[high:stop])
        new = head + "".join(new_lines[new_low:new_high]) + tail
        current = current.replace(old, new, 1)
        calls.append(edit(path, old, new))
    return calls if current == after and calls else [write(path, after)]


def solve(known: Known, rng: random.Random, text: str | None = None) -> list[Call]:
    """The module as `text`, or as it should be, in one of three ways."""
    after = known.gold_text if text is None else text
    way = rng.randrange(3)
    if way == 0:
        return [write(known.module_file, after)]
    if way == 1:
        found = edits(known.module_file, known.module_text, after)
        return found if len(found) <= 4 else [write(known.module_file, after)]
    if "\nEOF" in after:
        return [write(known.module_file, after)]
    return [heredoc(known.module_file, after)]


def look(known: Known, rng: random.Random) -> list[Call]:
    """One or no reading call."""
    name = known.symbols[0].rpartition(".")[2]
    options: list[list[Call]] = [
        [],
        [read(known.module_file)],
        [bash(f"grep -rn {name} {known.package} | head -40")],
        [bash(f"sed -n '1,120p' {known.module_file}")],
        [bash("git status --short; ls")],
        [bash(f'grep -n "^def \\|^class " {known.module_file}')],
    ]
    return rng.choice(options)


def close(known: Known, rng: random.Random, target: str | None = None) -> list[Call]:
    """In a third of the attempts a test run or the end."""
    draw = rng.random()
    if draw < 0.16:
        return [tests(target) if target else tests()]
    if draw < 0.28:
        return [SUBMIT]
    if draw < 0.34:
        return [tests(), SUBMIT]
    if draw < 0.5:
        return [bash(f"python -m py_compile {known.module_file} && git diff --stat")]
    return []


def dotted(known: Known) -> str:
    """The importable name of the module."""
    parts = list(PurePosixPath(known.module_file).with_suffix("").parts)
    if known.package in parts:
        parts = parts[parts.index(known.package) :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tests_folder(known: Known) -> str:
    folder = str(PurePosixPath(known.visible_tests[0]).parent) if known.visible_tests else "tests"
    return "" if folder == "." else folder + "/"


def package_folder(known: Known) -> str:
    parts = PurePosixPath(known.module_file).parts
    if known.package in parts:
        return "/".join(parts[: parts.index(known.package) + 1]) + "/"
    return "/".join(parts[:-1]) + "/" if len(parts) > 1 else ""


def fill(known: Known, rng: random.Random, template: str) -> str:
    """A template with the names of the task; the same draw for each place."""
    values = {
        "@PKG@": known.package,
        "@UP@": known.package.upper(),
        "@MOD@": dotted(known),
        "@FILE@": known.module_file,
        "@TOP@": known.symbols[0].partition(".")[0],
        "@SYM@": known.symbols[0],
        "@NAME@": known.symbols[0].rpartition(".")[2].strip("_") or "thing",
        "@TESTS@": tests_folder(known),
        "@PD@": package_folder(known),
        "@TEST@": known.visible_tests[0] if known.visible_tests else "tests/test_basic.py",
        "@REPO@": known.repository,
        "@W@": rng.choice(WORDS),
        "@X@": rng.choice(NOUNS),
        "@N@": str(rng.randrange(12, 2400)),
        "@K@": str(rng.randrange(2, 9)),
    }
    for key, value in values.items():
        template = template.replace(key, value)
    return template


def add_file(*places: str, text: str, solved: bool = True) -> Kind:
    """The feature written, and beside it a new file."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        path, _, body = fill(known, rng, f"{rng.choice(places)}\0{text.lstrip()}").partition("\0")
        own = [put(rng, path, body)]
        target = path if PurePosixPath(path).name.startswith("test_") else None
        if not solved:
            return [*look(known, rng), *own, *close(known, rng, target)]
        work = solve(known, rng)
        order = [*own, *work] if rng.random() < 0.4 else [*work, *own]
        return [*look(known, rng), *order, *close(known, rng, target)]

    return kind


def with_code(known: Known, imports: str, code: str, text: str | None = None) -> str:
    """The solved module with imports after its docstring and code at its end."""
    source = known.gold_text if text is None else text
    lines = source.splitlines(keepends=True)
    at = 0
    for node in ast.parse(source).body:
        plain = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not plain and not future:
            break
        at = node.end_lineno or 0
    head = "".join(lines[:at])
    gap = "\n" if head and not head.endswith("\n\n") else ""
    middle = f"{gap}{imports.strip()}\n" if imports.strip() else ""
    end = f"\n\n\n{code.strip()}\n" if code.strip() else ""
    return head + middle + "".join(lines[at:]).rstrip() + end + ("" if end else "\n")


def in_module(imports: str, code: str, after: Sequence[str] = ()) -> Kind:
    """The feature written, and with it more code in the same file."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        more, _, body = fill(known, rng, f"{imports}\0{code}").partition("\0")
        checks = [bash(fill(known, rng, rng.choice(after)))] if after and rng.random() < 0.6 else []
        return [*look(known, rng), *solve(known, rng, with_code(known, more, body)), *checks, *close(known, rng)]

    return kind


def function_of(known: Known) -> ast.FunctionDef | None:
    """The first of the task's functions or methods that the solved file has."""
    tree = ast.parse(known.gold_text)
    wanted = {name.rpartition(".")[2] for name in known.symbols}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    named = [node for node in found if node.name in wanted]
    return (named or found or [None])[0]


def replace_lines(text: str, low: int, high: int, new: str) -> str:
    """Lines `low` to `high`, from 1 and both included, exchanged."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: low - 1]) + new.rstrip("\n") + "\n" + "".join(lines[high:])


def before_body(known: Known, statement: str) -> str:
    """The solved module with a statement at the start of the task's function, after its docstring."""
    node = function_of(known)
    if node is None:
        return known.gold_text
    first = node.body[0]
    plain = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if first.lineno == node.lineno:
        return known.gold_text
    pad = " " * first.col_offset
    new = "".join(pad + line + "\n" for line in statement.splitlines())
    lines = known.gold_text.splitlines(keepends=True)
    at = (first.end_lineno or first.lineno) if plain else first.lineno - 1
    return "".join(lines[:at]) + new + "".join(lines[at:])


def decorated(known: Known, decorator: str) -> str:
    """The solved module with one more decorator on the task's function."""
    node = function_of(known)
    if node is None:
        return known.gold_text
    at = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
    if node.decorator_list:
        at = node.lineno - 1
    lines = known.gold_text.splitlines(keepends=True)
    return "".join(lines[:at]) + " " * node.col_offset + f"@{decorator}\n" + "".join(lines[at:])
