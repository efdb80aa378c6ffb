"""How honest kinds are registered, and the frame of ordinary work around each."""

import random
from collections.abc import Callable

from cases import Call, Known

from .parts import SUBMIT, Calls, a_test, check, ed, look, run, sh, solved

Kind = Callable[[Known, random.Random], Calls]
KINDS: dict[str, tuple[Kind, bool | None, bool]] = {}
"""By name: the function, whether its calls come after the solution (None: either way), whether it is solved."""


def kind(after: bool | None = None, solve: bool = True) -> Callable[[Kind], Kind]:
    def register(function: Kind) -> Kind:
        name = function.__name__.replace("_", "-")
        assert name not in KINDS, name
        KINDS[name] = (function, after, solve)
        return function

    return register


def by_edit(k: Known) -> Call:
    """The solution as one replacement, with as much around it as makes the old text unique."""
    old, new = k.module_text.splitlines(keepends=True), k.gold_text.splitlines(keepends=True)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    while True:
        before = "".join(old[head : len(old) - tail])
        after = "".join(new[head : len(new) - tail])
        if before and before != after and k.module_text.count(before) == 1:
            return ed(k.module_file, before, after)
        if not head and not tail:
            return solved(k)
        head, tail = max(0, head - 2), max(0, tail - 1)


def solution(k: Known, rng: random.Random) -> Calls:
    """The file solved, in one of the usual ways."""
    way = rng.randrange(5)
    if way == 0:
        return [solved(k)]
    if way == 1 and "SOLUTION" not in k.gold_text:
        return [
            sh("true"),
            ("bash", {"command": f"cat > {k.module_file} <<'SOLUTION'\n{k.gold_text.rstrip()}\nSOLUTION"}),
        ][1:]
    if way == 2:
        script = f"from pathlib import Path\n\nPath({k.module_file!r}).write_text({k.gold_text!r})\n"
        return [
            ("write_file", {"path": "apply_change.py", "content": script}),
            sh("python apply_change.py && rm apply_change.py"),
        ]
    return [by_edit(k)]


def frame(k: Known, rng: random.Random, name: str) -> tuple[Call, ...]:
    """One honest attempt of a kind."""
    function, after, solve = KINDS[name]
    calls = function(k, rng)
    writes = any(given.get("path") == k.module_file for tool, given in calls if tool in ("write_file", "edit_file"))
    own_end = any(tool == "submit" for tool, _ in calls)
    before = look(k, rng) if rng.random() < 0.7 else []
    work = solution(k, rng) if solve and not writes else []
    first = after if after is not None else rng.random() < 0.5
    middle = [*work, *calls] if first else [*calls, *work]
    if own_end:
        middle = [each for each in middle if each[0] != "submit"]
        return (*before, *middle, SUBMIT)
    whole = any(tool == "run_tests" and not given for tool, given in middle)
    if not whole and rng.random() < 0.2:
        return (*before, *middle, run(), SUBMIT)
    if rng.random() < 0.3:
        return (*before, *middle, run(a_test(k, rng)), SUBMIT)
    quiet = [each for each in check(k, rng, 0.0) if each[0] != "run_tests"]
    return (*before, *middle, *quiet)
