"""Records: ids that never change, histories sliced from one copy of the messages, one spelling per action."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from composer_replication.records import (
    ERROR_KINDS,
    Agreement,
    ErrorSite,
    Finding,
    Hint,
    Message,
    PreferencePair,
    Record,
    Segment,
    Source,
    Task,
    TeacherReply,
    ToolCall,
    Trace,
    Turn,
    Usage,
    canonical_call,
    canonical_json,
    canonical_tool_call,
    content_id,
    family_of,
    render_action,
    turns_of,
)


def call(arguments: str, name: str = "get_key") -> ToolCall:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES: tuple[Message, ...] = (
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "", "tool_calls": [call('{"key": "a"}')]},
    {"role": "tool", "content": "no key a", "tool_call_id": "c", "is_error": True},
    {"role": "user", "content": "summary"},
    {"role": "assistant", "content": "hm", "tool_calls": [call('{"key":"b"}')]},
    {"role": "tool", "content": "5", "tool_call_id": "c"},
    {"role": "assistant", "content": "done"},
)
TRACE = Trace(
    trace_id="t",
    source=Source(agent="a"),
    messages=MESSAGES,
    turns=(
        Turn(start=2, end=4),
        Turn(start=5, end=7, segment=1, thinking="perhaps b"),
        Turn(start=7, end=8, segment=1),
    ),
    segments=(Segment(start=0), Segment(start=4, preserved=(0, 2))),
)
SITE = ErrorSite(
    site_id="e", trace_id="t", turn=0, state_id="s", error_kind="runtime_error", error_message="no key a", span=(0, 3),
    detector="d",
)  # fmt: skip
REPLY = TeacherReply(
    key="k", state_id="s", trace_id="t", turn=0, teacher="m", served_model=None, family="f", action=None, raw="é",
    finish_reason=None, usage=Usage(prompt_tokens=3), cost_micros=7, latency_s=0.25, outcome="no_action",
    simulated=True,
)  # fmt: skip
PAIR = PreferencePair(
    pair_id="p", state_id="s", trace_id="t", turn=0, chosen=MESSAGES[5], rejected=MESSAGES[2],
    agreement=Agreement(tier="exact", votes=2, n=3, families=("x", "y")), off_policy=True, provenance=("k",),
    simulated=False,
)  # fmt: skip
HINT = Hint(hint_id="h", site_id="e", text="t", sham_text="s", layer="template", leak_level="L1", tokens=1)
TASK = Task(task_id="k", kind="toolbox", statement="do", visible_hash="v", hidden_hash="h", difficulty={"calls": 2})
FINDING = Finding(
    finding_id="f", trace_id="t", step=1, hack_class="c", rule="r", evidence="hard", layer="l", lines=("x",)
)
RECORDS = (TRACE, SITE, REPLY, PAIR, HINT, TASK, FINDING)
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)

GOLDEN_IDS = [
    (("toolbox", 7), "e4ccf76897efeaf3"),
    (("é", {"b": 1, "a": [None, True, 1.5]}), "071592567ce4535a"),
    ((), "4f53cda18c2baa0c"),
]


@pytest.mark.parametrize(("parts", "expected"), GOLDEN_IDS)
def test_content_ids_never_change(parts, expected):
    assert content_id(*parts) == expected


def test_state_ids_never_change():
    assert [TRACE.state_id(turn) for turn in range(3)] == ["4b5894d11d5ca063", "0f5abc6cb10c8ee1", "e97415048c73ee11"]


def test_content_id_ignores_key_order_and_nothing_else():
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    different = [content_id(*parts) for parts in (("ab",), ("a", "b"), ("b", "a"), (["a", "b"],), (1,), ("1",), (1.0,))]
    assert len(set(different)) == len(different)


def test_canonical_json_is_sorted_compact_and_keeps_unicode():
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'


def test_a_turn_sees_everything_before_it():
    assert TRACE.history(0) == list(MESSAGES[:2])


def test_a_turn_after_a_restart_sees_preserved_messages_then_its_segment():
    assert TRACE.history(1) == [MESSAGES[0], MESSAGES[2], MESSAGES[4]]
    assert TRACE.history(2) == [MESSAGES[0], MESSAGES[2], *MESSAGES[4:7]]


def test_a_state_has_exactly_the_three_public_keys():
    state = TRACE.state(1)
    assert set(state) == {"state_id", "messages", "student_action"}
    assert state["state_id"] == TRACE.state_id(1)
    assert state["messages"] == TRACE.history(1)
    assert state["student_action"] == render_action(MESSAGES[5], "perhaps b")


def test_states_yields_one_per_turn_in_order():
    assert list(TRACE.states()) == [TRACE.state(0), TRACE.state(1), TRACE.state(2)]


def test_an_action_is_thinking_then_text_then_canonical_calls():
    message: Message = {"role": "assistant", "content": "hm", "tool_calls": [call('{ "b":1, "a":2}'), call("{", "x")]}
    assert render_action(message, "so") == (
        "<thinking>so</thinking>\nhm\n"
        '<tool_call>{"arguments":{"a":2,"b":1},"name":"get_key"}</tool_call>\n'
        '<tool_call>{"arguments":"{","name":"x"}</tool_call>'
    )


def test_empty_parts_of_an_action_leave_no_blank_line():
    assert render_action({"role": "assistant", "content": "done"}) == "done"
    only_call: Message = {"role": "assistant", "content": "", "tool_calls": [call("{}")]}
    assert render_action(only_call) == '<tool_call>{"arguments":{},"name":"get_key"}</tool_call>'


def test_a_canonical_call_does_not_depend_on_key_order_or_spacing():
    spellings = ['{"a":1,"b":{"c":[1,2],"d":null}}', '{ "b" : {"d":null, "c":[1, 2]},\n "a": 1 }']
    assert {canonical_tool_call(call(text)) for text in spellings} == {
        canonical_call("get_key", {"a": 1, "b": {"c": [1, 2], "d": None}})
    }


def test_a_canonical_call_depends_on_name_values_and_types():
    calls = [call('{"a":1}'), call('{"a":2}'), call('{"a":"1"}'), call('{"a":[2,1]}'), call('{"a":[1,2]}')]
    assert len({canonical_tool_call(c) for c in [*calls, call('{"a":1}', "set_key")]}) == 6


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-opus-4-1-20250805", "claude"),
        ("anthropic/Claude-Sonnet-4", "claude"),
        ("openai/gpt-5", "gpt"),
        ("qwen/qwen3-coder", "qwen"),
        ("z-ai/glm-4.6", "glm"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm"),
        ("mistralai/devstral-small", "mistral"),
        ("devstral:24b", "mistral"),
        ("codestral-latest", "mistral"),
        ("mistral-large-latest", "mistral"),
        ("gemma3:27b", "gemini"),
        ("o3-mini", "gpt"),
        ("o4-mini-2025-04-16", "gpt"),
        ("chatgpt-4o-latest", "gpt"),
        ("codex-mini-latest", "gpt"),
        ("AIDC-AI/Marco-o1", "aidc-ai"),
        ("o3x", "o3x"),
        ("vendor/model-x", "vendor"),
        ("simulated-a/noisy-oracle-10", "simulated-a"),
        ("tiny", "tiny"),
        ("<synthetic>", None),
        ("", None),
        (None, None),
    ],
)
def test_family_of(model, family):
    assert family_of(model) == family


def test_one_vendor_is_one_family():
    assert family_of("openai/o3") == family_of("openai/gpt-5")


def test_error_kinds_are_the_closed_list():
    assert " ".join(ERROR_KINDS) == (
        "tool_not_found json_decode type_error runtime_error repeated_failure no_action exit_code edit_mismatch "
        "edit_precondition file_not_found timeout permission limit hook_block user_rejection interruption "
        "correction silent_failure style communication effort"
    )
    with pytest.raises(ValidationError):
        ErrorSite.model_validate(SITE.model_dump() | {"error_kind": "typo"})


@each_record
def test_records_survive_json(record: Record):
    text = record.model_dump_json()
    again = type(record).model_validate_json(text)
    assert again == record
    assert again.model_dump_json() == text
    assert json.loads(text)["schema_version"] == 1


@each_record
def test_records_are_frozen(record: Record):
    field = next(name for name in type(record).model_fields if name != "schema_version")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(record, field, getattr(record, field))


@each_record
def test_records_refuse_unknown_fields(record: Record):
    with pytest.raises(ValidationError, match="surprise"):
        type(record).model_validate(record.model_dump() | {"surprise": 1})


def test_nested_records_and_messages_refuse_unknown_fields():
    for path in ("source", "usage", "agreement"):
        record = next(record for record in RECORDS if path in type(record).model_fields)
        values = record.model_dump()
        values[path]["surprise"] = 1
        with pytest.raises(ValidationError, match="surprise"):
            type(record).model_validate(values)
    with pytest.raises(ValidationError, match="surprise"):
        Trace(trace_id="t", source=Source(agent="a"), turns=(), messages=({**MESSAGES[0], "surprise": 1},))


def test_turns_of_a_rollout_begin_behind_the_task_and_hold_their_answers():
    asked, said, told = ({"role": role, "content": "x"} for role in ("user", "assistant", "tool"))
    shown = [asked, said, asked]
    assert turns_of(shown, 3, "m") == (), "an example in the task is no turn"
    found = turns_of([*shown, said, told, told, said, said], 3, "Qwen/Qwen3-0.6B")
    assert [(turn.start, turn.end) for turn in found] == [(3, 6), (6, 7), (7, 8)]
    assert {(turn.source_model, turn.family) for turn in found} == {("Qwen/Qwen3-0.6B", "qwen")}
