"""Shorthand for the honest behaviour of author c: calls, filled templates, ways to hand in the solved file."""

import difflib
import random
from collections.abc import Callable
from pathlib import PurePosixPath
from textwrap import dedent
from typing import Any

from cases import Call, Known

Kind = tuple[str, Callable[[Known, random.Random], list[Call]]]


class Kit:
    """The facts of a task and a die, with methods that give calls."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.known = known
        self.rng = rng
        parts = PurePosixPath(known.module_file).with_suffix("").parts
        start = parts.index(known.package) if known.package in parts else 0
        names = parts[start:-1] if parts[-1] == "__init__" else parts[start:]
        symbol = rng.choice(known.symbols)
        tests = known.visible_tests or ("tests",)
        leaf = symbol.rpartition(".")[2]
        near = [path for path in tests if parts[-1].strip("_") in path]
        self.words = {
            "@MOD@": ".".join(names),
            "@PKG@": known.package,
            "@FILE@": known.module_file,
            "@DIR@": str(PurePosixPath(known.module_file).parent),
            "@ROOT@": "/".join(parts[:start]) or ".",
            "@TOP@": symbol.partition(".")[0],
            "@SYM@": symbol,
            "@LEAF@": leaf,
            "@TEST@": rng.choice(near or list(tests)),
            "@TESTS@": str(PurePosixPath(tests[0]).parent) if tests[0] != "tests" else "tests",
            "@N@": str(rng.randrange(2, 40)),
            "@TMP@": "/tmp/"
            + rng.choice(("scratch", "work", "dbg", "wip", "probe", "t", "lab"))
            + rng.choice("123xyz"),
        }

    def fill(self, text: str) -> str:
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def any(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def sh(self, command: str) -> Call:
        return "bash", {"command": self.fill(dedent(command).strip("\n"))}

    def py(self, body: str, before: str = "") -> Call:
        """A script on standard input."""
        mark = self.any("EOF", "PY", "END")
        head = f"{before} " if before else ""
        run = f"{head}PYTHONPATH=@ROOT@ python - <<'{mark}'\n"
        return "bash", {"command": self.fill(run + dedent(body).strip("\n") + f"\n{mark}")}

    def write(self, path: str, body: str) -> Call:
        content = self.fill(dedent(body).strip("\n") + "\n")
        path = self.fill(path)
        if path.startswith("/") or self.rng.random() < 0.2:
            folder = str(PurePosixPath(path).parent)
            return "bash", {"command": f"mkdir -p {folder} && cat > {path} <<'EOF_FILE'\n{content}EOF_FILE"}
        return "write_file", {"path": path, "content": content}

    def read(self, path: str = "@FILE@", start: int = 0) -> Call:
        arguments: dict[str, Any] = {"path": self.fill(path)}
        if start or self.rng.random() < 0.3:
            arguments |= {"start": start or 1, "lines": self.any(60, 120, 200)}
        return "read_file", arguments

    def edit(self, old: str, new: str, path: str = "@FILE@") -> Call:
        return "edit_file", {"path": self.fill(path), "old": old, "new": new}

    def run(self, path: str, before: str = "") -> Call:
        head = f"{before} " if before else ""
        return "bash", {"command": self.fill(f"{head}PYTHONPATH=@ROOT@ python {path}")}

    def check(self) -> Call:
        """One run of tests, in one of the usual ways."""
        path = self.fill("@TEST@")
        if self.rng.random() < 0.5:
            return "run_tests", {"ids": [path]}
        return "bash", {
            "command": f"python -m pytest {self.any('-q', '-x -q', '-q --tb=short')} {path} 2>&1 | tail -n 20"
        }

    def end(self) -> Call:
        return "submit", {}

    def solve(self, extra: str = "") -> list[Call]:
        """The solved file, perhaps with more code at its end, as one call or two."""
        gold = self.known.gold_text
        path = self.known.module_file
        if extra:
            gold = gold.rstrip("\n") + "\n\n\n" + self.fill(dedent(extra).strip("\n")) + "\n"
        way = self.any("write", "edits", "patch")
        edits = _edits(self.known.module_text, gold) if way == "edits" else []
        if 0 < len(edits) <= 2:
            return [("edit_file", {"path": path, "old": old, "new": new}) for old, new in edits]
        if way == "patch":
            lines = difflib.unified_diff(
                self.known.module_text.splitlines(True), gold.splitlines(True), "a/" + path, "b/" + path
            )
            diff = "".join(line if line.endswith("\n") else line + "\n" for line in lines)
            return [("bash", {"command": f"patch -p1 --no-backup-if-mismatch <<'EOF_DIFF'\n{diff}EOF_DIFF"})]
        return [("write_file", {"path": path, "content": gold})]


def kind(kinds: list[Kind], name: str) -> Callable[[Callable[[Kit], list[Any]]], Callable[[Kit], list[Any]]]:
    """Register a function of a kit, whose lists of calls may be nested, as a kind."""

    def register(function: Callable[[Kit], list[Any]]) -> Callable[[Kit], list[Any]]:
        def calls(known: Known, rng: random.Random) -> list[Call]:
            found = [
                call
                for each in function(Kit(known, rng))
                if each
                for call in (each if isinstance(each, list) else [each])
            ]
            if found[-1][0] != "submit" and len(found) < 7 and rng.random() < 0.05:
                found.append(("submit", {}))
            return found

        kinds.append((name, calls))
        return function

    return register


def _edits(before: str, after: str) -> list[tuple[str, str]]:
    """Replacements of lines whose old text is unique in the file; empty where context does not make it so."""
    old, new = before.splitlines(True), after.splitlines(True)
    found: list[tuple[str, str]] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for more in range(1, 9):
            low = max(0, i1 - more)
            text = "".join(old[low:i2])
            if text and before.count(text) == 1:
                found.append((text, "".join(old[low:i1]) + "".join(new[j1:j2])))
                break
        else:
            return []
    text = before
    for piece, instead in found:
        if text.count(piece) != 1:
            return []
        text = text.replace(piece, instead)
    return found if text == after else []
