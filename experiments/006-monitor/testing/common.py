"""Facts of a task in the form that authors use, the six tools as functions, and ways to bring a text into a file."""

import ast
import difflib
import random
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from cases import Call, Known

ROOTS = ("src", "lib", "python")


def bash(command: str) -> Call:
    return ("bash", {"command": command})


def read(path: str, start: int = 0, lines: int = 0) -> Call:
    arguments: dict[str, Any] = {"path": path}
    if start:
        arguments |= {"start": start, "lines": lines or 80}
    return ("read_file", arguments)


def write(path: str, content: str) -> Call:
    """`write_file`; for a place outside the working folder, which it refuses, a here-document."""
    if path.startswith("/"):
        folder = "mkdir -p " + path.rpartition("/")[0] + " && " if not path.startswith("/tmp/") else ""
        return bash(f"{folder}cat > {path} <<'END_TEXT'\n{content.rstrip()}\nEND_TEXT")
    return ("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def run_tests(*ids: str) -> Call:
    return ("run_tests", {"ids": list(ids)} if ids else {})


def submit() -> Call:
    return ("submit", {})


class Facts:
    """What the names in an author's text stand for: `@pkg@`, `@file@`, `@sym@` and so on; see `fill`."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.known, self.rng = known, rng
        self.file, self.text, self.gold = known.module_file, known.module_text, known.gold_text
        path = PurePosixPath(self.file)
        self.dir, self.stem = str(path.parent), path.stem
        inside = [part for part in path.with_suffix("").parts if part not in ROOTS]
        self.pkg = inside[0]
        self.dotted = ".".join(part for part in inside if part != "__init__")
        self.root = path.parts[0] if path.parts[0] in ROOTS else "."
        plain = [name for name in known.symbols if "." not in name]
        self.qualified = rng.choice(plain or list(known.symbols) or [self.stem])
        self.owner, _, self.sym = self.qualified.rpartition(".")
        self.names = [name.rpartition(".")[2] for name in known.symbols] or [self.sym]
        self.tests = list(known.visible_tests) or [
            name for name in known.files if "test" in name and name.endswith(".py")
        ]
        near = [name for name in self.tests if self.stem.strip("_") in name]
        self.test = rng.choice(near or self.tests or [f"tests/test_{self.stem}.py"])
        self.test_dir = str(PurePosixPath(self.test).parent)
        self.sources = [name for name in known.files if name.endswith(".py") and name not in self.tests] or [self.file]
        self.docs = [name for name in known.files if name.endswith((".md", ".rst", ".txt"))] or ["README.md"]
        self.configs = [name for name in known.files if name in CONFIGS] or ["pyproject.toml"]

    def fill(self, text: str) -> str:
        for name in ("file", "dir", "stem", "pkg", "dotted", "root", "sym", "test", "test_dir"):
            text = text.replace(f"@{name}@", getattr(self, name))
        return text.replace("@repo@", self.known.repository).replace("@path@", self.dotted.replace(".", "/"))


CONFIGS = (
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "pytest.ini",
    "setup.py",
    "conftest.py",
    "MANIFEST.in",
    "noxfile.py",
)


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def placed(text: str, code: str, where: str = "end") -> str:
    """The module with more code: at its end, or below its imports."""
    code = code.strip("\n")
    if where == "top":
        imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
        if imports:
            lines = text.splitlines(keepends=True)
            last = imports[-1].end_lineno or 0
            found = "".join([*lines[:last], f"\n{code}\n\n", *lines[last:]])
            if parses(found):
                return found
    return f"{text.rstrip()}\n\n\n{code}\n"


def examples(statement: str) -> list[tuple[str, str]]:
    """Calls and results that the statement shows."""
    lines = [re.sub(r"^\s*>? ?", "", line).strip() for line in statement.splitlines()]
    return [
        (line[4:].split("#")[0].strip(), after)
        for line, after in pairwise(lines)
        if line.startswith(">>> ") and after and not after.startswith((">>>", "...", "```")) and parses(after)
    ]


@lru_cache(maxsize=64)
def changed(old: str, new: str) -> tuple[tuple[int, int, int, int], ...]:
    """Ranges of lines that differ; what both texts begin and end with is not compared again."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    most -= head
    tail = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    codes = difflib.SequenceMatcher(None, *middle).get_opcodes()
    return tuple((a + head, b + head, c + head, d + head) for kind, a, b, c, d in codes if kind != "equal")


def hunks(old: str, new: str) -> list[tuple[str, str]]:
    """Pairs of texts, each once in the file when its turn comes, that make the new text from the old one."""
    current, wanted = old.splitlines(keepends=True), new.splitlines(keepends=True)
    found: list[tuple[str, str]] = []
    for start, end, new_start, new_end in reversed(changed(old, new)):
        low, high, whole = start, end, "".join(current)
        while low == high or whole.count("".join(current[low:high])) != 1:
            if low == 0 and high == len(current):
                break
            low, high = max(0, low - 1), min(len(current), high + 1)
        before = current[low:high]
        after = [*current[low:start], *wanted[new_start:new_end], *current[end:high]]
        found.append(("".join(before), "".join(after)))
        current[start:end] = wanted[new_start:new_end]
    return found


def unified(path: str, old: str, new: str) -> str:
    """A diff as `patch -p1` reads it."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    lines = [f"--- a/{path}\n", f"+++ b/{path}\n"]
    for start, end, new_start, new_end in changed(old, new):
        # One hunk per change, without context: exact positions are enough for an unchanged file.
        head = (
            f"@@ -{start + (start < end)},{end - start} +{new_start + (new_start < new_end)},{new_end - new_start} @@\n"
        )
        lines += [head, *(f"-{line}" for line in before[start:end]), *(f"+{line}" for line in after[new_start:new_end])]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def put(facts: Facts, new: str, how: str = "", path: str = "", old: str = "") -> list[Call]:
    """Calls that bring the new text into a file, in one of several ways."""
    rng, path, old = facts.rng, path or facts.file, old or facts.text
    few = 0 < len(changed(old, new)) <= 5 and bool(old)
    short = len(new) < 60_000 and new.endswith("\n") and "\0" not in new
    ways = ["write"]
    ways += ["edit", "edit", "replace", "diff"] if few else []
    ways += ["heredoc"] if short else []
    how = how if how in ways else rng.choice(ways)
    mark = rng.choice(("EOF", "PY", "END_OF_FILE", "_MODULE_")) + str(rng.randrange(100))
    pieces = hunks(old, new) if how in ("edit", "replace") else []
    if how == "edit":
        return [edit(path, before, after) for before, after in pieces]
    if how == "replace":
        steps = "".join(f"text = text.replace({before!r}, {after!r}, 1)\n" for before, after in pieces)
        return [
            bash(
                f"python - <<'{mark}'\npath = {path!r}\ntext = open(path).read()\n"
                f"{steps}open(path, 'w').write(text)\n{mark}"
            )
        ]
    if how == "diff":
        shown = unified(path, old, new)
        name = rng.choice(("change", "work", "fix", "restore"))
        return [write(f"/tmp/{name}.patch", shown), bash(f"patch -p1 < /tmp/{name}.patch")]
    if how == "heredoc":
        return [bash(f"cat > {path} <<'{mark}'\n{new}{mark}")]
    return [write(path, new)]


def wrong(facts: Facts) -> str:
    """The solution with one thing wrong in it."""
    rng, lines = facts.rng, facts.gold.splitlines(keepends=True)
    fresh = set(facts.text.splitlines(keepends=True))
    swaps = [(" == ", " != "), (" < ", " <= "), (" + ", " - "), (" and ", " or "), ("True", "False"), (" not ", " ")]
    swaps += [("0", "1"), ("1", "2"), ("return ", "return not "), ("None", "0")]
    places = [
        (number, swap) for number, line in enumerate(lines) if line not in fresh for swap in swaps if swap[0] in line
    ]
    rng.shuffle(places)
    for number, (before, after) in places:
        found = "".join([*lines[:number], lines[number].replace(before, after, 1), *lines[number + 1 :]])
        if parses(found):
            return found
    return placed(facts.gold, f"# TODO: {facts.sym} may need more care.")


def stub(facts: Facts, body: str, arguments: str = "*args, **kwargs", doc: str = "") -> str:
    """A definition of the symbol, as a function or as a method that is given to its class."""
    inner = "\n".join(f"    {line}" if line.strip() else "" for line in body.strip("\n").splitlines())
    doc = f'    """{doc}"""\n' if doc else ""
    if not facts.owner:
        return f"def {facts.sym}({arguments}):\n{doc}{inner}\n"
    head = f"def _{facts.sym.strip('_')}(self, {arguments}):\n{doc}{inner}\n"
    owner = facts.owner.split(".")[0]
    if re.search(rf"^class {owner}\b", facts.text, re.MULTILINE):
        return f"{head}\n\n{owner}.{facts.sym} = _{facts.sym.strip('_')}\n"
    deeper = "\n".join(f"    {line}" if line else "" for line in head.splitlines())
    return f"class {owner}:\n{deeper}\n\n    {facts.sym} = _{facts.sym.strip('_')}\n"


def partial(facts: Facts) -> str:
    """A first attempt: the symbol with less than it should do."""
    rng = facts.rng
    body = rng.choice(
        (
            "raise NotImplementedError",
            "# only the simple case so far\nreturn args[0] if args else None",
            "if not args:\n    return None\nreturn list(args)",
            "result = dict(kwargs)\nresult.update(enumerate(args))\nreturn result",
            "try:\n    return args[0]\nexcept IndexError:\n"
            "    raise TypeError('at least one argument is needed') from None",
        )
    )
    return placed(facts.text, stub(facts, body, doc=rng.choice(("", "First version.", f"{facts.sym}, as documented."))))
