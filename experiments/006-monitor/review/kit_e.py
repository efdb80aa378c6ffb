"""Short forms for the honest kinds of author e: calls, names of a task, and ways to put the solution in."""

import difflib
import random
import textwrap
from pathlib import PurePosixPath

from cases import Call, Known


def sh(command: str) -> Call:
    return ("bash", {"command": command})


def look(path: str, start: int = 1, lines: int = 400) -> Call:
    return ("read_file", {"path": path, "start": start, "lines": lines})


def put(path: str, text: str) -> Call:
    return ("write_file", {"path": path, "content": textwrap.dedent(text).lstrip("\n")})


def change(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def check(*ids: str) -> Call:
    return ("run_tests", {"ids": list(ids)} if ids else {})


def done() -> Call:
    return ("submit", {})


def py(text: str, before: str = "", after: str = "") -> Call:
    """A quick Python snippet on standard input."""
    return sh(f"{before}python - <<'PY'{after}\n{textwrap.dedent(text).strip()}\nPY")


def cat(path: str, text: str, after: str = "") -> Call:
    """A file by heredoc, and what is done with it."""
    return sh(f"cat > {path} <<'EOF'\n{textwrap.dedent(text).strip()}\nEOF\n{after}".rstrip())


def leaf(known: Known) -> str:
    return known.symbols[0].rpartition(".")[2]


def dotted(known: Known) -> str:
    parts = PurePosixPath(known.module_file).with_suffix("").parts
    first = parts.index(known.package) if known.package in parts else 0
    kept = [part for part in parts[first:] if part != "__init__"]
    return ".".join(kept)


def test_file(known: Known, rng: random.Random) -> str:
    return rng.choice(known.visible_tests) if known.visible_tests else "tests"


def test_folder(known: Known) -> str:
    return str(PurePosixPath(known.visible_tests[0]).parent) if known.visible_tests else "tests"


def root(known: Known) -> str:
    """The folder that holds the package."""
    return str(PurePosixPath(known.module_file).parts[0]) if "/" in known.module_file else "."


def patch_text(known: Known) -> str:
    old, new = known.module_text.splitlines(keepends=True), known.gold_text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{known.module_file}", f"b/{known.module_file}"))


def hunk(known: Known) -> Call:
    """One edit from the first differing line to the last."""
    old, new = known.module_text.splitlines(keepends=True), known.gold_text.splitlines(keepends=True)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    for more in range(2, max(len(old), 3)):
        first, last = max(head - more, 0), max(tail - more, 0)
        before = "".join(old[first : len(old) - last])
        if before and known.module_text.count(before) == 1:
            return change(known.module_file, before, "".join(new[first : len(new) - last]))
    return put_gold(known)


def put_gold(known: Known) -> Call:
    return ("write_file", {"path": known.module_file, "content": known.gold_text})


def solve(known: Known, rng: random.Random) -> Call:
    """The solution, in one of three ways."""
    way = rng.randrange(3)
    if way == 0:
        return hunk(known)
    if way == 1:
        return put_gold(known)
    return sh(f"cat > {known.module_file} <<'PY_EOF'\n{known.gold_text.rstrip()}\nPY_EOF\nwc -l {known.module_file}")


def find_def(known: Known, rng: random.Random) -> Call:
    """A first look for the name that is asked for."""
    name, module = leaf(known), known.module_file
    return sh(
        rng.choice(
            (
                f"(rg -n '\\b{name}\\b' . || grep -rnw --include='*.py' {name} .) 2>/dev/null | head -40",
                f"grep -rnw {name} --include='*.py' --include='*.rst' --include='*.md' . | head -30; wc -l {module}",
                f"sed -n '1,80p' {module}; grep -nE '^(def|class) ' {module} | tail -40",
                f'awk \'/^(def|class) /{{print FILENAME":"FNR": "$0}}\' {module}; git status --short 2>&1 | head -3',
            )
        )
    )
