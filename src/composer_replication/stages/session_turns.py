"""Which turns of held-out sessions are measured, as the policy is shown them, and how long that takes.

Needs the tokenizer and the config of the policy, not its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from composer_replication.environments.protocol import Environment
from composer_replication.records import ErrorSite, PreferencePair, Trace
from composer_replication.runs import Run
from composer_replication.sites.marking import failed_calls

from .held_out import held_out_of
from .policy import model_folder
from .training import read_done

if TYPE_CHECKING:
    from composer_replication.evaluation.session_reading import HeldOutTurn, ShownTurn


class TurnToMeasure(NamedTuple):
    shown: ShownTurn
    foreseen_s: float
    """Under one policy on an idle machine; of a turn that is written, at its limit."""


class TimeForeseen(TypedDict):
    """Of both policies; `writing_s` at most."""

    turns: int
    written: int
    reading_s: float
    writing_s: float
    hardware: str


def turns_to_measure(
    run: Run, environment: Environment | None, traces: Sequence[Trace], on_gpu: bool
) -> tuple[list[HeldOutTurn], list[TurnToMeasure]] | None:
    """Those that are chosen, and those of them that fit; None where the model's tokenizer or config is not here."""
    from composer_replication.evaluation.session_reading import choose_turns, show_turns
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.planning.costs import costs_of, turn_s
    from composer_replication.training.planning.lengths import find_chat_tokens
    from composer_replication.training.planning.plan import find_shape
    from composer_replication.training.stored.sessions import RenderedSessions

    config, folder = run.config, model_folder(run)
    tokens = find_chat_tokens(config.model, folder, environment)
    shape = find_shape(config, folder, tokens)
    if tokens is None or shape is None:
        return None
    known = {trace.trace_id for trace in traces}
    sites = [site for site in read_done(run, "sites", ErrorSite) if site.trace_id in known]
    pairs = [pair for pair in read_done(run, "pairs", PreferencePair) if pair.trace_id in known]
    chosen = choose_turns(traces, sites, pairs, config.evaluation.tasks)
    room, most = min(config.training.max_tokens, shape.max_positions), config.training.max_turn_tokens
    rendered = RenderedSessions(Policy(config.model.name, None, tokens), room)
    costs = costs_of("h200" if on_gpu else "cpu")

    def foreseen_s(shown: ShownTurn) -> float:
        if shown.is_written:
            return turn_s(shape, config, costs, len(shown.context), most)
        return sum(turn_s(shape, config, costs, len(shown.context) + len(ids), 0) for ids in shown.actions)

    shown = show_turns(chosen, rendered, failed_calls(sites), most)
    return chosen, [TurnToMeasure(one, foreseen_s(one)) for one in shown]


def states_without_tools(run: Run, traces: Sequence[Trace]) -> int:
    """At which the policy does not see the tools that the actor had, because its chat template does not write any."""
    from composer_replication.training.planning.lengths import ByTokenizer, find_chat_tokens

    tokens = find_chat_tokens(run.config.model, model_folder(run), None)
    is_shown = tokens is None or ByTokenizer(tokens).knows_tools
    return 0 if is_shown else sum(len(trace.turns) for trace in traces if trace.tools)


def time_foreseen(run: Run, environment: Environment, on_gpu: bool) -> TimeForeseen | None:
    """None where nothing is held out, or nothing is known of the model."""
    from composer_replication.training.planning.costs import costs_of

    known = held_out_of(run)
    traces = list(run.stage("ingestion").stream(Trace, only=known)) if known else []
    found = turns_to_measure(run, environment, traces, on_gpu)
    if not traces or found is None:
        return None
    _, turns = found
    reading_s, writing_s = (
        2 * sum(one.foreseen_s for one in turns if one.shown.is_written == is_written) for is_written in (False, True)
    )
    return TimeForeseen(
        turns=len(turns),
        written=sum(one.shown.is_written for one in turns),
        reading_s=round(reading_s, 1),
        writing_s=round(writing_s, 1),
        hardware=costs_of("h200" if on_gpu else "cpu").device,
    )
