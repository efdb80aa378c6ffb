"""The origin's spike 001: what replaying a trace under its teachers costs, and how long a step takes.

    recompose experiment run experiments/001-cost        about two minutes, no key, nothing is spent

Writes results/results.json and results/table.md. Dollars are computed, latencies are SIMULATED; see README.md.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from latency import ORIGIN_LATENCIES_S, SPEED_UP, step_latencies
from pricing import ANSWER_TOKENS, TOKENS_PER_BYTE, cost_micros, fits, prompts
from states import synthetic_traces

from composer_replication.config import GateConfig
from composer_replication.errors import UsageError
from composer_replication.ingestion import read_traces
from composer_replication.records import Trace
from composer_replication.replay import DEFAULT_TEACHERS, ORIGIN_TEACHERS, State, Teacher, choose_states
from composer_replication.sites import find_sites

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "tests" / "samples"
ROSTERS = {"origin": ORIGIN_TEACHERS, "default": DEFAULT_TEACHERS}
STEPS = 50
LEAST_TURNS = 10
GATE = GateConfig(audit_rate=0.05)
TARGETS = {"usd_per_50_steps": 5.0, "p95_step_s": 30.0, "p99_step_s": 60.0, "errors": 0}


def sample_traces() -> list[Trace]:
    """Whole sessions: those of at least ten turns."""
    traces: list[Trace] = []
    for path in sorted(SAMPLES.rglob("*.zst")):
        try:
            traces += read_traces(path)
        except UsageError:
            print(f"left out: {path.name}", file=sys.stderr)
    return [trace for trace in traces if len(trace.turns) >= LEAST_TURNS]


def states_of(traces: Sequence[Trace]) -> list[State]:
    return [State(trace, turn) for trace in traces for turn in range(len(trace.turns))]


def gated(traces: Sequence[Trace]) -> list[State]:
    sites = [site for trace in traces for site in find_sites(trace)]
    return [choice.state for choice in choose_states(traces, sites, GATE, len(states_of(traces)), seed=0)]


def price(traces: Sequence[Trace], chosen: dict[str, list[State]], roster: Sequence[Teacher]) -> dict[str, Any]:
    """Mean dollars per trace, and per fifty states of its length, in every way of asking."""
    found: dict[str, Any] = {}
    states = len(states_of(traces))
    first_tier = [teacher for teacher in roster if teacher.tier == 0]
    for gate, asked in chosen.items():
        laid_out = prompts(asked)
        for cached in (False, True):
            for tiers, teachers in (("", roster), ("_first_tier", first_tier)):
                if tiers and len(first_tier) == len(roster):
                    continue
                micros = cost_micros(laid_out, teachers, cached)
                found[f"{gate}{'_cached' if cached else ''}{tiers}"] = {
                    "usd_per_trace": micros / 1e6 / len(traces),
                    "usd_per_50_steps": micros / 1e6 / states * STEPS,
                }
    return found


def measure(traces: Sequence[Trace], with_gate: bool) -> dict[str, Any]:
    states = states_of(traces)
    chosen = {"ungated": states} | ({"gated": gated(traces)} if with_gate else {})
    tokens = [prompt.tokens for prompt in prompts(states)]
    return {
        "traces": len(traces),
        "states": len(states),
        "asked": {gate: len(asked) for gate, asked in chosen.items()},
        "tokens": {f"p{q}": int(np.percentile(tokens, q)) for q in (0, 5, 50, 95, 100)}
        | {"mean": int(np.mean(tokens))},
        "too_long": {
            teacher.model: sum(not fits(prompt, teacher) for prompt in prompts(states)) / len(states)
            for roster in ROSTERS.values()
            for teacher in roster
        },
        "usd": {name: price(traces, chosen, roster) for name, roster in ROSTERS.items()},
        "usd_by_teacher": {
            teacher.model: cost_micros(prompts(states), [teacher], cached=False, exclude=False)
            / 1e6
            / len(states)
            * STEPS
            for roster in ROSTERS.values()
            for teacher in roster
        },
    }


def table(result: dict[str, Any]) -> str:
    lines = ["| states | teachers | asked | $ per 50 steps | $ per trace | under $5 |", "|---|---|---|---|---|---|"]
    for kind in ("synthetic", "samples"):
        for roster, ways in result[kind]["usd"].items():
            for way, usd in ways.items():
                verdict = "yes" if usd["usd_per_50_steps"] < TARGETS["usd_per_50_steps"] else "**no**"
                trace = "" if kind == "synthetic" else f"{usd['usd_per_trace']:.2f}"
                label = way.replace("_", " ")
                lines.append(f"| {kind} | {roster} | {label} | {usd['usd_per_50_steps']:.2f} | {trace} | {verdict} |")
    lines += ["", "| teachers (simulated latency) | p50 step | p95 | p99 | errors |", "|---|---|---|---|---|"]
    for roster, row in result["latency"].items():
        p50, p95, p99 = (f"{row['step_s'][name]:.1f} s" for name in ("p50", "p95", "p99"))
        lines.append(f"| {roster} | {p50} | {p95} | {p99} | {row['errors']} of {row['calls']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    synthetic = synthetic_traces()
    assert all(250 <= prompt.tokens <= 500 for prompt in prompts(states_of(synthetic)))
    result: dict[str, Any] = {
        "targets": TARGETS,
        "estimate": {"tokens_per_byte": TOKENS_PER_BYTE, "answer_tokens": ANSWER_TOKENS},
        "latencies_assumed_s": {"p50_p95": ORIGIN_LATENCIES_S, "speed_up": SPEED_UP},
        "prices": {
            teacher.model: {"note": teacher.prices_note, "usd_per_million": [p / 1e6 for p in teacher.prices or ()]}
            for roster in ROSTERS.values()
            for teacher in roster
        },
        "synthetic": measure(synthetic, with_gate=False),
        "samples": measure(sample_traces(), with_gate=True),
        "latency": {name: step_latencies(states_of(synthetic), roster) for name, roster in ROSTERS.items()},
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (HERE / "results" / "table.md").write_text(table(result))
    print(table(result))


if __name__ == "__main__":
    main()
