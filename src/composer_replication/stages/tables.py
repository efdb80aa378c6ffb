"""The records of a run as flat rows: which tables there are, their columns, and how a record fills them.

Reads nothing itself; `parquet.py` streams the records through. `docs/tables.md` says what each column means, and a
test compares its names and types with those below. Structures without a fixed shape stay JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.pairs.build import VERDICTS, StateVerdict
from composer_replication.records import (
    ErrorSite,
    Hint,
    Message,
    PreferencePair,
    StoredRecord,
    TeacherReply,
    Trace,
    canonical_json,
    render_action,
)

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Table:
    name: str
    columns: str
    """The name and Arrow's type of each. What `fill` does not give is the record's field of that name."""
    fill: Callable[[Any], Iterator[Row]] = lambda record: iter(({},))

    @cached_property
    def types(self) -> dict[str, str]:
        words = self.columns.split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def rows(self, record: StoredRecord) -> Iterator[Row]:
        for given in self.fill(record):
            yield {name: given[name] if name in given else getattr(record, name) for name in self.types}


@dataclass(frozen=True, eq=False)
class RecordFile:
    """A file of records in a run, and the tables that are made of it in one pass."""

    stage: str
    record: type[StoredRecord]
    tables: tuple[Table, ...]
    beside: str | None = None
    """Its name where it is not the stage's own records."""


def _trace(trace: Trace) -> Iterator[Row]:
    source, first = trace.source, trace.messages[0] if trace.messages else None
    yield {
        "agent": source.agent,
        "agent_version": source.version,
        "file": source.file,
        "folder": str(PurePosixPath(source.file).parent) if source.file else None,
        "licence": source.licence,
        "subagent": source.subagent,
        "system": first["content"] if first and first["role"] == "system" else None,
        "turns": len(trace.turns),
        "messages": len(trace.messages),
        "segments": len(trace.segments),
        "characters": _characters(trace.messages),
        "tools": canonical_json(trace.tools),
    }


def _turns(trace: Trace) -> Iterator[Row]:
    seen: dict[int, tuple[int, int]] = {}
    """Of a segment: up to which message its history was counted, and how long it was there."""
    told = 0
    for number, turn in enumerate(trace.turns):
        message = trace.messages[turn.start]
        if turn.segment in seen:
            counted, before = seen[turn.segment]
            history = before + _characters(trace.messages[counted : turn.start])
        else:
            history = _characters(trace.history(number))
        seen[turn.segment] = (turn.start, history)
        users = [one["content"] for one in trace.messages[told : turn.start] if one["role"] == "user"]
        told = turn.end
        yield {
            **turn.model_dump(),
            "turn": number,
            "state_id": trace.state_id(number),
            "user_text": "\n\n".join(users) if users else None,
            "text": message["content"],
            "calls": len(message.get("tool_calls", [])),
            "history_characters": history,
            "action_characters": len(render_action(message, turn.thinking)),
            "result_characters": _characters(trace.messages[turn.start + 1 : turn.end]),
        }


def _calls(trace: Trace) -> Iterator[Row]:
    for number, turn in enumerate(trace.turns):
        answers = trace.messages[turn.start + 1 : turn.end]
        results = {one["tool_call_id"]: one for one in answers if "tool_call_id" in one}
        for place, call in enumerate(trace.messages[turn.start].get("tool_calls", [])):
            result = results.get(call["id"])
            yield {
                "turn": number,
                "call": place,
                "call_id": call["id"],
                "tool_name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
                "result": result["content"] if result else None,
                "marked_error": result.get("is_error", False) if result else None,
            }


def _characters(messages: Sequence[Message]) -> int:
    """Of their texts, and of the calls that they make."""
    calls = (call["function"] for message in messages for call in message.get("tool_calls", []))
    written = sum(len(call["name"]) + len(call["arguments"]) for call in calls)
    return written + sum(len(message["content"]) for message in messages)


def _site(site: ErrorSite) -> Iterator[Row]:
    start, end = site.span or (None, None)
    yield {"span_start": start, "span_end": end}


def _reply(reply: TeacherReply) -> Iterator[Row]:
    yield reply.usage.model_dump()


def _pair(pair: PreferencePair) -> Iterator[Row]:
    sides = {"chosen": canonical_json(pair.chosen), "rejected": canonical_json(pair.rejected)}
    yield {**sides, **pair.agreement.model_dump()}


TRACES = """
trace_id string  agent string  agent_version string  file string  folder string  licence string  subagent bool
task_id string  outcome double  system string  system_is_ours bool  turns int64  messages int64  segments int64
characters int64  tools string  tools_inferred bool
"""
TURNS = """
trace_id string  turn int64  state_id string  segment int64  source_model string  family string  fidelity string
abandoned bool  user_text string  thinking string  text string  calls int64  history_characters int64
action_characters int64  result_characters int64
"""
CALLS = """
trace_id string  turn int64  call int64  call_id string  tool_name string  arguments string  result string
marked_error bool
"""
SITES = """
site_id string  trace_id string  turn int64  state_id string  error_kind string  secondary_kind string  fault string
error_message string  call_id string  tool_name string  span_start int64  span_end int64  detector string
confidence double
"""
HINTS = """
hint_id string  site_id string  text string  sham_text string  layer string  leak_level string  tokens int64
"""
REPLIES = """
key string  trace_id string  turn int64  state_id string  teacher string  served_model string  family string
action string  raw string  finish_reason string  prompt_tokens int64  completion_tokens int64  cost_micros int64
latency_s double  outcome string  simulated bool
"""
PAIRS = """
pair_id string  trace_id string  turn int64  state_id string  chosen string  rejected string  tier string
votes int64  n int64  families string[]  kind string  precision double  chosen_from string  rejected_from string
off_policy bool  provenance string[]  simulated bool
"""
FILES = (
    RecordFile(
        "ingestion",
        Trace,
        (Table("traces", TRACES, _trace), Table("turns", TURNS, _turns), Table("calls", CALLS, _calls)),
    ),
    RecordFile("sites", ErrorSite, (Table("sites", SITES, _site),)),
    RecordFile("hints", Hint, (Table("hints", HINTS),)),
    RecordFile("hints", HintRefusal, (Table("refusals", "site_id string  reason string"),), REFUSALS),
    RecordFile("replay", TeacherReply, (Table("replies", REPLIES, _reply),)),
    RecordFile(
        "pairs",
        StateVerdict,
        (Table("verdicts", "trace_id string  turn int64  state_id string  verdict string"),),
        VERDICTS,
    ),
    RecordFile("pairs", PreferencePair, (Table("pairs", PAIRS, _pair),)),
)
