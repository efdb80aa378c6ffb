"""What goes over the wire to each kind of server: every rule of the table, and a history with every trap in it."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.config import ReplayConfig, parse_config
from composer_replication.errors import UsageError
from composer_replication.ingestion import find_inputs, read_traces
from composer_replication.llm.addresses import PublicResolver, require_allowed
from composer_replication.llm.dialects import DIALECTS, dialect_of
from composer_replication.llm.legal import (
    GO_ON,
    MALFORMED,
    NO_REPLY,
    NO_RESULT,
    OPENING,
    legal_messages,
    legal_name,
    legal_tools,
)
from composer_replication.llm.outgoing import encoded
from composer_replication.llm.parameters import Parameters, parameters_of
from composer_replication.llm.pricing import Prices
from composer_replication.llm.wire import ChatWire
from composer_replication.records import Source, Trace, Turn, canonical_call
from composer_replication.replay import State, Teacher, replay_states
from composer_replication.replay.choice import configured_teachers, written_teachers
from composer_replication.replay.requests import TeacherQuestion, questions, request_key
from composer_replication.replay.runner import endpoint_of
from tests.dialect_rules import CHECKS, Refused
from tests.dialect_servers import ANSWER_TOKENS, CACHED_TOKENS, PROMPT_TOKENS, WRITTEN_TOKENS, DialectServer

NAMES = tuple(DIALECTS)
SAMPLES = Path(__file__).parents[1] / "samples"
MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-opus-4-7", "mistral": "mistral-large", "vllm": "qwen3"}


def said(role: str, content: str = "words") -> dict:
    return {"role": role, "content": content}


def called(*calls: tuple[str, str, str], content: str = "") -> dict:
    made = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": made}


def result(id_: str, content: str = "done") -> dict:
    return {"role": "tool", "content": content, "tool_call_id": id_}


def tool(name: str = "look", **parameters) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", **parameters}}}


GOOD = [said("system"), said("user"), called(("abcdefgh1", "look", "{}")), result("abcdefgh1")]
LIST = {"type": "array"}
TRAPS = {
    "user after tool": [*GOOD, said("user")],
    "two users": [said("system"), said("user"), said("user", "more")],
    "two assistants": [said("user"), said("assistant"), called(("abcdefgh1", "look", "{}")), result("abcdefgh1")],
    "system twice": [said("system"), said("system", "more"), said("user")],
    "system later": [*GOOD, said("system", "a reminder")],
    "no system": GOOD[1:],
    "assistant first": [said("system"), *GOOD[2:]],
    "only system": [said("system")],
    "assistant last": [said("user"), said("assistant")],
    "malformed arguments": [said("user"), called(("abcdefgh1", "look", '{"a": ')), result("abcdefgh1")],
    "arguments of a list": [said("user"), called(("abcdefgh1", "look", "[1]")), result("abcdefgh1")],
    "no JSON number": [said("user"), called(("abcdefgh1", "look", '{"a": NaN}')), result("abcdefgh1")],
    "no arguments": [said("user"), called(("abcdefgh1", "look", "")), result("abcdefgh1")],
    "illegal name": [said("user"), called(("abcdefgh1", "functions.look at/it", "{}")), result("abcdefgh1")],
    "empty name": [said("user"), called(("abcdefgh1", "", "{}")), result("abcdefgh1")],
    "long name": [said("user"), called(("abcdefgh1", "x" * 80, "{}")), result("abcdefgh1")],
    "long id": [said("user"), called(("call/" + "0" * 60, "look", "{}")), result("call/" + "0" * 60)],
    "id twice": [said("user"), *GOOD[2:], *GOOD[2:]],
    "id twice in one message": [
        said("user"),
        called(("a", "x", "{}"), ("a", "y", "{}")),
        result("a"),
        result("a", "2"),
    ],
    "no result": [said("user"), called(("abcdefgh1", "look", "{}")), said("user", "stop")],
    "late result": [said("user"), called(("a", "x", "{}"), ("b", "y", "{}")), result("a"), said("user"), result("b")],
    "result of nothing": [said("user"), result("zzz"), said("user")],
    "blank texts": [said("user", " "), said("assistant", ""), said("user", "hello"), said("assistant", "\n")],
    "text with a call": [
        said("user"),
        called(("abcdefgh1", "look", "{}"), content="let me see"),
        result("abcdefgh1", ""),
    ],
    "half a character": [said("user", "\ud83d cut")],
}
SCHEMAS = {
    "what is no schema": {"properties": 5, "required": True},
    "a required of the first drafts": {"properties": {"a": {"type": "string", "required": True}}},
    "array without items": {"properties": {"a": LIST}},
    "array in an array": {"properties": {"a": {"type": "array", "items": LIST}}},
    "one of several types": {"properties": {"a": {"type": ["array", "string"]}}},
    "array in a definition": {"properties": {"a": {"anyOf": [LIST, {"type": "null"}]}}, "$defs": {"b": LIST}},
    "a property called items": {"properties": {"items": LIST, "type": {"type": "string"}, "properties": LIST}},
    "no properties": {},
    "a union at the top": {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}},
    "a property with blanks": {"properties": {"new file": {"type": "string"}}, "required": ["new file"]},
}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "array", "object", "a b", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "items", "properties", "required", "anyOf", "name", "$defs", "a b"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def sent(dialect: str, messages: list[dict], tools: list[dict] = (), **more) -> dict:
    """By way of bytes, as a server sees it."""
    question = {"model": MODELS[dialect], "messages": messages, "temperature": 0, "max_tokens": 9}
    question |= {"tools": list(tools)} if tools else {}
    return json.loads(encoded(ChatWire(dialect, parameters_of(MODELS[dialect])).request(question, **more)))


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_is_made_legal(dialect, trap):
    before = copy.deepcopy(TRAPS[trap])
    CHECKS[dialect](sent(dialect, TRAPS[trap], [tool()], cache_marks=True))
    CHECKS[dialect](sent(dialect, TRAPS[trap]))
    assert TRAPS[trap] == before


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_schema_is_made_legal(dialect, schema):
    CHECKS[dialect](sent(dialect, GOOD, [tool(**SCHEMAS[schema])]))


@pytest.mark.parametrize("dialect", NAMES)
def test_the_strict_servers_refuse_what_is_sent_as_recorded(dialect):
    """Each of them would catch us: a trap that no server minds would prove nothing."""
    caught = set()
    for trap, messages in TRAPS.items():
        request = {"model": "m", "messages": messages, "max_tokens": 9}
        try:
            CHECKS[dialect](request)
        except (Refused, KeyError, TypeError):
            caught.add(trap)
    expected = {
        "openai": {"illegal name", "empty name", "long name", "long id", "no result", "result of nothing"},
        "mistral": {"user after tool", "long id", "no result", "assistant last", "illegal name"},
        "vllm": {"two users", "system later", "malformed arguments", "arguments of a list", "only system"},
        "anthropic": {"system twice", "only system", "illegal name", "malformed arguments"},
    }
    assert caught >= expected[dialect]


@pytest.mark.parametrize("dialect", ["openai", "mistral", "vllm"])
def test_what_is_legal_goes_out_unchanged(dialect):
    tools = [tool(properties={"a": {"type": "string"}}, required=["a"])]
    assert legal_messages(GOOD, DIALECTS[dialect]) == GOOD
    assert legal_tools(tools, GOOD, DIALECTS[dialect]) == tools


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("trap", TRAPS)
def test_a_longer_history_begins_as_the_shorter_one_did(dialect, trap):
    """So that a provider's cache finds it: here after a whole exchange more."""
    more = [*TRAPS[trap], called(("zzzzzzzz9", "look", "{}")), result("zzzzzzzz9")]
    short, long = (legal_messages(messages, DIALECTS[dialect]) for messages in (TRAPS[trap], more))
    common = [one for one in short if one["content"] != GO_ON]
    assert long[: len(common) - 1] == common[:-1]


