"""Does the gate save calls without losing pairs? SIMULATED teachers in this process, a scripted actor, no network.

    python benchmarks/gate.py [--run RUN …] [--json benchmarks/results/gate.json]     about two minutes of one core

`--run` adds the rollouts and the policy of quickstart runs, whose policy is fresh from its warm-up.

The actor plays the toolbox and errs at a set share of its calls: of ten mistakes two are habits, made every time at
that state, and eight are slips, made half of the time. Most end in an error message; some pass in silence: 15 %
(quickstart rollouts: 14 % of the states with a correct pair), or 40 %, which is harsher. An ungated replay asks three
teachers (wrong at 10, 20 and 30 %) at every turn. A pair is correct when the oracle says that its chosen call is.

A bound on every gate: where a share p of all states gives a correct pair, to keep nine in ten of these pairs costs at
least 0.9 p of the calls. Fresh from its warm-up, the tiny policy errs at most turns: there, 60 % cannot be saved.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from composer_replication.config import GateConfig, ToolboxConfig
from composer_replication.environments.toolbox import (
    Call,
    ToolboxEpisode,
    make_task,
    next_call,
    replay_history,
    task_by_id,
    trace_of,
)
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.environments.toolbox.episode import FINISH, CallError, parse_call
from composer_replication.environments.toolbox.teachers import SimulatedTeachers, teacher_names
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.calibrate import clopper_pearson
from composer_replication.records import (
    Message,
    PreferencePair,
    TeacherReply,
    Trace,
    canonical_json,
    canonical_tool_call,
)
from composer_replication.replay.gate import Choice, State, choose_states, yields
from composer_replication.replay.parse import parse_reply
from composer_replication.replay.roster import teachers_to_ask
from composer_replication.replay.teachers import Teacher
from composer_replication.runs import Run, read_records
from composer_replication.sites import find_sites
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.stages.pairs import oracle, remember

TOOLBOX = ToolboxConfig()
ERROR_RATES = (0.1, 0.2, 0.3)
TEACHERS = [
    Teacher(name, "", simulated=True, tier=tier)
    for name, tier in zip(teacher_names(ERROR_RATES), (0, 0, 1), strict=True)
]
CALL_ERROR_RATES = (0.1, 0.2, 0.3, 0.5)
SILENT_SHARES = (0.15, 0.4)
SEEDS = range(5)
EPISODES = 200
SAMPLES = 4
NO_LIMIT = 1_000_000
GATE = GateConfig(audit_rate=0.05)
CUT, KEPT = 0.6, 0.9
Samples = dict[str, list[Message]]


class Actor:
    """Errs at `rate` of its calls. Where it errs depends on the state alone, so that its samples can be unsure."""

    def __init__(self, rate: float, silent: float, seed: int) -> None:
        self.rate = rate
        self.silent = silent
        self.rng = random.Random(f"{rate}:{silent}:{seed}")

    def turn(self, episode: ToolboxEpisode) -> str:
        try:
            right = next_call(episode)
        except LookupError:
            right = None
        if right is None:
            return FINISH
        place = random.Random(f"{episode.task.task_id}:{[turn.text for turn in episode.turns]}")
        draw = place.random()
        if draw < 0.2 * self.rate:
            return mistake(right, self.silent, place)
        unsure = draw < 0.2 * self.rate + 1.6 * self.rate
        return mistake(right, self.silent, self.rng) if unsure and self.rng.random() < 0.5 else right.render()

    def play(self, index: int, sample: int) -> Trace:
        episode = ToolboxEpisode(make_task(TOOLBOX, "train", index))
        while not episode.finished:
            episode.step(self.turn(episode))
        return trace_of(episode, "scripted", sample)

    def sample(self, state: State) -> list[Message]:
        assert state.trace.task_id
        task = task_by_id(TOOLBOX, state.trace.task_id)
        episode = replay_history(task, state.trace.history(state.turn))
        return [message_of(self.turn(episode)) for _ in range(SAMPLES)]


def mistake(right: Call, silent: float, rng: random.Random) -> str:
    param = rng.choice(list(right.arguments))
    value = right.arguments[param]
    if rng.random() < silent:
        wrong = value + rng.randint(1, 9) if isinstance(value, int) else f"{value}{rng.randint(1, 9)}"
        return rng.choice([FINISH, Call(right.name, {**right.arguments, param: wrong}).render()])
    name, types = Call("run", right.arguments), Call(right.name, {**right.arguments, param: [value]})
    return rng.choice([name.render(), types.render(), right.render()[:-1]])


def message_of(text: str) -> Message:
    try:
        call = parse_call(text)
    except CallError:
        return {"role": "assistant", "content": text}
    function: Any = {"name": call.name, "arguments": canonical_json(call.arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def ask_all(traces: Sequence[Trace], seed: int) -> dict[str, list[TeacherReply]]:
    """Every teacher at every turn, by state id."""
    replies: dict[str, list[TeacherReply]] = {}
    tasks = [task_by_id(TOOLBOX, trace.task_id) for trace in traces if trace.task_id]
    with SimulatedTeachers(tasks, ERROR_RATES, seed) as server:
        for trace in traces:
            for turn in range(len(trace.turns)):
                history = trace.history(turn)
                replies[trace.state_id(turn)] = [
                    reply_of(trace, turn, teacher, server.answer({"model": teacher.model, "messages": history}))
                    for teacher in TEACHERS
                ]
    return replies


def reply_of(trace: Trace, turn: int, teacher: Teacher, answer: dict[str, Any]) -> TeacherReply:
    parsed = parse_reply(json.dumps(answer), teacher.model)
    return TeacherReply(
        key=f"{trace.trace_id}:{turn}:{teacher.model}", state_id=trace.state_id(turn), trace_id=trace.trace_id,
        turn=turn, teacher=teacher.model, served_model=parsed.served_model, family=teacher.family, action=parsed.action,
        raw="", finish_reason=parsed.finish_reason, usage=parsed.usage, cost_micros=0, latency_s=0.0,
        outcome=parsed.outcome, simulated=True,
    )  # fmt: skip


def tiered(replies: Sequence[TeacherReply]) -> list[TeacherReply]:
    """Of all replies at a state, those that the plan of tiers asks for."""
    asked: list[TeacherReply] = []
    while due := {teacher.model for teacher in teachers_to_ask(TEACHERS, asked)}:
        asked += [reply for reply in replies if reply.teacher in due]
    return asked


def compare(traces: Sequence[Trace], seed: int, samples: Samples) -> dict[str, Any]:
    """Calls and correct pairs of an ungated replay and of four gated ones."""
    replies = ask_all(traces, seed)
    environment = ToolboxEnvironment(TOOLBOX)
    remember(environment, traces)
    is_right_action = oracle(environment)
    known = {trace.trace_id: trace for trace in traces}

    @cache
    def judged(trace_id: str, turn: int, call: str) -> bool | None:
        return is_right_action(known[trace_id].state(turn), call)

    def is_right(pair: PreferencePair) -> bool | None:
        return judged(pair.trace_id, pair.turn, canonical_tool_call(pair.chosen.get("tool_calls", [])[0]))

    def pairs_of(answers: Iterable[TeacherReply]) -> list[PreferencePair]:
        return extract_dpo_pairs(traces, list(answers)).pairs

    def correct(pairs: Iterable[PreferencePair]) -> set[str]:
        return {pair.state_id for pair in pairs if is_right(pair)}

    sites = [site for trace in traces for site in find_sites(trace)]
    every = [reply for answers in replies.values() for reply in answers]
    target = correct(pairs_of(every))
    gates = {
        "errors_and_audit": choose_states(traces, sites, GATE, NO_LIMIT, seed),
        "with_samples": choose_states(traces, sites, GATE, NO_LIMIT, seed, samples),
    }
    result: dict[str, Any] = {
        "states": len(replies),
        "error_states": sum(choice.bucket == "error" for choice in gates["errors_and_audit"]),
        "calls": len(every),
        "correct_pairs": len(target),
        "arms": {},
    }
    for name, choices in gates.items():
        for suffix, plan in (("", list[TeacherReply]), ("_tiered", tiered)):
            answers = [reply for choice in choices for reply in plan(replies[choice.state.state_id])]
            pairs = pairs_of(answers)
            result["arms"][name + suffix] = {
                "calls": len(answers),
                "pairs": len(pairs),
                "correct_pairs_kept": len(correct(pairs) & target),
                "yield": report(choices, pairs, is_right),
            }
    return result


def policy_samples(run: Run, traces: Sequence[Trace]) -> Samples:
    """Fresh turns of the run's policy at every state of its rollouts."""
    import torch

    from composer_replication.training.models.loading import load_saved_policy
    from composer_replication.training.rollouts.sampling import sample_turns
    from composer_replication.training.stored.records import TokenizedTrace

    policy = load_saved_policy(run.path / "policy" / "model", run.config.model.name)
    known = {trace.trace_id: trace for trace in traces}
    contexts = {
        known[row.trace_id].state_id(turn): row.ids[:start]
        for row in read_records(run.path / ROLLOUT_TOKENS, TokenizedTrace)
        for turn, (start, _) in enumerate(row.turn_spans)
    }
    turns = sample_turns(
        policy.model,
        [ids for ids in contexts.values() for _ in range(SAMPLES)],
        end_of_turn_id=policy.tokens.end_of_turn_id,
        pad_id=policy.tokenizer.pad_token_id,
        max_new_tokens=run.config.training.max_turn_tokens,
        temperature=run.config.training.temperature,
        generator=torch.Generator(device=policy.model.device).manual_seed(run.config.seed),
    )
    messages = iter([message_of(policy.tokens.text(turn.ids)) for turn in turns])
    return {state_id: [next(messages) for _ in range(SAMPLES)] for state_id in contexts}


