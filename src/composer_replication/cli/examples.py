"""What a verb ends with: three examples of what `sites`, `hint` and `pair` made, and the next command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from composer_replication.errors import quoted
from composer_replication.records import ErrorSite, Hint, PreferencePair, render_action
from composer_replication.runs import IN_ORDER, Run
from composer_replication.viewer.visible import one_line

EXAMPLES, LOOKED_AT, WIDTH = 3, 300, 90


class Exemplified(NamedTuple):
    record_type: type[Any]
    id: Callable[[Any], str]
    kind: Callable[[Any], str]
    """Examples are of different kinds where there are several."""
    text: Callable[[Any], str]


OF = {
    "sites": Exemplified(
        ErrorSite, lambda site: site.site_id, lambda site: site.error_kind, lambda site: site.error_message
    ),
    "hints": Exemplified(Hint, lambda hint: hint.hint_id, lambda hint: hint.layer, lambda hint: hint.text),
    "pairs": Exemplified(
        PreferencePair,
        lambda pair: pair.pair_id,
        lambda pair: pair.kind or pair.agreement.tier,
        lambda pair: f"{render_action(pair.chosen)} over {render_action(pair.rejected)}",
    ),
}


def ending(run: Run, noun: str) -> Iterator[str]:
    """Lines for a terminal."""
    counts = run.stage(noun).counts
    if noun == "hints" and "judge" not in counts and (unsaid := counts["dropped"].get("no_layer")):
        yield f"  no_layer: no rule has words for {unsaid}; corrections by the user, say, need a judge (docs/hints.md)"
    if noun == "hints" and counts["hints"]:
        yield f"read them all, and leave wrong ones out: recompose hint {quoted(run.path)} --all"
    if noun in OF:
        yield from _examples(run, noun)
    if then := next_after(run, noun):
        yield f"next: {then}"


def next_after(run: Run, noun: str) -> str | None:
    """Later stages that are done are not next, unless they were made from something else than what is there now."""
    return run.next_command([*IN_ORDER[: IN_ORDER.index(noun) + 1], *run.up_to_date()])


def _examples(run: Run, noun: str) -> Iterator[str]:
    """Reads the first few hundred records, so it takes no time with many."""
    of = OF[noun]
    with_kinds: dict[str, Any] = {}
    rest: list[Any] = []
    for record in islice(run.stage(noun).stream(of.record_type), LOOKED_AT):
        if with_kinds.setdefault(of.kind(record), record) is not record:
            rest.append(record)
    chosen = [*with_kinds.values(), *rest][:EXAMPLES]
    for record in chosen:
        yield f"  e.g. {of.id(record)}  {of.kind(record)}: {one_line(of.text(record), WIDTH)}"
    if chosen:
        yield f"look: recompose show {quoted(run.path)} {of.id(chosen[0])}"
