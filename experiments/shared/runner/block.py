"""What the arms of one seed share: the starting policy, its rollouts, and the pairs that learned teachers agree on."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from composer_replication.config import Config
from composer_replication.environments.toolbox.environment import ToolboxEnvironment, open_toolbox
from composer_replication.environments.toolbox.episode import CallError, parse_call
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.records import (
    ErrorSite,
    PreferencePair,
    TeacherReply,
    Trace,
    Usage,
    canonical_call,
    content_id,
)
from composer_replication.runs import read_records, write_records
from composer_replication.sites import find_sites
from composer_replication.stages.pairs import oracle, remember
from composer_replication.training.models.loading import Policy, load_policy, load_saved_policy
from composer_replication.training.policy import play
from composer_replication.training.rollouts.sampling import sample_turns
from composer_replication.training.stored.examples import TraceExample, build_examples
from composer_replication.training.stored.records import TokenizedTrace
from composer_replication.training.warmup import warm_up

STATES_AT_ONCE = 256


def warmed_up(config: Config, folder: Path) -> Policy:
    """A policy after its warm-up, kept in `folder`."""
    policy = load_policy(config.model.name, ToolboxEnvironment(config.toolbox), config.seed)
    warm_up(
        policy.model,
        policy.tokens,
        ToolboxEnvironment(config.toolbox),
        config.warmup,
        config.seed,
        lambda step, loss: None,
    )
    policy.save(folder)
    return policy


def make_data(start: Policy, teachers: dict[str, Path], config: Config, folder: Path) -> dict[str, Any]:
    """Rollouts of the start, what every teacher does at each of their turns, and the pairs that follow; counts."""
    environment = open_toolbox(config)
    traces, rows, _ = play(start, config, environment)
    states = [(trace, turn, list(row.ids[: row.turn_spans[turn][0]])) for trace, row in zip(traces, rows, strict=True)
              for turn in range(len(trace.turns))]  # fmt: skip
    replies: list[TeacherReply] = []
    for name, where in teachers.items():
        replies += replies_of(load_saved_policy(where, name), states, config)
    found = extract_dpo_pairs(traces, replies, start.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_records(folder / "traces.jsonl.zst", traces)
    write_records(folder / "rows.jsonl.zst", rows)
    write_records(folder / "pairs.jsonl.zst", found.pairs)
    remember(environment, traces)
    is_right = oracle(environment)
    known = {trace.trace_id: trace for trace in traces}
    verdicts = [is_right(known[pair.trace_id].state(pair.turn), action_of(pair)) for pair in found.pairs]
    right = {
        name: [is_right(known[reply.trace_id].state(reply.turn), reply.action)
               for reply in replies if reply.teacher == name and reply.action]
        for name in teachers
    }  # fmt: skip
    return {
        "states": len(states),
        "pairs": len(found.pairs),
        "verdicts": dict(found.verdicts),
        "chosen_right": sum(bool(verdict) for verdict in verdicts),
        "teacher_calls": {name: len(given) for name, given in right.items()},
        "teacher_calls_right": {name: sum(bool(one) for one in given) for name, given in right.items()},
        "start_success": sum(row.reward for row in rows) / len(rows),
    }


def data_hash(folder: Path) -> str:
    """Of what is trained on."""
    return hashlib.sha256((folder / "pairs.jsonl.zst").read_bytes()).hexdigest()[:16]


def canonical_action(text: str) -> str | None:
    try:
        call = parse_call(text)
    except CallError:
        return None
    return canonical_call(call.name, call.arguments)


def action_of(pair: PreferencePair) -> str:
    function = pair.chosen["tool_calls"][0]["function"]  # pairs of this experiment are always calls
    return json.dumps({"name": function["name"], "arguments": json.loads(function["arguments"])})


def replies_of(teacher: Policy, states: list[tuple[Trace, int, list[int]]], config: Config) -> list[TeacherReply]:
    """One greedy turn per state, as `recompose replay` would have stored it."""
    replies: list[TeacherReply] = []
    for begin in range(0, len(states), STATES_AT_ONCE):
        part = states[begin : begin + STATES_AT_ONCE]
        with torch.autocast(teacher.model.device.type, torch.bfloat16, enabled=teacher.model.device.type == "cuda"):
            turns = sample_turns(
                teacher.model,
                [ids for _, _, ids in part],
                end_of_turn_id=teacher.tokens.end_of_turn_id,
                pad_id=teacher.tokenizer.pad_token_id,
                max_new_tokens=config.training.max_turn_tokens,
                temperature=0.0,
            )
        for (trace, turn, ids), sampled in zip(part, turns, strict=True):
            text = teacher.tokens.text(sampled.ids)
            action = canonical_action(text)
            replies.append(
                TeacherReply(
                    key=content_id(teacher.name, trace.trace_id, turn),
                    state_id=trace.state_id(turn),
                    trace_id=trace.trace_id,
                    turn=turn,
                    teacher=teacher.name,
                    served_model=teacher.name,
                    family=teacher.name,
                    action=action,
                    raw=text,
                    finish_reason="stop",
                    usage=Usage(prompt_tokens=len(ids), completion_tokens=len(sampled.ids)),
                    cost_micros=0,
                    latency_s=0.0,
                    outcome="answered" if action else "no_action",
                    simulated=True,
                )
            )
    return replies


def examples_of(policy: Policy, folder: Path, config: Config) -> list[TraceExample]:
    traces = list(read_records(folder / "traces.jsonl.zst", Trace))
    sites: dict[str, ErrorSite] = {site.site_id: site for trace in traces for site in find_sites(trace)}
    rows = read_records(folder / "rows.jsonl.zst", TokenizedTrace)
    pairs = read_records(folder / "pairs.jsonl.zst", PreferencePair)
    return build_examples(policy.tokens, rows, sites, [], pairs, config.training.max_tokens)[0]
