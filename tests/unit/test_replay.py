"""Replay: what goes over the wire, how an answer is read, and that nothing is asked twice."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from composer_replication.config import ReplayConfig, ToolboxConfig
from composer_replication.environments.toolbox import (
    Call,
    ToolboxEpisode,
    make_task,
    next_call,
    replay_history,
    task_by_id,
    trace_of,
)
from composer_replication.environments.toolbox.teachers import SimulatedTeachers, teacher_names
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.outgoing import priced, routed
from composer_replication.llm.pricing import Prices
from composer_replication.progress import Silent
from composer_replication.records import Source, Trace, Turn, Usage, canonical_call
from composer_replication.replay import State, Teacher, replay_states, replay_trace, states_to_ask
from composer_replication.replay.parse import parse_reply
from composer_replication.replay.prompts import wire_message
from composer_replication.replay.requests import build_request, questions, request_key
from composer_replication.sites import find_sites

TOOLBOX = ToolboxConfig()
CONFIG = ReplayConfig(timeout_s=10, max_attempts=1)


def failed_trace(index: int) -> Trace:
    """The right call under a name that is not listed, twice; then the right call."""
    episode = ToolboxEpisode(make_task(TOOLBOX, "train", index))
    right = next_call(episode)
    for name in ("nope", "nope", right.name):
        episode.step(Call(name, right.arguments).render())
    return trace_of(episode, "tiny", index)


TRACES = [failed_trace(index) for index in range(8)]
TASKS = [task_by_id(TOOLBOX, trace.task_id) for trace in TRACES]
STATES = states_to_ask(TRACES, [site for trace in TRACES for site in find_sites(trace)], 100)
MORE_STATES = [State(failed_trace(index), 0) for index in range(100, 140)]
MORE_TASKS = [task_by_id(TOOLBOX, state.trace.task_id) for state in MORE_STATES]
FOREIGN = Trace(
    trace_id="foreign",
    source=Source(agent="claude_code"),
    messages=({"role": "user", "content": "fix the bug"}, {"role": "assistant", "content": "done"}),
    turns=(Turn(start=1, end=2),),
)


def right_action(state: State) -> str:
    task = task_by_id(TOOLBOX, state.trace.task_id)
    call = next_call(replay_history(task, state.trace.history(state.turn)))
    return canonical_call(call.name, call.arguments)


def teachers_at(server: SimulatedTeachers, rates) -> list[Teacher]:
    return [Teacher(name, server.base_url, simulated=True) for name in teacher_names(rates)]


class Noted(Silent):
    def __init__(self):
        self.steps = []

    def step(self, done, total, detail=""):
        self.steps.append((done, total))


RATES = (0.0, 1.0, 0.5)


@pytest.fixture(scope="module")
def teachers():
    """One that never errs, one that always does, one that errs half the time."""
    with SimulatedTeachers([*TASKS, *MORE_TASKS], RATES, 0) as server:
        yield teachers_at(server, RATES)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path):
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def test_the_states_under_test_are_error_states_of_two_turns():
    assert len(STATES) == 16
    assert {state.turn for state in STATES} == {0, 1}


def test_a_teacher_without_errors_answers_the_oracles_call(teachers, ledger):
    replies = replay_states(STATES, teachers[:1], ledger, CONFIG)
    assert [reply.action for reply in replies] == [right_action(state) for state in STATES]
    assert {reply.outcome for reply in replies} == {"answered"}
    assert all(reply.simulated and reply.cost_micros == 0 and reply.usage.prompt_tokens > 0 for reply in replies)


def test_a_teacher_that_always_errs_never_answers_the_oracles_call(teachers, ledger):
    replies = replay_states(STATES, teachers[1:2], ledger, CONFIG)
    assert {reply.outcome for reply in replies} == {"answered"}
    assert not [reply for reply, state in zip(replies, STATES, strict=True) if reply.action == right_action(state)]


def test_a_noisy_teacher_is_right_about_as_often_as_it_says(teachers, ledger):
    replies = replay_states(MORE_STATES, teachers[2:], ledger, CONFIG)
    right = sum(reply.action == right_action(state) for reply, state in zip(replies, MORE_STATES, strict=True))
    assert 8 < right < 32


def test_a_conversation_from_elsewhere_gets_no_vote(teachers, ledger):
    for reply in replay_states([State(FOREIGN, 0)], teachers, ledger, CONFIG):
        assert (reply.outcome, reply.action) == ("no_action", None)


def test_a_finished_task_gets_no_vote(teachers, ledger):
    episode = ToolboxEpisode(TASKS[0])
    while (call := next_call(episode)) is not None:
        episode.step(call.render())
    episode.step("nothing left")
    trace = trace_of(episode, "tiny", 0)
    [reply] = replay_states([State(trace, len(trace.turns) - 1)], teachers[:1], ledger, CONFIG)
    assert (reply.outcome, reply.action) == ("no_action", None)


def test_replies_come_in_the_order_of_states_then_teachers(teachers, ledger):
    replies = replay_states(STATES[:6], teachers, ledger, ReplayConfig(concurrency=8, timeout_s=10))
    assert [(reply.trace_id, reply.turn, reply.teacher) for reply in replies] == [
        (state.trace.trace_id, state.turn, name) for state in STATES[:6] for name in teacher_names(RATES)
    ]
    assert [reply.state_id for reply in replies[::3]] == [state.trace.state_id(state.turn) for state in STATES[:6]]
    assert {reply.family for reply in replies} == {"simulated-a", "simulated-b", "simulated-c"}


def test_simulated_teachers_answer_the_same_request_alike():
    def answers(seed):
        server = SimulatedTeachers(TASKS, [0.5], seed)
        [name] = teacher_names([0.5])
        histories = [state.trace.history(state.turn) for state in STATES]
        return [server.answer({"model": name, "messages": history}) for history in histories]

    assert answers(0) == answers(0)
    assert answers(0) != answers(1)


def test_progress_counts_up_to_the_number_of_replies(teachers, ledger):
    progress = Noted()
    replay_states(STATES[:5], teachers[:1], ledger, CONFIG, progress)
    assert progress.steps == [(n, 5) for n in range(1, 6)]
    replay_states(STATES[:5], teachers[:1], ledger, CONFIG, progress)
    assert progress.steps[5:] == [(5, 5)]


def test_a_second_replay_asks_nobody(path):
    rates = [0.0, 1.0]
    with SimulatedTeachers(TASKS, rates, 0) as server:
        teachers = teachers_at(server, rates)
        ledger = Ledger(path)
        first = replay_states(STATES[:8], teachers, ledger, CONFIG)
        ledger.close()
    ledger = Ledger(path)
    assert replay_states(STATES[:8], teachers, ledger, CONFIG) == first
    [new] = replay_states([State(TRACES[0], 2)], teachers[:1], ledger, CONFIG)
    assert new.outcome == "failed"


def test_a_failed_call_is_asked_again(teachers, ledger):
    gone = Teacher(teachers[0].model, "http://127.0.0.1:9/v1")
    [failed] = replay_states(STATES[:1], [gone], ledger, CONFIG)
    assert (failed.outcome, failed.action, failed.raw) == ("failed", None, "")
    [reply] = replay_states(STATES[:1], teachers[:1], ledger, CONFIG)
    assert (reply.outcome, reply.key) == ("answered", failed.key)


def test_an_unknown_teacher_is_a_failed_reply(teachers, ledger):
    [reply] = replay_states(STATES[:1], [Teacher("someone", teachers[0].base_url)], ledger, CONFIG)
    assert reply.outcome == "failed"


def test_replaying_a_trace_asks_at_every_turn(teachers, ledger):
    replies = replay_trace(TRACES[0], teachers[:1], ledger, CONFIG)
    assert [reply.turn for reply in replies] == [0, 1, 2]


class Recorder(ThreadingHTTPServer):
    """Answers every request with `body` and keeps what was asked."""

    daemon_threads = True

    def __init__(self, body: dict):
        self.body = json.dumps(body).encode()
        self.asked: list[dict] = []
        super().__init__(("127.0.0.1", 0), RecorderHandler)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args):
        self.shutdown()
        self.server_close()

    def teacher(self) -> Teacher:
        return Teacher("m", f"http://127.0.0.1:{self.server_port}/v1")


class RecorderHandler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self):
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format, *args):
        pass


def answer(**changes) -> dict:
    call = {"id": "c", "type": "function", "function": {"name": "get_key", "arguments": '{"key": "k"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "cost": 0.000123}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"model": "m", "choices": [choice], "usage": usage} | changes


def with_message(**fields) -> dict:
    return answer(choices=[{"message": {"role": "assistant", "content": "", **fields}, "finish_reason": "stop"}])


def with_call(name, arguments) -> dict:
    return with_message(tool_calls=[{"function": {"name": name, "arguments": arguments}}])


def test_what_goes_over_the_wire(ledger):
    state = next(state for state in STATES if state.turn == 1)
    with Recorder(answer()) as server:
        [reply] = replay_states([state], [server.teacher()], ledger, ReplayConfig(max_tokens=77, max_attempts=1))
    [request] = server.asked
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("m", 77, 0)
    assert request["tools"] == list(state.trace.tools)
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert "is_error" not in json.dumps(request)
    assert any(message.get("is_error") for message in state.trace.history(1))
    assert (reply.action, reply.cost_micros, reply.usage) == (
        canonical_call("get_key", {"key": "k"}), 123, Usage(prompt_tokens=11, completion_tokens=5),
    )  # fmt: skip
    assert not reply.simulated


def test_what_was_paid_is_in_the_ledger_once(ledger):
    with Recorder(answer()) as server:
        for _ in range(2):
            replay_states(STATES[:3], [server.teacher()], ledger, CONFIG)
    assert len(server.asked) == 3
    assert ledger.spent_micros() == 3 * 123


def test_equal_requests_of_two_traces_are_paid_once(ledger):
    one = TRACES[0]
    twin = one.model_copy(update={"trace_id": "twin"})
    with Recorder(answer()) as server:
        first, second = replay_states([State(one, 0), State(twin, 0)], [server.teacher()], ledger, CONFIG)
    assert first.key == second.key
    assert len(server.asked) == 1


def test_equal_requests_asked_one_after_the_other_are_paid_once(ledger):
    twin = TRACES[0].model_copy(update={"trace_id": "twin"})
    states = [State(TRACES[0], 0), State(twin, 0)]
    with Recorder(answer()) as server:
        replies = replay_states(states, [server.teacher()], ledger, ReplayConfig(concurrency=1, max_attempts=1))
    assert len(server.asked) == 1
    assert [reply.trace_id for reply in replies] == [TRACES[0].trace_id, "twin"]


def test_wire_messages_lose_only_the_local_mark():
    message = {"role": "tool", "content": "x", "tool_call_id": "c", "is_error": True}
    assert wire_message(message) == {"role": "tool", "content": "x", "tool_call_id": "c"}
    assert message["is_error"]


def test_the_key_of_a_request_never_changes():
    request = build_request("m", [{"role": "user", "content": "é"}], [{"type": "function"}], 5)
    assert request_key(request) == "e332282dd0b0e26a553c1af803089c30f09a8fb7ec63a85ad8bf9d02de2b3c91"


def test_questions_are_named_by_the_hash_of_their_request(teachers):
    """The quick way of naming many questions gives the names of the slow one."""
    asked = questions([(state, teachers) for state in [*STATES, State(FOREIGN, 0)]], 77)
    assert len(asked) == 17 * 3
    assert [question.key for question in asked] == [request_key(question.request()) for question in asked]
    for question in asked:
        assert question.prompt_bytes >= len(json.dumps(question.request()["messages"], ensure_ascii=False)) - 200


def test_the_key_of_a_request_to_openrouter_never_changes():
    request = build_request("m", [{"role": "user", "content": "é"}], [], 5)
    asked = routed(request, "https://openrouter.ai/api/v1")
    assert request_key(asked) == "55bed8718d869ffad019b970c1bd07151f9cec810af7e3b313e389dd186e106d"
    assert request_key(priced(asked, "https://openrouter.ai/api/v1", Prices(1, 2))) != request_key(asked)


def test_the_key_depends_on_what_is_asked_and_not_on_its_order():
    request = build_request("m", [{"role": "user", "content": "u"}], [], 5)
    turned = {key: request[key] for key in reversed(request)}
    turned["messages"] = [{"content": "u", "role": "user"}]
    assert request_key(turned) == request_key(request)
    others = [
        build_request("n", [{"role": "user", "content": "u"}], [], 5),
        build_request("m", [{"role": "user", "content": "v"}], [], 5),
        build_request("m", [{"role": "user", "content": "u"}], [{"type": "function"}], 5),
        build_request("m", [{"role": "user", "content": "u"}], [], 6),
    ]
    assert len({request_key(other) for other in [request, *others]}) == 5


def test_a_local_mark_does_not_change_the_key():
    failed = {"role": "tool", "content": "x", "tool_call_id": "c", "is_error": True}
    keys = {request_key(build_request("m", [m], [], 5)) for m in (failed, wire_message(failed))}
    assert len(keys) == 1


def parse(body):
    return parse_reply(json.dumps(body), "m")


def test_a_good_answer():
    parsed = parse(answer())
    assert parsed.outcome == "answered"
    assert parsed.action == canonical_call("get_key", {"key": "k"})
    assert (parsed.served_model, parsed.finish_reason) == ("m", "tool_calls")


def test_an_answer_that_does_not_name_its_model_is_taken():
    body = answer()
    del body["model"]
    assert parse(body).outcome == "answered"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (answer(choices=[answer()["choices"][0] | {"finish_reason": "length"}]), "truncated"),
        (answer(model="m-mini"), "mismatched"),
        (answer(choices=[]), "failed"),
        ({}, "failed"),
        ([], "failed"),
        ({"error": {"message": "no"}}, "failed"),
        (with_message(content="done"), "no_action"),
        (with_message(tool_calls=[]), "no_action"),
        (with_message(tool_calls=answer()["choices"][0]["message"]["tool_calls"] * 2), "no_action"),
        (with_call("get_key", "{"), "no_action"),
        (with_call("get_key", {"key": "k"}), "no_action"),
        (with_message(tool_calls=[{"function": {"name": "get_key"}}]), "no_action"),
    ],
    ids=[
        "length", "other model", "no choices", "empty", "list", "error", "text", "no calls", "two calls", "broken json",
        "arguments as object", "no arguments",
    ],
)  # fmt: skip
def test_answers_without_an_action(body, outcome):
    parsed = parse(body)
    assert (parsed.outcome, parsed.action) == (outcome, None)


def test_usage_is_kept_when_there_is_no_action():
    parsed = parse(answer(model="other"))
    assert parsed.usage.prompt_tokens == 11


@pytest.mark.parametrize(("name", "arguments"), [(5, "{}"), (None, "{}"), ("get_key", "5"), ("get_key", '"x"')])
def test_a_call_must_have_a_name_and_an_object_of_arguments(name, arguments):
    assert parse(with_call(name, arguments)).outcome == "no_action"


@pytest.mark.parametrize(
    "body",
    [
        answer(choices=[answer()["choices"][0] | {"finish_reason": 5}]),
        answer(usage={"cost": 1e300}),
    ],
    ids=["finish_reason", "cost"],
)
def test_an_odd_answer_does_not_stop_the_replay(body, ledger):
    with Recorder(body) as server:
        assert len(replay_states(STATES[:1], [server.teacher()], ledger, CONFIG)) == 1


def test_an_answer_with_a_lone_surrogate_can_be_stored(ledger):
    with Recorder(with_call("\ud800", "{}")) as server:
        [reply] = replay_states(STATES[:1], [server.teacher()], ledger, CONFIG)
    reply.model_dump_json()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just(10**4299),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def some(**fields):
    """Any subset of the fields, or something else altogether."""
    return json_values | st.fixed_dictionaries({}, optional=fields)


calls = some(function=some(name=json_values, arguments=json_values | json_values.map(json.dumps)))
messages = some(content=json_values, tool_calls=json_values | st.lists(calls, max_size=2))
bodies = some(
    model=json_values | st.just("m"),
    usage=some(prompt_tokens=json_values, completion_tokens=json_values, cost=json_values),
    choices=json_values | st.lists(some(finish_reason=json_values, message=messages), max_size=2),
)
raw_bytes = st.binary(max_size=50).map(lambda raw: raw.decode(errors="replace"))


@settings(max_examples=250, deadline=None)
@given(st.text(max_size=50) | bodies.map(json.dumps) | raw_bytes)
@example("[" * 100_000)
@example('{"choices":' + "9" * 5000)
@example(json.dumps(with_call("x", "[" * 100_000)))
@example(json.dumps(answer(usage={"cost": float("inf"), "prompt_tokens": float("nan")})))
def test_no_body_raises(body):
    parsed = parse_reply(body, "m")
    assert (parsed.action is not None) == (parsed.outcome == "answered")
