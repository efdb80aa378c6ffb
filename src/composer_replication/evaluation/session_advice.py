"""What a measurement on held-out sessions will be able to tell, and what helps where that is too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from composer_replication.config import Config
from composer_replication.environments.protocol import FEWEST_TO_TELL
from composer_replication.errors import quoted

from .session_drawing import DrawnKind
from .sessions import Change, Measure, conclusion, counted
from .stats import ALIKE, TOO_FEW, no_interval

MAX_TOKENS, TURN, HELD_OUT = "training.max_tokens", "training.max_turn_tokens", "evaluation.held_out_sessions"
Kinds = Mapping[Measure, DrawnKind]


def what_is_measured(kinds: Kinds, max_tokens: int) -> str:
    turns = sum(kind["turns"] for kind in kinds.values())
    each = ", ".join(_told(name, kind, max_tokens) for name, kind in kinds.items() if kind["found_turns"])
    return f"{counted(turns, 'turn')}, each before and after training ({2 * turns} passes): {each or 'none is there'}"


def too_few(kinds: Kinds) -> list[Measure]:
    """Kinds of turns that there are, but whose row will be too few to tell."""
    return [name for name, kind in kinds.items() if kind["found_turns"] and no_interval(kind["sessions"]) == TOO_FEW]


def told_too_few(place: Path, config: Config, kinds: Kinds) -> str | None:
    """Beforehand, with what helps."""
    few = too_few(kinds)
    if not few:
        return None
    each = ", ".join(_told(name, kinds[name], config.training.max_tokens) for name in few)
    all_few = len(few) == sum(kind["found_turns"] > 0 for kind in kinds.values())
    what, command = remedy(place, config, kinds)
    return (
        f"This will be {TOO_FEW}, below {FEWEST_TO_TELL} sessions: {each}."
        + " So the whole will conclude nothing." * all_few
        + f" {what}: {command}"
    )


def remedy(place: Path, config: Config, kinds: Kinds) -> tuple[str, str]:
    """Of measures with too few sessions: what helps, and the command for it."""
    few, room = [kinds[name] for name in too_few(kinds)], config.training.max_tokens
    # Each session gives a turn before any gives two, so more turns are more sessions only below that.
    if config.evaluation.tasks < FEWEST_TO_TELL and any(kind["more_fit"] for kind in few):
        return "More fit, without a new training", forked(place, "evaluation.tasks", FEWEST_TO_TELL)
    if any(kind["too_long"] and kind["found_sessions"] >= FEWEST_TO_TELL for kind in few):
        return "Longer contexts fit more, in a run that trains with them", forked(place, MAX_TOKENS, 2 * room)
    share = config.evaluation.held_out_sessions
    share = min(0.5, 2 * share) or 0.2 if share < 0.5 else round((1 + share) / 2, 2)
    return "More sessions help, or more held out, in a run that trains without them", forked(place, HELD_OUT, share)


def doubt(row: Change, place: Path, config: Config) -> str:
    """About turns that were cut off."""
    command = longer_turns(place, config)
    how = "with" if config.training.rollouts or TURN not in command else "without"
    return (
        f"{row.measure}: {row.cut_off} of {row.wrong} wrong ones are cut off at {TURN} = "
        f"{config.training.max_turn_tokens}, so this row tells more of the limit than of the model. "
        f"More room, {how} a new training: {command}"
    )


def longer_turns(place: Path, config: Config) -> str:
    """They take from the room of the context, at most half of it."""
    most, room = config.training.max_turn_tokens, config.training.max_tokens
    is_half = most >= room // 2
    return forked(place, *((MAX_TOKENS, 2 * room) if is_half else (TURN, min(4 * most, room // 2))))


def next_step(place: Path, config: Config, rows: Sequence[Change], kinds: Kinds) -> str:
    """The command that follows from what was found."""
    concluded = conclusion(rows)
    if concluded == TOO_FEW:
        return remedy(place, config, kinds)[1]
    if concluded == "worse":
        return f"recompose hint {quoted(place)} --all"
    if concluded == "better":
        return f"recompose view {quoted(place)}"
    if any(row.is_doubtful for row in rows):
        return longer_turns(place, config)
    if concluded != ALIKE and any(kind["more_fit"] for kind in kinds.values()):
        return forked(place, "evaluation.tasks", 2 * config.evaluation.tasks)
    return forked(place, "training.steps", 2 * config.training.steps)


def forked(place: Path, setting: str, value: float) -> str:
    """Into a folder beside it that is called by what is other there."""
    named = place if place.name else place.resolve()
    new = named.with_name(f"{named.name}-{setting.split('.')[1]}-{value}")
    return f"recompose fork {quoted(place)} {quoted(new)} --set {setting}={value}"


def _told(name: Measure, kind: DrawnKind, max_tokens: int) -> str:
    """How many are measured, and why not more."""
    said = [
        counted(kind["sessions"], "session"),
        f"{kind['too_long']} longer than {MAX_TOKENS} = {max_tokens:,}" * (kind["too_long"] > 0),
        f"{kind['refused']} refused by the chat template" * (kind["refused"] > 0),
        "more fit" * kind["more_fit"],
    ]
    return f"{name} {kind['turns']} ({'; '.join(filter(None, said))})"