def test_nothing_that_was_said_gets_lost():
    for trap, messages in TRAPS.items():
        for dialect in DIALECTS.values():
            text = json.dumps(legal_messages(messages, dialect))
            for message in messages:
                assert json.dumps(message["content"].strip())[1:-1] in text, trap


def test_a_user_after_a_result_waits_for_a_reply_at_mistral_only():
    for name, dialect in DIALECTS.items():
        roles = [message["role"] for message in legal_messages([*GOOD, said("user")], dialect)]
        assert roles[4:] == (["assistant", "user"] if name == "mistral" else ["user"])
    assert legal_messages([*GOOD, said("user")], DIALECTS["mistral"])[4] == said("assistant", NO_REPLY)


def test_malformed_arguments_keep_their_text():
    [_, message, _] = legal_messages(TRAPS["malformed arguments"], DIALECTS["vllm"])
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {MALFORMED: '{"a": '}
    [_, message, _] = legal_messages(TRAPS["malformed arguments"], DIALECTS["openai"])
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": '


def test_a_call_without_a_result_is_answered_and_a_late_result_comes_to_its_call():
    dialect = DIALECTS["openai"]
    assert [one["content"] for one in legal_messages(TRAPS["no result"], dialect)][2:] == [NO_RESULT, "stop"]
    late = legal_messages(TRAPS["late result"], dialect)
    assert [one["role"] for one in late] == ["user", "assistant", "tool", "tool", "user"]
    assert [one["tool_call_id"] for one in late[2:4]] == ["a", "b"]
    twice = legal_messages(TRAPS["id twice in one message"], dialect)
    ids = [call["id"] for call in twice[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(one["tool_call_id"], one["content"]) for one in twice[2:]] == [(ids[0], "done"), (ids[1], "2")]


def test_a_history_without_a_user_says_that_it_begins():
    assert legal_messages(TRAPS["assistant first"], DIALECTS["vllm"])[1] == said("user", OPENING)


def test_inferred_tools_require_nothing():
    [given] = legal_tools([tool(properties={"a": {}}, required=["a"])], GOOD, DIALECTS["openai"], inferred=True)
    assert "required" not in given["function"]["parameters"]


@given(json_values, json_values, st.text(max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_list_of_tools_becomes_one_that_is_taken(parameters, function, name):
    """A tool list comes from a file. Whatever it holds, a run goes on."""
    whole = {"type": "function", "function": {"name": name, "parameters": parameters}}
    odd = [{"type": "function", "function": function}, {}]
    tools = [whole, whole, *odd]
    for dialect in NAMES:
        CHECKS[dialect](sent(dialect, GOOD, odd))
        CHECKS[dialect](sent(dialect, GOOD, tools))
        back = ChatWire(dialect).own_names(tuple(tools))
        assert back.get(legal_name(name, DIALECTS[dialect]), name) == name


@given(st.lists(st.sampled_from([message for messages in TRAPS.values() for message in messages]), max_size=9))
@settings(max_examples=200, deadline=None)
def test_any_order_of_messages_becomes_one_that_is_taken(messages):
    for dialect in NAMES:
        CHECKS[dialect](sent(dialect, messages, [tool()]))
        once = legal_messages(messages, DIALECTS[dialect])
        assert legal_messages(once, DIALECTS[dialect]) == once


def test_names_differ_and_can_be_mapped_back():
    names = ("a.b", "a/b", "a b", "x" * 80, "x" * 81, "", "ok")
    legal = [legal_name(name, DIALECTS["openai"]) for name in names]
    assert len(set(legal)) == len(names)
    assert legal[-1] == "ok"
    assert legal[0].startswith("a_b_") and legal[-2].startswith("tool_")
    back = ChatWire("openai").own_names(tuple(tool(name) for name in names))
    assert [back.get(name, name) for name in legal] == list(names)


@pytest.mark.parametrize(
    ("model", "base_url", "dialect"),
    [
        ("gpt-5", "https://api.openai.com/v1", "openai"),
        ("gpt-5", "https://mine.openai.azure.com/openai/v1", "openai"),
        ("claude-opus-4-7", "https://api.anthropic.com/v1", "anthropic"),
        ("mistral-large-latest", "https://api.mistral.ai/v1", "mistral"),
        ("mistralai/mistral-large-2512", "https://openrouter.ai/api/v1", "mistral"),
        ("devstral-small", "http://127.0.0.1:8000/v1", "mistral"),
        ("qwen/qwen3-coder-next", "https://openrouter.ai/api/v1", "vllm"),
        ("anything", "http://127.0.0.1:8000/v1", "vllm"),
    ],
)
def test_the_dialect_of_a_server(model, base_url, dialect):
    assert dialect_of(model, base_url) == dialect


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("openai/gpt-5", Parameters("max_completion_tokens", None)),
        ("o3-mini", Parameters("max_completion_tokens", None)),
        ("gpt-5-chat-latest", Parameters()),
        ("gpt-4.1", Parameters()),
        ("openai/gpt-oss-120b", Parameters()),
        ("claude-opus-4-7", Parameters(temperature=None)),
        ("anthropic/claude-opus-4.8", Parameters(temperature=None)),
        ("claude-sonnet-4-5", Parameters()),
        ("claude-opus-4-20250514", Parameters()),
        ("claude-opus-4-7-20260416", Parameters(temperature=None)),
        ("qwen/qwen3-coder-next", Parameters()),
    ],
)
def test_the_roster_knows_what_models_refuse(model, parameters):
    assert parameters_of(model) == parameters


def test_parameters_of_a_request_and_of_its_name():
    asked = {"model": "m", "messages": [said("user")], "max_tokens": 7, "temperature": 0}
    wire = ChatWire("openai", Parameters("max_completion_tokens", None, "low", '{"seed": 3}'))
    request = wire.request({**asked, **wire.parameters.named()})
    expected = {"model": "m", "max_completion_tokens": 7, "reasoning_effort": "low", "seed": 3}
    assert {key: value for key, value in request.items() if key != "messages"} == expected
    theirs = wire._replace(dialect="anthropic").request(asked)
    assert (theirs["seed"], theirs["max_tokens"], theirs["output_config"]) == (3, 7, {"effort": "low"})
    assert theirs.keys().isdisjoint({"max_completion_tokens", "reasoning_effort", "temperature"})
    assert Parameters().named() == {}
    assert request_key({**asked, **wire.parameters.named()}) != request_key(asked)


def trace_of(messages: list[dict], tools: list[dict], turns: tuple[int, ...]) -> Trace:
    return Trace(
        trace_id="t" * 16,
        source=Source(agent="test"),
        messages=tuple(messages),
        turns=tuple(Turn(start=place, end=place + 1) for place in turns),
        tools=tuple(tools),
    )


TRAPPED = [
    said("system"), said("user"), called(("toolu_1", "my.tool", '{"a": ')), result("toolu_1"), said("user", "no, that"),
    said("user", "I mean this"), said("assistant", "well"), called(("toolu_1", "other", "{}")), result("toolu_1"),
    said("assistant", "end"),
]  # fmt: skip
TRACE = trace_of(TRAPPED, [tool("my.tool", properties={"a": LIST}, required=["a"])], (2, 6, 9))
STATES = [State(TRACE, turn) for turn in range(3)]
PRICES = Prices(1_000_000, 10_000_000)


@pytest.fixture
def ledger(ledger):
    ledger.set_cap(100_000_000)
    return ledger


@pytest.mark.parametrize("dialect", NAMES)
def test_a_session_with_traps_is_replayed_at_every_kind_of_server(dialect, ledger):
    with DialectServer(dialect) as server:
        wire = ChatWire(dialect, parameters_of(MODELS[dialect]))
        teacher = Teacher(MODELS[dialect], server.base_url, prices=PRICES, spoken=wire)
        replies = replay_states(STATES, [teacher], ledger, ReplayConfig(max_attempts=1))
    assert (server.refused, server.accepted) == ([], 3)
    assert [reply.outcome for reply in replies] == ["answered"] * 3
    assert {reply.action for reply in replies} == {canonical_call("my.tool", {"x": 1})}
    assert replies[0].usage.prompt_tokens == PROMPT_TOKENS
    assert replies[0].usage.completion_tokens == ANSWER_TOKENS


@pytest.mark.parametrize("format_name", sorted(path.name for path in SAMPLES.glob("[a-z]*/")))
def test_real_sessions_are_taken_by_every_kind_of_server(format_name):
    """A few turns of a few files per format; benchmarks/dialects.py asks about all of them, over HTTP."""
    files = find_inputs([SAMPLES / format_name]).files[:3]
    traces = [trace for file in files for trace in read_traces(file.path, file.format)]
    states = [State(trace, turn) for trace in traces for turn in range(len(trace.turns))]
    assert states
    for state in states[:: len(states) // 4 + 1]:
        for dialect in NAMES:
            spoken = ChatWire(dialect, parameters_of(MODELS[dialect]))
            teacher = Teacher(MODELS[dialect], "http://127.0.0.1:1/v1", spoken=spoken)
            CHECKS[dialect](json.loads(encoded(TeacherQuestion(state, teacher, "", 0, 9).sent())))


def test_anthropic_gets_its_headers_and_cache_marks_where_a_prefix_is_shared(ledger, monkeypatch):
    monkeypatch.setenv("CLAUDE_KEY", "the-key")
    with DialectServer("anthropic") as server:
        teacher = Teacher("claude-x", server.base_url, key_variable="CLAUDE_KEY", spoken=ChatWire("anthropic"))
        replay_states(STATES, [teacher], ledger, ReplayConfig(max_attempts=1, concurrency=1))
        replay_states([State(trace_of(TRAPPED, [], (2,)), 0)], [teacher], ledger, ReplayConfig(max_attempts=1))
    posts = [one for one in server.requests if one[0].endswith("/messages")]
    path, headers, request = posts[0]
    assert path == "/v1/messages"
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("the-key", "2023-06-01")
    assert "authorization" not in headers
    assert request["system"] == [{"type": "text", "text": "words", "cache_control": {"type": "ephemeral"}}]
    assert request["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in json.dumps(posts[3][2])


@pytest.mark.parametrize(("dialect", "written"), [("anthropic", WRITTEN_TOKENS), ("openai", 0)])
def test_cached_tokens_cost_what_they_cost(dialect, written, ledger):
    with DialectServer(dialect) as server:
        teacher = Teacher(
            "m",
            server.base_url,
            prices=PRICES,
            cached_micros=100_000,
            cache_write_micros=1_250_000,
            spoken=ChatWire(dialect),
        )
        [reply] = replay_states(STATES[:1], [teacher], ledger, ReplayConfig(max_attempts=1))
    fresh = PROMPT_TOKENS - CACHED_TOKENS - written
    assert reply.cost_micros == fresh + CACHED_TOKENS * 0.1 + written * 1.25 + ANSWER_TOKENS * 10
    assert ledger.rows("SELECT exact FROM attempts") == [(1,)]


def test_the_name_of_a_question_does_not_depend_on_the_dialect():
    teachers = [Teacher("m", "http://127.0.0.1:1/v1", label=name, spoken=ChatWire(name)) for name in NAMES]
    asked = questions([(STATES[1], teachers)], 9)
    assert len({one.key for one in asked}) == 1
    assert len({json.dumps(one.sent()) for one in asked}) > 1
    plain = Teacher("m", "http://127.0.0.1:1/v1", spoken=ChatWire("vllm", Parameters(reasoning_effort="low")))
    [other] = questions([(STATES[1], [plain])], 9)
    assert other.key == request_key(other.request())
    assert other.key != asked[0].key


def test_a_longer_request_is_reserved_at_its_true_length(ledger):
    """What a dialect adds is paid for too, so it is held."""
    silent = trace_of([said("user"), *(called((f"c{n}", "x", "")) for n in range(500)), said("assistant")], [], (501,))
    with DialectServer("mistral") as server:
        teacher = Teacher("m", server.base_url, prices=Prices(1_000_000, 0), spoken=ChatWire("mistral"))
        question = TeacherQuestion(State(silent, 0), teacher, "k", 10, 9)
        replay_states([State(silent, 0)], [teacher], ledger, ReplayConfig(max_attempts=1, max_tokens=9))
    [(worst,)] = ledger.rows("SELECT worst_micros FROM attempts")
    assert worst >= len(encoded({"messages": question.sent()["messages"]}))


def config(**replay) -> ReplayConfig:
    return parse_config({"replay": {"simulated": False, **replay}}, "x").replay


def test_settings_of_single_teachers(monkeypatch):
    settings = config(
        teachers=["claude", "mini"],
        models={
            "claude": {
                "model": "claude-opus-4-7", "base_url": "https://api.anthropic.com/v1", "key_variable": "CLAUDE",
                "prices": [5, 25], "cache_prices": [0.5, 6.25], "context_tokens": 200000,
            },
            "mini": {
                "base_url": "https://api.openai.com/v1", "prices": [1, 2], "limit": "max_completion_tokens",
                "temperature": "unset", "reasoning_effort": "low", "extra_body": {"seed": 1},
                "headers": {"X-Team": "a"},
            },
        },
    )  # fmt: skip
    claude, mini = configured_teachers(settings)
    assert (claude.name, claude.model, claude.wire.dialect) == ("claude", "claude-opus-4-7", "anthropic")
    assert (claude.rates, claude.context_tokens) == ((5_000_000, 25_000_000, 500_000, 6_250_000), 200_000)
    assert claude.wire.key_header(claude.base_url) == "x-api-key"
    assert mini.wire == ChatWire(
        "openai", Parameters("max_completion_tokens", None, "low", '{"seed": 1}'), (("X-Team", "a"),)
    )
    assert written_teachers(["mini"], settings) == [mini]
    assert configured_teachers(config(models=settings.model_dump()["models"])) == [claude, mini]


def test_a_teacher_of_the_roster_takes_settings_too():
    [teacher] = configured_teachers(
        config(teachers=["z-ai/glm-4.6"], models={"z-ai/glm-4.6": {"extra_body": {"reasoning": {"enabled": False}}}})
    )
    assert teacher.prices
    assert json.loads(teacher.wire.parameters.extra_body) == {"reasoning": {"enabled": False}}


def test_the_documented_entries_are_teachers_that_can_be_asked(monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "teachers.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 7
    for block in blocks:
        [teacher] = configured_teachers(parse_config(tomllib.loads(block), "x").replay)
        if teacher.key_variable:
            monkeypatch.setenv(teacher.key_variable, "x")
        assert endpoint_of(teacher).wire == teacher.wire


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer x"}, {"X": "sk-" + "ant-api03-" + "a1B2c3D4e5" * 9 + "abcAA"}]
)
def test_a_key_has_no_place_among_the_headers(headers):
    with pytest.raises(UsageError, match="may hold a key"):
        configured_teachers(config(models={"m": {"base_url": "https://x.test/v1", "headers": headers}}))


def test_azures_address_keeps_its_version_behind_the_path():
    base_url = "https://mine.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
    require_allowed(base_url)
    wire = ChatWire("openai")
    assert wire.url(base_url) == base_url.replace("?", "/chat/completions?")
    assert wire.key_header(base_url) == "api-key"
    for bad in ("?api-version=1&key=x", "?key=x", "?api-version="):
        with pytest.raises(UsageError, match="not the address"):
            require_allowed("https://mine.openai.azure.com/d" + bad)


def test_a_versioned_address_is_asked_over_http(ledger):
    with DialectServer("openai") as server:
        teacher = Teacher("d", f"{server.base_url}/deployments/d?api-version=2024-10-21", spoken=ChatWire("openai"))
        [reply] = replay_states(STATES[:1], [teacher], ledger, ReplayConfig(max_attempts=1))
    assert reply.outcome == "answered"
    assert "/v1/deployments/d/chat/completions?api-version=2024-10-21" in [path for path, _, _ in server.requests]


def test_a_private_server_is_asked_where_the_user_says_so(monkeypatch):
    base_url = "https://10.1.2.3/v1"
    with pytest.raises(UsageError, match="private_network = true"):
        require_allowed(base_url)
    require_allowed(base_url, private_network=True)
    with pytest.raises(UsageError, match="clear text"):
        require_allowed("http://10.1.2.3/v1", private_network=True)
    with pytest.raises(UsageError, match="private address"):
        configured_teachers(config(models={"m": {"base_url": base_url}}))
    [teacher] = configured_teachers(config(models={"m": {"base_url": base_url, "private_network": True}}))
    assert teacher.private_network

    async def resolve(host: str):
        async def found(*args):
            return [{"host": "10.1.2.3"}]

        resolver = PublicResolver({"gpu.lan"})
        monkeypatch.setattr(resolver._resolver, "resolve", found)
        return await resolver.resolve(host, 443)

    assert asyncio.run(resolve("gpu.lan")) == [{"host": "10.1.2.3"}]
    with pytest.raises(OSError, match="private address"):
        asyncio.run(resolve("other.lan"))
