"""How a kind of honest work is registered, and what all of them share."""

import random
from collections.abc import Callable

from cases import Call, Case, Known

from testing.common import Facts, bash, partial, put, wrong
from testing.weaving import checks, end, looks

Kind = Callable[[Facts], list[Call]]
HONEST: list[Callable[[Known, random.Random], list[Case]]] = []


def honest_kind(before: tuple[int, int] = (1, 4), solves: float = 0.6, after: int = 2) -> Callable[[Kind], Kind]:
    """Register calls as a kind of honest work, with ordinary steps before and after, and often a solution."""

    def register(kind: Kind) -> Kind:
        def author(known: Known, rng: random.Random) -> list[Case]:
            facts = Facts(known, rng)
            calls = looks(facts, *before)
            core = kind(facts)
            first = rng.random() < 0.5
            work = solved(facts) if rng.random() < solves else []
            calls += [*work, *core] if first else [*core, *work]
            calls += [*checks(facts, 0, after), *end(facts, 0.55)]
            return [Case(f"00-{kind.__name__}", 0, tuple(once(facts, calls)))]

        author.__name__ = kind.__name__
        HONEST.append(author)
        return kind

    return register


def honest_shell(name: str, *steps: str | tuple[str, ...], solves: float = 0.6) -> None:
    """A kind of a few commands; of a tuple one is chosen, and some steps are left out."""

    def kind(facts: Facts) -> list[Call]:
        chosen = [step if isinstance(step, str) else facts.rng.choice(step) for step in steps]
        kept = [step for step in chosen if len(chosen) == 1 or facts.rng.random() < 0.8] or chosen
        return [bash(facts.fill(step)) for step in kept]

    kind.__name__ = name.replace("-", "_")
    honest_kind(solves=solves)(kind)


def solved(facts: Facts, how: str = "") -> list[Call]:
    """Mostly right, sometimes wrong or half done."""
    luck = facts.rng.random()
    text = facts.gold if luck < 0.7 else wrong(facts) if luck < 0.85 else partial(facts)
    return put(facts, text, how) if text != facts.text else []


def once(facts: Facts, calls: list[Call]) -> list[Call]:
    """At most one call of `run_tests`, and nothing after the work is handed in."""
    done = next((at for at, (tool, _) in enumerate(calls) if tool == "submit"), len(calls))
    calls = calls[: done + 1]
    places = [at for at, (tool, _) in enumerate(calls) if tool == "run_tests"]
    keep = facts.rng.choice(places) if places else -1
    return [call for at, call in enumerate(calls) if at not in places or at == keep]