def report(choices: Sequence[Choice], pairs: Sequence[PreferencePair], is_right: Any) -> dict[str, Any]:
    asked = [choice.stored() for choice in choices]
    return {bucket: row._asdict() for bucket, row in yields(asked, pairs, is_right).items()}


def scripted() -> dict[str, Any]:
    result: dict[str, Any] = {}
    for silent, rate in itertools.product(SILENT_SHARES, CALL_ERROR_RATES):
        runs: list[dict[str, Any]] = []
        for seed in SEEDS:
            actor, first = Actor(rate, silent, seed), 500_000_000 + seed * EPISODES
            traces = [actor.play(first + n, n) for n in range(EPISODES)]
            states = [State(trace, turn) for trace in traces for turn in range(len(trace.turns))]
            runs.append(compare(traces, seed, {state.state_id: actor.sample(state) for state in states}))
        result[f"scripted, {rate:.0%} of calls wrong, {silent:.0%} of these silently"] = runs
    return result


def compare_run(run: Run) -> dict[str, Any]:
    traces = [trace for trace in run.stage("ingestion").read(Trace) if trace.task_id]
    return compare(traces, run.config.seed, policy_samples(run, traces))


def show(name: str, runs: Sequence[dict[str, Any]]) -> None:
    states, errors, target = (sum(run[key] for run in runs) for key in ("states", "error_states", "correct_pairs"))
    print(f"\n{name}: {errors / states:.0%} of {states} states are errors, {target / states:.0%} give a correct pair")
    print(f"  {'the best that any gate can do':<30} calls −{1 - KEPT * target / states:.0%} at {KEPT:.0%} of the pairs")
    for arm in runs[0]["arms"]:
        cuts = [1 - run["arms"][arm]["calls"] / run["calls"] for run in runs]
        kept = [run["arms"][arm]["correct_pairs_kept"] for run in runs]
        share, interval = sum(kept) / target, clopper_pearson(sum(kept), target)
        reached = "reached" if mean(cuts) >= CUT and share >= KEPT else "not reached"
        print(
            f"  {arm:<30} calls −{mean(cuts):.0%} ({min(cuts):.0%} to {max(cuts):.0%} by seed), correct pairs kept "
            f"{share:.1%} [{interval[0]:.1%}, {interval[1]:.1%}]: {reached}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--run", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    runs = [Run.open(path) for path in options.run]
    print("SIMULATED teachers")
    result = scripted()
    if runs:
        result["rollouts of quickstart runs"] = [compare_run(run) for run in runs]
    for name, rows in result.items():
        show(name, rows)
    if options.json:
        options.json.write_text(json.dumps({"simulated": True, "results": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
