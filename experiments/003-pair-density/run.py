"""The origin's spike 003: how many pairs does a trace give, and are they other than random ones?

    recompose experiment run experiments/003-pair-density [-- SEED…]     about two minutes of one core per run

Writes results/NAME-SEED.json (one report per way of asking and voting, pairs of every trace) and
results/sessions.json (what could be asked about in the sample sessions), then the tables. Teachers are SIMULATED: noisy
oracles of the toolbox. Nobody is asked about the sample sessions. Toolbox runs stay in runs/003-pair-density.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rebuild import LONG, QUICK, SEEDS, rebuild

from composer_replication.cli.common import quiet_libraries
from composer_replication.config import Config, IngestionConfig, ReplayConfig, ToolboxConfig
from composer_replication.llm.ledger import Ledger
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.signal import distance_from_random, signal_report
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import ErrorSite, Message, PreferencePair, TeacherReply, Trace
from composer_replication.replay import DEFAULT_TEACHERS, State, replay_states
from composer_replication.replay.askable import askable
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.stages.ingestion import rollout_tokens
from composer_replication.stages.policy import load_model, policy_room
from composer_replication.stages.replay import replay_teachers
from composer_replication.training.models.states import turn_logprob
from composer_replication.training.stored.contexts import Contexts

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SAMPLES = HERE.parents[1] / "tests" / "samples"
RUNS = Path("runs") / HERE.name
TOOLBOXES = {QUICK: ToolboxConfig(), LONG: ToolboxConfig(call_mix=(0.0, 0.0, 1.0))}
ROLLOUTS = 192
LEAST_TURNS = 10
FEWEST_FAMILIES = 2


def measure(name: str, seed: int) -> dict[str, Any]:
    """Rollouts of a warmed-up tiny policy, teachers asked at every state; then each way of asking and voting."""
    config = Config(seed=seed, toolbox=TOOLBOXES[name], ingestion=IngestionConfig(rollouts=ROLLOUTS))
    run = Run.start(RUNS / f"{name}-{seed}", config)
    for noun in ("policy", "ingestion", "sites"):
        run_stage(run, noun, Silent())
    traces, sites = run.stage("ingestion").read(Trace), run.stage("sites").read(ErrorSite)
    replies = _ask_everywhere(run, traces)
    wrong = {(site.trace_id, site.turn) for site in sites if site.fault == "policy"}
    at_errors = [reply for reply in replies if (reply.trace_id, reply.turn) in wrong]
    kinds = {site.state_id: site.error_kind for site in sites}
    margin = _Margins(run, traces)
    ways = {}
    for way, said, rule in (
        ("errors, agreement", at_errors, "agreement"),
        ("every state, agreement", replies, "agreement"),
        ("every state, majority", replies, "majority"),
    ):
        found = extract_dpo_pairs(traces, said, config.model.name, rule=rule, kinds=kinds)
        report = signal_report(traces, said, found.pairs, found.verdicts)
        counted = Counter(pair.trace_id for pair in found.pairs)
        margins, distance = distance_from_random(margin.measurable(found.pairs), margin, seed)
        ways[way] = {
            "funnel": report.funnel,
            "dropped_states": report.dropped_states,
            "kappa": report.kappa,
            "simulated": report.simulated,
            "pairs_of_each_trace": [counted[trace.trace_id] for trace in traces],
            "pairs_of_each_asked_trace": [counted[asked] for asked in dict.fromkeys(one.trace_id for one in said)],
            "margin": margins.model_dump(),
            "distance": distance.model_dump() if distance else None,
        }
    turns = [len(trace.turns) for trace in traces]
    solved = sum(trace.outcome or 0 for trace in traces)
    return {"traces": len(traces), "turns": turns, "error_states": len(wrong), "solved": solved, "ways": ways}


def _ask_everywhere(run: Run, traces: list[Trace]) -> list[TeacherReply]:
    states = [State(trace, turn) for trace in traces for turn in range(len(trace.turns))]
    ledger = Ledger(run.path / "ledger.sqlite")
    try:
        with replay_teachers(run, traces, ()) as teachers:
            return replay_states(states, teachers, ledger, run.config.replay)
    finally:
        ledger.close()


class _Margins:
    """Log-probability of an answer under the run's starting policy."""

    def __init__(self, run: Run, traces: Sequence[Trace]) -> None:
        self._traces = {trace.trace_id: trace for trace in traces}
        self._policy = load_model(run, str(run.path / "policy" / "model"))
        self._contexts = Contexts(self._policy, rollout_tokens(run), policy_room(run, self._policy))
        self._before: dict[str, list[int] | None] = {}
        self._known: dict[tuple[str, str], float] = {}

    def measurable(self, pairs: Sequence[PreferencePair]) -> list[PreferencePair]:
        for pair in pairs:
            if pair.state_id not in self._before:
                history = self._traces[pair.trace_id].history(pair.turn)
                self._before[pair.state_id] = self._contexts.before(pair.state_id, history, pair.tools)
        return [pair for pair in pairs if self._before[pair.state_id]]

    def __call__(self, pair: PreferencePair, message: Message) -> float:
        key = pair.state_id, json.dumps(message, sort_keys=True)
        if key not in self._known:
            before = self._before[pair.state_id] or []
            self._known[key] = turn_logprob(self._policy, before, self._contexts.turn(message))
        return self._known[key]


def sessions() -> dict[str, Any]:
    """The sample sessions: states, and those at which enough families of the default roster could vote at all."""
    run = Run.start(RUNS / "sessions", Config(ingestion=IngestionConfig(paths=(str(SAMPLES),))))
    run_stage(run, "ingestion", Silent())
    rows: list[dict[str, Any]] = []
    for trace in run.stage("ingestion").read(Trace):
        asking = askable([State(trace, turn) for turn in range(len(trace.turns))], DEFAULT_TEACHERS, ReplayConfig())
        wrong = {site.turn for site in find_sites(trace) if site.fault == "policy"}
        families = [len({teacher.family for teacher in teachers}) >= FEWEST_FAMILIES for _, teachers in asking.teachers]
        votable = [enough and _one_call(trace, turn) for turn, enough in enumerate(families)]
        rows.append(
            {
                "agent": trace.source.agent,
                "turns": len(trace.turns),
                "families": sum(families),
                "votable": sum(votable),
                "errors": len(wrong),
                "votable_errors": sum(votable[turn] for turn in wrong),
            }
        )
    return {"least_turns": LEAST_TURNS, "sessions": rows}


def _one_call(trace: Trace, turn: int) -> bool:
    """Only an action of exactly one call is compared; text is not, by default."""
    return len(trace.messages[trace.turns[turn].start].get("tool_calls", [])) == 1


def main() -> None:
    quiet_libraries()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "sessions.json").write_text(json.dumps(sessions()) + "\n")
    for seed in map(int, sys.argv[1:]) if sys.argv[1:] else SEEDS:
        for name in TOOLBOXES:
            (RESULTS / f"{name}-{seed}.json").write_text(json.dumps(measure(name, seed)) + "\n")
    print(rebuild())


if __name__ == "__main__":
    main()
