"""Which turns of held-out sessions are measured, as the policy is shown them, in which order, and how long that takes.

Needs the tokenizer and the config of the policy, not its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from composer_replication.environments.protocol import Environment
from composer_replication.records import ErrorSite, PreferencePair, Trace, content_id
from composer_replication.runs import Run
from composer_replication.sites.marking import failed_calls
from composer_replication.store import kept_shards

from .held_out import held_out_of
from .parts import measured_with
from .policy import model_folder
from .training import read_done

if TYPE_CHECKING:
    from composer_replication.evaluation.compare import Phase
    from composer_replication.evaluation.session_drawing import DrawnKind, ShownTurn
    from composer_replication.evaluation.sessions import Measure

MODELS: dict[Phase, str] = {"before": "policy", "after": "training"}
APART: tuple[tuple[Phase, bool], ...] = (("before", False), ("after", False), ("after", True), ("before", True))
"""And whether turns are written, where two models do not fit into memory at once: the second one stays for its other
turns, the first comes again. Turns that are read are quick and say something alone, so they always come first."""
BOTH_FIT_BYTES = 2 << 30
"""Weights of a model of which a second one beside it is no burden."""


class TurnToMeasure(NamedTuple):
    shown: ShownTurn
    foreseen_s: float
    """Under one policy on an idle machine; of a turn that is written, at its limit."""


class Pass(NamedTuple):
    """A turn under one of the two policies."""

    phase: Phase
    turn: TurnToMeasure
    key: str
    what: str


class TimeForeseen(TypedDict):
    """Of passes that are not kept; `writing_s` at most."""

    turns: int
    written: int
    passes_kept: int
    reading_s: float
    writing_s: float
    hardware: str
    kinds: dict[Measure, DrawnKind]
    too_few: str | None


def turns_to_measure(
    run: Run, environment: Environment | None, traces: Sequence[Trace], on_gpu: bool
) -> tuple[list[TurnToMeasure], dict[Measure, DrawnKind]] | None:
    """None where the model's tokenizer or config is not here."""
    from composer_replication.evaluation.session_drawing import draw_turns, shower, turns_by_kind
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
    room, most = min(config.training.max_tokens, shape.max_positions), config.training.max_turn_tokens
    rendered = RenderedSessions(Policy(config.model.name, None, tokens), room)
    costs = costs_of("h200" if on_gpu else "cpu")

    def foreseen_s(shown: ShownTurn) -> float:
        if shown.is_written:
            return turn_s(shape, config, costs, len(shown.context), most)
        return sum(turn_s(shape, config, costs, len(shown.context) + len(ids), 0) for ids in shown.actions)

    show = shower(rendered, failed_calls(sites), most)
    drawn, kinds = draw_turns(turns_by_kind(traces, sites, pairs), show, config.evaluation.tasks)
    return [TurnToMeasure(one, foreseen_s(one)) for one in drawn], kinds


def both_fit(run: Run) -> bool:
    """Whether the two models are held in memory together, so that each turn is measured under both at once."""
    return sum(file.stat().st_size for file in model_folder(run).glob("*.safetensors")) <= BOTH_FIT_BYTES


def passes_of(run: Run, turns: Sequence[TurnToMeasure]) -> list[Pass]:
    """In their order."""
    made_with = {phase: measured_with(run, noun, "ingestion", "sites", "pairs") for phase, noun in MODELS.items()}
    kinds = {is_written: [one for one in turns if one.shown.is_written == is_written] for is_written in (False, True)}

    def one_pass(phase: Phase, place: int, is_written: bool) -> Pass:
        one = kinds[is_written][place]
        turn, doing = one.shown.turn, "writing" if is_written else "reading"
        key = content_id(made_with[phase], phase, turn.measure, turn.trace.trace_id, turn.turn, turn.actions)
        return Pass(phase, one, key, f"{doing} turn {place + 1} of {len(kinds[is_written])}, {phase} training")

    order: list[tuple[Phase, int, bool]]
    if both_fit(run):
        order = [(phase, place, kind) for kind in kinds for place in range(len(kinds[kind])) for phase in MODELS]
    else:
        order = [(phase, place, kind) for phase, kind in APART for place in range(len(kinds[kind]))]
    return [one_pass(*each) for each in order]


def states_without_tools(run: Run, traces: Sequence[Trace]) -> int:
    """At which the policy does not see the tools that the actor had, because its chat template does not write any."""
    from composer_replication.training.planning.lengths import ByTokenizer, find_chat_tokens

    tokens = find_chat_tokens(run.config.model, model_folder(run), None)
    is_shown = tokens is None or ByTokenizer(tokens).knows_tools
    return 0 if is_shown else sum(len(trace.turns) for trace in traces if trace.tools)


def time_foreseen(run: Run, environment: Environment, on_gpu: bool) -> TimeForeseen | None:
    """None where nothing is held out, or nothing is known of the model."""
    from composer_replication.evaluation.session_advice import told_too_few
    from composer_replication.training.planning.costs import costs_of

    known = held_out_of(run)
    traces = list(run.stage("ingestion").stream(Trace, only=known)) if known else []
    found = turns_to_measure(run, environment, traces, on_gpu)
    if not traces or found is None:
        return None
    turns, kinds = found
    kept = kept_shards(run.stage("sessions").path) if run.stage("training").is_done else {}
    left = [one.turn for one in passes_of(run, turns) if one.key not in kept] if kept else [*turns, *turns]
    reading_s, writing_s = (
        sum(one.foreseen_s for one in left if one.shown.is_written == is_written) for is_written in (False, True)
    )
    return TimeForeseen(
        turns=len(turns),
        written=sum(one.shown.is_written for one in turns),
        passes_kept=2 * len(turns) - len(left),
        reading_s=round(reading_s, 1),
        writing_s=round(writing_s, 1),
        hardware=costs_of("h200" if on_gpu else "cpu").device,
        kinds=kinds,
        too_few=told_too_few(run.path, run.config, kinds),
    )
