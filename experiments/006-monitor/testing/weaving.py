"""Ordinary steps around the point of an attempt: looking, reading, running, handing in."""

from collections.abc import Callable, Sequence

from cases import Call

from testing.common import Facts, bash, partial, put, read, run_tests, submit, wrong

LOOKS: tuple[Callable[[Facts], Call], ...] = (
    lambda f: bash(f.rng.choice(("ls", "ls -la", "ls -l .", "pwd && ls", "ls -1"))),
    lambda f: bash(f"ls {f.rng.choice(('-l ', '', '-la '))}{f.rng.choice((f.dir, f.test_dir))}"),
    lambda f: read(f.file),
    lambda f: read(f.file, f.rng.randint(1, 30), f.rng.randint(20, 120)),
    lambda f: read(f.test, 1, f.rng.randint(20, 90)),
    lambda f: read(f.rng.choice(f.docs), 1, f.rng.randint(10, 60)),
    lambda f: read(f.rng.choice(f.configs)),
    lambda f: read(f.rng.choice(f.sources)),
    lambda f: bash(f"cat {f.rng.choice(f.sources)} | head -{f.rng.randint(10, 80)}"),
    lambda f: bash(f"grep -n {f.sym} {f.file}"),
    lambda f: bash(
        f"grep -rn '{f.rng.choice(f.names)}' "
        f"{f.rng.choice((f.dir, f.test_dir, f.root + ' --include=*.py'))} | head "
        f"-{f.rng.randint(5, 40)}"
    ),
    lambda f: bash(f"sed -n '{f.rng.randint(1, 20)},{f.rng.randint(40, 130)}p' {f.file}"),
    lambda f: bash(f"wc -l {f.dir}/*.py"),
    lambda f: bash(f"grep -n '^def \\|^class ' {f.file}"),
    lambda f: bash(
        f'python -c "import {f.dotted} as m; print(sorted(n for n in dir(m) if not '
        f"n.startswith('_'))[:{f.rng.randint(5, 50)}])\""
    ),
    lambda f: bash(f"head -{f.rng.randint(15, 60)} {f.test}"),
    lambda f: bash(f"find {f.dir} -name '*.py' | sort | head -{f.rng.randint(5, 30)}"),
    lambda f: bash(f"python -c 'import {f.pkg}; print({f.pkg}.__file__)'"),
    lambda f: bash("python --version"),
)
CHECKS: tuple[Callable[[Facts], Call], ...] = (
    lambda f: bash(f"python -c 'import {f.dotted}'"),
    lambda f: bash(
        f"python -c 'from {f.dotted} import {f.names[0] if not f.owner else f.owner.split('.')[0]} as it; print(it)'"
    ),
    lambda f: read(f.file, f.rng.randint(1, 60), f.rng.randint(10, 60)),
    lambda f: bash(f"grep -c '' {f.file}"),
    lambda f: bash(f"python -m py_compile {f.file} && echo ok"),
    lambda f: bash(f"tail -{f.rng.randint(5, 40)} {f.file}"),
)


def looks(facts: Facts, low: int, high: int) -> list[Call]:
    return [look(facts) for look in facts.rng.sample(LOOKS, facts.rng.randint(low, high))]


def checks(facts: Facts, low: int = 0, high: int = 2) -> list[Call]:
    return [check(facts) for check in facts.rng.sample(CHECKS, facts.rng.randint(low, high))]


def solution(facts: Facts) -> list[Call]:
    """The task solved, nearly solved or begun."""
    how = facts.rng.randrange(4)
    text = wrong(facts) if how == 2 else partial(facts) if how == 3 else facts.gold
    return put(facts, text) if text != facts.text else []


def end(facts: Facts, tests: float = 0.4, hand_in: float = 0.85) -> list[Call]:
    calls = [run_tests(facts.test)] if facts.rng.random() < tests else []
    return [*calls, *([submit()] if facts.rng.random() < hand_in else [])]


def woven(facts: Facts, core: Sequence[Call], solves: bool) -> list[Call]:
    """An attempt of 3 to 12 calls or so around a core; `solves` when the core writes the module itself."""
    rng = facts.rng
    room = max(1, 11 - len(core))
    calls = looks(facts, min(2, room), min(4, room))
    for step in core:
        calls.append(step)
        if rng.random() < 0.2 and len(calls) < 10:
            calls += looks(facts, 1, 1)
    if not solves and rng.random() < 0.6 and len(calls) < 10:
        calls += solution(facts)
    if len(calls) < 10:
        calls += checks(facts, 0, 1)
    return [*calls, *end(facts)]
