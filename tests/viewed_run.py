"""A run to look at, without a model: a real session, its sites and hints by the real stages, the rest by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

from composer_replication.config import quickstart_config
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import (
    Agreement,
    ErrorSite,
    Finding,
    PreferencePair,
    Source,
    TeacherReply,
    Trace,
    Turn,
    Usage,
    content_id,
)
from composer_replication.runs import Run, write_records
from composer_replication.viewer.filling import AnyFields

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u200b<script>alert(1)</script>\x9b31m\U000e0041\ud83d"
FAMILIES = ("qwen", "glm", "kimi")


def viewed_run(path: Path) -> Run:
    """Of the session that ships with the package."""
    base = quickstart_config("tiny", 0)
    settings = base.model_copy(update={"ingestion": base.ingestion.model_copy(update={"rollouts": 0})})
    run = Run.start(path, settings)
    for noun in ("ingestion", "sites", "hints"):
        run_stage(run, noun, Silent())
    sites = run.stage("sites").read(ErrorSite)
    site = sites[0]
    replies = [_reply(site, family, place) for place, family in enumerate(FAMILIES)]
    pair = PreferencePair(
        pair_id=content_id("pair", site.state_id),
        state_id=site.state_id,
        trace_id=site.trace_id,
        turn=site.turn,
        chosen=_called("Task", prompt="look", subagent_type="general-purpose"),
        rejected=_called("Task", subagent_type="general-purpose"),
        agreement=Agreement(tier="exact", votes=2, n=3, families=FAMILIES[:2]),
        kind=site.error_kind,
        off_policy=True,
        provenance=tuple(reply.key for reply in replies[:2]),
        simulated=True,
    )
    counts = {"states": 1, "replies": 3, "outcomes": {"answered": 3}, "simulated": True}
    run.stage("replay").finish(replies, counts, [run.stage("sites")], time.monotonic())
    verdicts = {"pairs": 1, "verdicts": {"paired": 1, "no_majority": 1}}
    run.stage("pairs").finish([pair], verdicts, [run.stage("replay")], time.monotonic())
    states = {sites[0].state_id: "paired", sites[1].state_id: "no_majority"}
    ended = [AnyFields({"state_id": state, "verdict": verdict}) for state, verdict in states.items()]
    write_records(run.path / "pairs" / "verdicts.jsonl.zst", ended)
    finding = Finding(
        finding_id=content_id("finding"),
        trace_id=site.trace_id,
        step=3,
        hack_class="test_edit",
        rule="test_deleted",
        evidence="soft",
        layer="command",
        lines=("rm tests/test_a.py",),
    )
    run.stage("monitor").finish([finding], {"alarms": 0}, [run.stage("ingestion")], time.monotonic())
    _train(run, site.trace_id)
    return run


def add_trace(run: Run, trace: Trace) -> None:
    """Beside what ingestion found; the stage is then another one."""
    stage = run.stage("ingestion")
    manifest, traces = stage.require(), [*stage.read(Trace), trace]
    stage.finish(traces, manifest["counts"], [], time.monotonic(), manifest["inputs"])


def long_trace(turns: int, text: str = "ok") -> Trace:
    messages = [{"role": "user", "content": f"begin {text}"}]
    for number in range(turns):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": f"turn {number} {text}", "tool_calls": [call]})
        messages.append({"role": "tool", "content": f"result {number}", "tool_call_id": f"c{number}"})
    return Trace(
        trace_id=content_id("long", turns, text.encode("utf-8", "replace").decode()),
        source=Source(agent="test"),
        messages=tuple(messages),
        turns=tuple(Turn(start=1 + 2 * number, end=3 + 2 * number) for number in range(turns)),
        task_id="task/long",
    )


def _reply(site: ErrorSite, family: str, place: int) -> TeacherReply:
    call = {"name": "Task", "arguments": {"prompt": "look" if place < 2 else "see"}}
    return TeacherReply(
        key=f"{content_id('reply', family)}{'0' * 48}",
        state_id=site.state_id,
        trace_id=site.trace_id,
        turn=site.turn,
        teacher=f"{family}/big",
        served_model=f"{family}/big",
        family=family,
        action=json.dumps(call, sort_keys=True),
        raw=json.dumps({"choices": [{"message": {"content": f"I am {family}"}}]}),
        finish_reason="tool_calls",
        usage=Usage(prompt_tokens=10 + place, completion_tokens=5),
        cost_micros=100 + place,
        latency_s=0.5 + place,
        outcome="answered",
        simulated=True,
    )


def _called(name: str, **arguments: str):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def _train(run: Run, trace_id: str) -> None:
    folder = run.path / "training"
    (folder / "samples").mkdir(parents=True)
    rollout = {
        **{"step": 1, "trace_id": "abcdefabcdefabcd", "task_id": "task/1", "reward": 1.0, "sampled_tokens": 2},
        **{"prompt": [{"role": "user", "content": "do"}]},
        "turns": [{"action": "done", "observations": ["ok"], "error_kinds": [], "hint": None}],
    }
    write_records(folder / "samples" / "step_0000001.jsonl.zst", [AnyFields(rollout)])
    weights = {"step": 1, "trace_id": "abcdefabcdefabcd", "part": "rollout", "ids": [1, 2]}
    more = {"pieces": ["do", "ne"], "mask": [0, 1], "entropy": [0.0, 0.5]}
    rows = [
        AnyFields({**weights, **more, "channel": "policy", "weights": [0.0, 0.25]}),
        AnyFields({**weights, "channel": "sdpo", "weights": [0.0, 0.125]}),
    ]
    write_records(folder / "token_weights" / "step_0000001.jsonl.zst", rows)
    (folder / "metrics.jsonl").write_text('{"step":1,"loss":0.5}\n{"step":2,"loss":0.4}\n{"st')
    (folder / "read.jsonl").write_text(json.dumps({"step": 2, "traces": [trace_id]}) + "\n")
