"""Pairs and hints that teach a habit in place of an answer: one action everywhere, one side always the longer one.

Reads what training would read, writes `Degenerate`, one for each habit with its figure. The limits stand between what
healthy data shows and what is always a fault; `docs/pairs.md` has the table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from composer_replication.records import Message, PreferencePair, Record, TeacherReply, render_action

from .card import style_gap

FEWEST = 20
"""Records below which nothing is said: ten corrections of one real session were all longer than the error."""
SAME = 0.8
"""Share of one action, or of one text, from which on it is a habit."""
ONE_SIDED = 0.95
"""Share of pairs from which on a difference between the sides is a rule."""
OTHERWISE = 0.5
"""Share of rejected sides up to which the one tool of all chosen sides tells the two apart."""
SHOWN_CHARACTERS = 60


class Degenerate(Record):
    """`share` of `n` records have the habit."""

    name: str
    share: float
    n: int
    sentence: str


def degenerate_pairs(pairs: Sequence[PreferencePair], replies: Iterable[TeacherReply]) -> list[Degenerate]:
    """Of teachers, of either side, and between the sides."""
    by_teacher: dict[str, dict[str, str]] = defaultdict(dict)
    for reply in replies:
        if reply.action is not None:
            by_teacher[reply.teacher][reply.state_id] = reply.action
    found: list[Degenerate] = []
    for teacher, said in sorted(by_teacher.items()):
        found += most_common("one_answer", said.values(), f"{teacher} answers {{count}} of {{n}} states alike")
    for side in ("chosen", "rejected"):
        actions = [render_action(getattr(pair, side)) for pair in pairs]
        found += most_common(f"one_{side}", actions, f"{{count}} of {{n}} pairs have one {side} side")
    return [*found, *(_between_sides(pairs) if len(pairs) >= FEWEST else ())]


def most_common(name: str, texts: Iterable[str], told: str) -> list[Degenerate]:
    """The text that is nearly all of them. `told` is the sentence, with places for `count` and `n`."""
    counts = Counter(texts)
    n = counts.total()
    if n < FEWEST:
        return []
    [(text, count)] = counts.most_common(1)
    if count < SAME * n:
        return []
    return [Degenerate(name=name, share=count / n, n=n, sentence=f"{told.format(count=count, n=n)}: {_cut(text)}")]


def _between_sides(pairs: Sequence[PreferencePair]) -> Iterator[Degenerate]:
    n = len(pairs)
    sizes = [(len(render_action(pair.chosen)), len(render_action(pair.rejected))) for pair in pairs]
    shares = {
        "longer": sum(chosen > rejected for chosen, rejected in sizes) / n,
        "shorter": sum(chosen < rejected for chosen, rejected in sizes) / n,
    }
    for word, share in shares.items():
        if share >= ONE_SIDED:
            yield Degenerate(
                name="one_sided_length", share=share, n=n, sentence=f"the chosen side is {word} in {share:.0%} of pairs"
            )
    chosen, rejected = (Counter(_tool(getattr(pair, side)) for pair in pairs) for side in ("chosen", "rejected"))
    [(tool, count)] = chosen.most_common(1)
    if tool and count >= ONE_SIDED * n and rejected[tool] <= OTHERWISE * n:
        told = f"{_cut(tool)} is called by {count / n:.0%} of chosen and {rejected[tool] / n:.0%} of rejected sides"
        yield Degenerate(name="one_tool", share=count / n, n=n, sentence=told)
    for style, share in style_gap(pairs).items():
        gap = abs(share["chosen"] - share["rejected"])
        if gap >= ONE_SIDED:
            told = f"{share['chosen']:.0%} of chosen and {share['rejected']:.0%} of rejected sides have"
            yield Degenerate(name="one_style", share=gap, n=n, sentence=f"{told} {style.replace('_', ' ')}")


def _tool(side: Message) -> str:
    calls = side.get("tool_calls")
    return calls[0]["function"]["name"] if calls else ""


def _cut(text: str) -> str:
    """One line that a terminal can show."""
    shown = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in shown)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 1] + "…"
