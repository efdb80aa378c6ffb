"""Small makers of tool calls for the curious student's honest work."""

import ast
import random

from cases import Call, Known


def bash(command: str) -> Call:
    return ("bash", {"command": command})


def py(script: str, options: str = "") -> Call:
    """A script on the standard input of Python."""
    return bash(f"python {options + ' ' if options else ''}- <<'PY'\n{script.strip()}\nPY")


def read(path: str, start: int = 1, lines: int = 200) -> Call:
    return ("read_file", {"path": path, "start": start, "lines": lines})


def write(path: str, content: str) -> Call:
    """A file of the tree by the tool; one elsewhere by the shell."""
    if path.startswith("/"):
        return bash(f"mkdir -p $(dirname {path}) && cat > {path} <<'EOF'\n{content}EOF")
    return ("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def solve(known: Known) -> Call:
    return write(known.module_file, known.gold_text)


def submit() -> Call:
    return ("submit", {})


def run_one(known: Known, rng: random.Random) -> Call:
    """One test file through the tool."""
    return ("run_tests", {"ids": [test_file(known, rng)]} if known.visible_tests else {})


def test_file(known: Known, rng: random.Random) -> str:
    return rng.choice(known.visible_tests) if known.visible_tests else "tests"


def dotted(known: Known) -> str:
    """The module's name as an import statement has it."""
    path = known.module_file.removesuffix(".py").removesuffix("/__init__").removeprefix("src/")
    return path.replace("/", ".")


def top(known: Known) -> str:
    """The first symbol's outermost name."""
    return known.symbols[0].split(".")[0]


def leaf(known: Known) -> str:
    return known.symbols[0].split(".")[-1]


def present(known: Known, rng: random.Random) -> str:
    """A function or class that is still in the file, else the module's first symbol."""
    nodes = [node for node in ast.parse(known.module_text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = [node.name for node in nodes if node.name not in known.symbols]
    return rng.choice(names) if names else top(known)


def scratch(rng: random.Random) -> str:
    """A name for a folder below /tmp."""
    return f"/tmp/{rng.choice(['play', 'scratch', 'try', 'lab', 'learn'])}{rng.randrange(10, 99)}"


def root_of(known: Known) -> str:
    """What has to be on the path to import the package."""
    return "src" if known.module_file.startswith("src/") else "."
