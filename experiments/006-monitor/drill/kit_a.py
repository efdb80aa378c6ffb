"""What the honest kinds of author a share: a hand that knows the task, fills in names and makes calls."""

import difflib
import random
import textwrap
from collections.abc import Callable
from pathlib import PurePosixPath

from cases import Call, Known

Kind = Callable[[Known, random.Random], list[Call]]


class Hand:
    """One attempt: the facts of the task, the dice, and short ways to write calls."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.known, self.rng = known, rng
        self.file = known.module_file
        parts = list(PurePosixPath(self.file).with_suffix("").parts)
        start = parts.index(known.package) if known.package in parts else 0
        self.root = "/".join(parts[:start]) or "."
        names = parts[start:]
        self.mod = ".".join(names[:-1] if names[-1] == "__init__" else names)
        self.stem = parts[-1]
        self.symbol = rng.choice(known.symbols)
        self.leaf = self.symbol.rpartition(".")[2]
        self.top = self.symbol.partition(".")[0]
        tests = [path for path in known.visible_tests if self.stem.strip("_") in path] or list(known.visible_tests)
        self.test = rng.choice(tests) if tests else "tests"
        self.tests = str(PurePosixPath(self.test).parent) if tests else "tests"
        self.word = rng.choice("probe trial sketch check demo scratch attempt quick look".split())
        self.n = rng.randint(2, 97)

    def fill(self, text: str) -> str:
        text = textwrap.dedent(text).strip("\n")
        for name in "file root mod stem symbol leaf top test tests word n".split():
            text = text.replace(f"%{name}%", str(getattr(self, name)))
        return text.replace("%pkg%", self.known.package)

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def sh(self, *options: str) -> Call:
        """A command, or one of several."""
        return ("bash", {"command": self.fill(self.pick(*options))})

    def py(self, text: str, options: str = "") -> Call:
        """A script on standard input."""
        path = "" if self.root == "." else f"PYTHONPATH={self.root} "
        mark = self.pick("PY", "EOF", "END")
        return ("bash", {"command": f"{path}python {options}- <<'{mark}'\n{self.fill(text)}\n{mark}"})

    def put(self, path: str, text: str) -> Call:
        """A file, by the tool or by the shell."""
        path, content = self.fill(path), self.fill(text) + "\n"
        if not path.startswith("/") and self.rng.random() < 0.6:
            return ("write_file", {"path": path, "content": content})
        folder = str(PurePosixPath(path).parent)
        return ("bash", {"command": f"mkdir -p {folder} && cat > {path} <<'EOF'\n{content}EOF"})

    def see(self, path: str = "%file%") -> Call:
        start = self.rng.choice((1, 1, 20, 60, 120))
        return ("read_file", {"path": self.fill(path), "start": start, "lines": self.rng.choice((60, 120, 250, 400))})

    def edit(self, old: str, new: str, path: str = "") -> Call:
        return ("edit_file", {"path": path or self.file, "old": old, "new": new})

    def solve(self, extra: str = "") -> Call:
        """The solved file, with something after it where asked."""
        text = self.known.gold_text
        if extra:
            text = text.rstrip("\n") + "\n\n\n" + self.fill(extra) + "\n"
        one = self._one_edit(text)
        if one and self.rng.random() < 0.5:
            return one
        if self.rng.random() < 0.6:
            return ("write_file", {"path": self.file, "content": text})
        return ("bash", {"command": f"cat > {self.file} <<'END_OF_MODULE'\n{text.rstrip()}\nEND_OF_MODULE"})

    def _one_edit(self, text: str) -> Call | None:
        old, new = self.known.module_text.splitlines(True), text.splitlines(True)
        changes = [each for each in difflib.SequenceMatcher(None, old, new, False).get_opcodes() if each[0] != "equal"]
        if len(changes) != 1:
            return None
        _, i1, i2, j1, j2 = changes[0]
        for more in range(1, 12):
            before = "".join(old[max(0, i1 - more) : i2])
            if before and self.known.module_text.count(before) == 1:
                after = "".join(old[max(0, i1 - more) : i1]) + "".join(new[j1:j2])
                return self.edit(before, after)
        return None

    def patch(self) -> str:
        old, new = self.known.module_text.splitlines(True), self.known.gold_text.splitlines(True)
        return "".join(difflib.unified_diff(old, new, f"a/{self.file}", f"b/{self.file}"))

    def docs(self) -> str:
        found = [name for name in self.known.files if name.endswith((".md", ".rst", ".txt"))]
        return self.rng.choice(found) if found else self.file

    def other(self) -> str:
        """Another module of the package."""
        folder = str(PurePosixPath(self.file).parent)
        near = [name for name in self.known.files if name.startswith(folder) and name.endswith(".py")]
        return self.rng.choice([name for name in near if name != self.file] or [self.file])

    def end(self, calls: list[Call]) -> list[Call]:
        """Tests where none ran yet, or the work handed in, or neither."""
        dice = self.rng.random()
        ran = any("pytest" in arguments.get("command", "") for _, arguments in calls)
        if dice < 0.2 and not ran:
            return [("run_tests", {"ids": [self.test]} if self.known.visible_tests else {})]
        return [("submit", {})] if dice < 0.36 else []


class Book:
    """The kinds of one file, by decorator; the name is the function's."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, Kind]] = []

    def __call__(self, function: Callable[[Hand], list[Call]]) -> Callable[[Hand], list[Call]]:
        def kind(known: Known, rng: random.Random) -> list[Call]:
            hand = Hand(known, rng)
            calls = function(hand)
            return calls + hand.end(calls)

        self.kinds.append((function.__name__.replace("_", "-"), kind))
        return function
