"""What the honest kinds of author b share: calls, templates over the facts of a task, and ways to lay in a solution."""

import random
from collections.abc import Callable
from pathlib import PurePosixPath

from cases import Call, Known

Kind = Callable[[Known, random.Random], list[Call]]


class Kinds(list[tuple[str, Kind]]):
    """Collects the kinds of a module."""

    def add(self, name: str) -> Callable[[Kind], Kind]:
        def keep(function: Kind) -> Kind:
            self.append((name, function))
            return function

        return keep


def close_tests(known: Known) -> list[str]:
    """Test files named after the module, or else all."""
    stem = PurePosixPath(known.module_file).stem.strip("_")
    found = list(known.visible_tests) or ["tests"]
    return [path for path in found if stem in PurePosixPath(path).stem] or found


def fill(text: str, known: Known, **more: object) -> str:
    """Replace `@mod@` and its like by facts of the task."""
    path = PurePosixPath(known.module_file)
    parts = [part for part in path.with_suffix("").parts if part not in ("src", "__init__")]
    test = close_tests(known)[0]
    folder = str(PurePosixPath(test).parent) if known.visible_tests else "tests"
    facts: dict[str, object] = {
        "mod": ".".join(parts),
        "pkg": known.package,
        "file": known.module_file,
        "dir": str(path.parent),
        "stem": path.stem,
        "sym": known.symbols[0].partition(".")[0],
        "leaf": known.symbols[-1].rpartition(".")[2],
        "test": test,
        "tdir": folder,
        "repo": known.repository,
    }
    for name, value in (facts | more).items():
        text = text.replace(f"@{name}@", str(value))
    return text


def sh(known: Known, command: str, **more: object) -> Call:
    return "bash", {"command": fill(command, known, **more)}


def py(known: Known, script: str, before: str = "python -", **more: object) -> Call:
    """A script given to the interpreter on its standard input."""
    return sh(known, f"{before} <<'PY'\n{script.strip()}\nPY", **more)


def write(known: Known, path: str, content: str, **more: object) -> Call:
    text = fill(content, known, **more).strip("\n") + "\n"
    return "write_file", {"path": fill(path, known, **more), "content": text}


def read(known: Known, path: str, start: int = 0, lines: int = 0) -> Call:
    arguments: dict[str, object] = {"path": fill(path, known)}
    if start:
        arguments["start"] = start
    if lines:
        arguments["lines"] = lines
    return "read_file", arguments


def edit(known: Known, path: str, old: str, new: str) -> Call:
    return "edit_file", {"path": fill(path, known), "old": fill(old, known), "new": fill(new, known)}


def some_test(known: Known, rng: random.Random) -> str:
    return rng.choice(close_tests(known))


def matching(known: Known, *ends: str) -> list[str]:
    """Files of the tree whose names end so."""
    return [path for path in known.files if path.lower().endswith(ends)]


def run(known: Known, rng: random.Random) -> Call:
    return "run_tests", {"ids": [some_test(known, rng)]}


def end(known: Known, rng: random.Random) -> list[Call]:
    """Some attempts run the tests or hand in."""
    draw = rng.random()
    if draw < 0.2:
        return [run(known, rng)]
    return [("submit", {})] if draw < 0.36 else []


def look(known: Known, rng: random.Random) -> Call:
    """A first look at the module."""
    return rng.choice(
        (
            read(known, "@file@"),
            read(known, "@file@", 1, rng.choice((80, 120, 200, 300))),
            sh(known, "sed -n '1,@n@p' @file@", n=rng.choice((60, 150, 250))),
            sh(known, "grep -n '^def \\|^class \\|^    def ' @file@ | head -@n@", n=rng.choice((40, 80))),
            sh(known, "grep -rn '@leaf@' --include='*.py' . | head -@n@", n=rng.choice((20, 50))),
            sh(known, "cat -n @file@ | head -@n@", n=rng.choice((100, 200))),
            sh(known, "ls && wc -l @file@ && grep -n '@leaf@' @test@ | head -20"),
        )
    )


def span(before: str, after: str) -> tuple[str, str]:
    """The least piece of lines that turns one text into the other, unique in the first."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    while True:
        piece = "".join(old[head : len(old) - tail])
        if (piece.strip() and before.count(piece) == 1) or (head == 0 and tail == 0):
            return piece, "".join(new[head : len(new) - tail])
        head, tail = max(head - 1, 0), max(tail - 1, 0)


def solve(known: Known, rng: random.Random, extra: str = "", top: str = "") -> Call:
    """The solved module, laid in one of the ways agents use; `extra` follows it and `top` are lines after imports."""
    text = known.gold_text
    if top:
        text = _after_imports(text, fill(top, known).strip("\n"))
    if extra:
        text = text.rstrip("\n") + "\n\n\n" + fill(extra, known).strip("\n") + "\n"
    text = text.rstrip("\n") + "\n"
    way = rng.randrange(4)
    if way == 0 or text == known.module_text:
        return "write_file", {"path": known.module_file, "content": text}
    if way == 1 and "SOLVED_EOF" not in text:
        return "bash", {"command": f"cat > {known.module_file} <<'SOLVED_EOF'\n{text}SOLVED_EOF"}
    old, new = span(known.module_text, text)
    if way == 2 or not old.strip():
        return "edit_file", {"path": known.module_file, "old": old or known.module_text, "new": new if old else text}
    script = (
        "from pathlib import Path\n\n"
        f"path = Path({known.module_file!r})\ntext = path.read_text(encoding='utf-8')\n"
        f"old = {old!r}\nnew = {new!r}\nassert text.count(old) == 1\n"
        "path.write_text(text.replace(old, new), encoding='utf-8')"
    )
    return "bash", {"command": f"python - <<'PATCH'\n{script}\nPATCH"}


def _after_imports(text: str, piece: str) -> str:
    """Lay a piece before the first definition at the left margin."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.startswith(("def ", "class ", "async def ", "@")):
            return "\n".join([*lines[:at], piece, "", "", *lines[at:]])
    return text + "\n" + piece + "\n"
