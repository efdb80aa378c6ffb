"""The agent loop: any OpenAI-compatible server plays, attempts become traces, and a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import threading
import time

import pytest
import zstandard

from composer_replication.cli.common import run_one_stage
from composer_replication.cli.env_rollout import rollout
from composer_replication.environments.code.episodes.endpoint import EndpointModel, EndpointSettings, read_reply
from composer_replication.environments.code.episodes.loop import AgentLimits, NoReply, attempt_task
from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.episodes.text_episode import AgentEpisode
from composer_replication.environments.code.episodes.tools import TOOL_NAMES, ToolError, opening
from composer_replication.environments.code.episodes.transcript import under_server_ids
from composer_replication.environments.code.episodes.turns import Reply, WireCall, as_text, read_calls
from composer_replication.environments.code.players import SCRIPTED, Scripted, gold, nop
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.environments.evidence import EVIDENCE
from composer_replication.errors import BudgetError, RecomposeError, UsageError
from composer_replication.llm.client import Endpoint
from composer_replication.llm.pricing import Prices
from composer_replication.progress import Silent
from composer_replication.records import Trace
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.stages.attempts import planned, run_attempts, stored
from tests.command_line import recompose
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task
from tests.scripted_chat import ScriptedChat, by_turn, calls

SUBMIT = calls(("submit", {}))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("agent") / "task")


def asking(server, ledger, **settings):
    chosen = EndpointSettings(server.base_url, "scripted", max_attempts=2, timeout_s=10, **settings)
    return EndpointModel(chosen, Endpoint("scripted", server.base_url, chosen.prices), ledger)


def test_scripted_policies_show_that_a_task_works(task):
    assert attempt_task(task, gold(task), 0).reward == 1.0
    done = attempt_task(task, nop(task), 0)
    assert (done.reward, done.ended, done.steps) == (0.0, "submitted", 1)


def test_a_server_plays_and_leaves_a_trace(task, ledger, no_grading):
    script = [
        calls(("bash", {"command": "ls"}), ("read_file", {"path": "nope"}), text="Let me look."),
        calls(("write_file", {"path": SPANS, "content": SPANS_GOLD})),
        SUBMIT,
    ]
    with ScriptedChat(by_turn(script)) as server, asking(server, ledger) as model:
        made = attempt_task(task, model, 3)
    trace = made.trace
    assert (made.reward, made.ended, made.steps, trace.outcome) == (1.0, "submitted", 4, 1.0)
    assert (trace.task_id, trace.source.agent, len(trace.turns)) == ("spanbook-merge", "code_task", 3)
    assert [tool["function"]["name"] for tool in trace.tools] == list(TOOL_NAMES)
    first = trace.messages[trace.turns[0].start : trace.turns[0].end]
    assert [message["role"] for message in first] == ["assistant", "tool", "tool"]
    assert [call["id"] for call in first[0]["tool_calls"]] == [message["tool_call_id"] for message in first[1:]]
    assert "spanbook" in first[1]["content"] and first[2]["is_error"]
    assert [(site.turn, site.error_kind, site.tool_name) for site in find_sites(trace)] == [
        (0, "file_not_found", "read_file")
    ]
    sent = server.requests[-1]
    assert "is_error" not in json.dumps(sent) and [tool["function"]["name"] for tool in sent["tools"]] == list(
        TOOL_NAMES
    )
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


def looks(*call_ids):
    """A turn of `ls`, once per id, as a server names them."""
    said = calls(*[("bash", {"command": "ls"})] * len(call_ids))
    for made, call_id in zip(said["tool_calls"], call_ids, strict=True):
        made["id"] = call_id
    return said


def ids_of(messages):
    """Per turn those of its calls, after seeing that the answers bear the same."""
    made = [[call["id"] for call in message["tool_calls"]] for message in messages if "tool_calls" in message]
    answers = [message["tool_call_id"] for message in messages if "tool_call_id" in message]
    assert answers == [call_id for turn in made for call_id in turn]
    return made


@pytest.mark.parametrize(
    "given, kept",
    [
        ([["a", "b"], ["c"]], [["a", "b"], ["c"]]),
        ([["call_0"], ["call_0"]], [["call_0"], ["call_1_0"]]),
        ([["same", "same"], ["d"]], [["same", "call_0_1"], ["d"]]),
        ([["call_1_0"], ["call_1_0"]], [["call_1_0"], ["call_1_0_1"]]),
        ([[None, "call_0_0"], [""]], [["call_0_0", "call_0_1"], ["call_1_0"]]),
        ([[7], [["z"]]], [["call_0_0"], ["call_1_0"]]),
    ],
)
def test_calls_keep_the_ids_of_the_server_and_none_is_there_twice(task, ledger, no_grading, given, kept):
    script = by_turn([*(looks(*turn) for turn in given), looks("last")])
    with ScriptedChat(script) as server, asking(server, ledger) as model:
        made = attempt_task(task, model, 0, AgentLimits(turns=3))
    assert ids_of(made.trace.messages) == [*kept, ["last"]]
    assert ids_of(server.requests[-1]["messages"]) == kept


def test_an_id_that_cannot_be_written_is_none():
    body = json.dumps({"choices": [{"message": looks("\ud800", "fine")}]})
    assert [call.call_id for call in read_reply(body).calls] == [None, "fine"]


def test_policies_that_name_no_calls_get_our_ids(task, no_grading):
    two = (WireCall("bash", '{"command": "ls"}'),) * 2
    made = attempt_task(task, Scripted("s", [Reply("", two), Reply("hm"), Reply("", two[:1])]), 0)
    assert ids_of(made.trace.messages) == [["call_0_0", "call_0_1"], ["call_2_0"], ["call_3_0"]]


def test_a_server_that_needs_its_own_ids_gets_them_back(task, no_grading):
    """One that begins anew in every turn; a turn without a call and one without an id are in between."""
    given = [["x", "y"], [], [None], ["x"]]
    replies = [Reply("", [WireCall("bash", '{"command": "ls"}', call_id) for call_id in turn]) for turn in given]
    trace = attempt_task(task, Scripted("s", replies), 0, AgentLimits(turns=4)).trace
    assert ids_of(trace.messages) == [["x", "y"], ["call_2_0"], ["call_3_0"]]
    back = under_server_ids(trace.messages, given)
    assert ids_of(back) == [["x", "y"], ["call_2_0"], ["x"]]
    assert [message["content"] for message in back] == [message["content"] for message in trace.messages]
    assert under_server_ids(trace.messages, ()) == list(trace.messages)


@pytest.mark.parametrize(
    "said, told, kind",
    [
        (calls(text="I am done."), "did not call a tool", "no_action"),
        (calls(("bash", '{"command": ')), "the arguments of bash are no JSON", "json_decode"),
        (calls(("bash", "[1]")), "no JSON object", "json_decode"),
        (calls(*[("bash", {"command": "true"})] * 9), "more than 8 calls", "json_decode"),
        (calls(("bash", '{"command": "\\ud800"}')), "half a surrogate pair", "json_decode"),
    ],
)
def test_a_turn_that_is_no_call_keeps_its_place(task, ledger, no_grading, said, told, kind):
    with ScriptedChat(by_turn([said, SUBMIT])) as server, asking(server, ledger) as model:
        made = attempt_task(task, model, 0)
    assert (made.ended, made.steps, len(made.trace.turns)) == ("submitted", 2, 2)
    (site,) = find_sites(made.trace)
    assert (site.turn, site.error_kind) == (0, kind) and told in site.error_message
    answered = server.requests[1]["messages"][-1]
    assert answered["role"] == "user" and told in answered["content"]
    # A server that keeps its own history must be able to read it back.
    assert all("tool_calls" not in message for message in server.requests[1]["messages"])


def test_limits_end_an_attempt_and_its_work_is_graded(task, no_grading):
    write = WireCall("write_file", json.dumps({"path": SPANS, "content": SPANS_GOLD}))
    look = Reply("", (WireCall("bash", '{"command": "true"}'),), tokens=40)

    def ended(limits, replies):
        made = attempt_task(task, Scripted("s", [Reply("", (write,)), *replies]), 0, limits)
        assert made.reward == 1.0
        return made.ended

    assert ended(AgentLimits(turns=3), [look] * 9) == "turns"
    assert ended(AgentLimits(tokens=70), [look] * 9) == "tokens"
    assert ended(AgentLimits(idle_turns=2), [Reply("hm")] * 9) == "idle"
    assert ended(AgentLimits(SessionLimits(steps=2)), [look] * 9) == "steps"


def test_a_request_that_can_never_work_ends_the_attempt(task, ledger, no_grading):
    with ScriptedChat(by_turn([400])) as server, asking(server, ledger) as model:
        made = attempt_task(task, model, 0)
    assert (made.ended, made.reward) == ("no_reply: HTTP 400", 0.0)


def test_a_server_that_is_down_stops_the_run_and_makes_no_attempt(task, ledger, no_grading):
    with (
        ScriptedChat(by_turn([503])) as server,
        asking(server, ledger) as model,
        pytest.raises(RecomposeError, match="gave no answer"),
    ):
        attempt_task(task, model, 0)
    with pytest.raises(RecomposeError, match="gave no answer"), asking(server, ledger) as model:
        attempt_task(task, model, 0)


def test_a_secret_of_the_repository_does_not_leave(task, ledger, no_grading):
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"
    script = by_turn([calls(("bash", {"command": f"echo {token[:10]}''{token[10:]}"})), SUBMIT])
    with ScriptedChat(script) as server, asking(server, ledger) as model:
        made = attempt_task(task, model, 0)
    assert made.ended.startswith("no_reply: not sent")
    assert len(server.requests) == 1


def test_other_servers_need_a_price_and_a_cap():
    with pytest.raises(UsageError, match="price"):
        EndpointSettings("https://openrouter.ai/api/v1", "m").check(has_cap=True)
    with pytest.raises(UsageError, match="cap"):
        EndpointSettings("https://openrouter.ai/api/v1", "m", prices=Prices(1, 1)).check(has_cap=False)
    with pytest.raises(UsageError, match="clear text"):
        EndpointSettings("http://example.com/v1", "m", prices=Prices(1, 1)).check(has_cap=True)


def test_the_cap_holds(task, ledger, no_grading):
    ledger.set_cap(100)
    prices = Prices(1_000_000, 1_000_000)
    with (
        ScriptedChat(by_turn([SUBMIT])) as server,
        asking(server, ledger, prices=prices) as model,
        pytest.raises(BudgetError, match="cap"),
    ):
        attempt_task(task, model, 0)
    assert server.requests == []


def test_answers_that_were_paid_for_are_not_asked_again(task, ledger, no_grading):
    script = by_turn([calls(("bash", {"command": "echo hi"})), SUBMIT])
    with ScriptedChat(script) as server, asking(server, ledger) as model:
        first, again = attempt_task(task, model, 0), attempt_task(task, model, 0)
        assert (again.trace, len(server.requests)) == (first.trace, 2)
        other = attempt_task(task, model, 1)
        assert len(server.requests) == 4 and other.trace.trace_id != first.trace.trace_id


def test_attempts_are_kept_one_by_one_and_not_made_again(task, tmp_path, no_grading):
    plan, made = planned(["merge"], 3), []

    def attempt(each, stop):
        made.append(each.sample)
        if each.sample == 2 and len(made) == 3:
            raise NoReply("stopped here")
        return attempt_task(task, nop(task), each.sample)

    with pytest.raises(NoReply):
        run_attempts(plan, attempt, tmp_path / "a", {"model": "nop"}, Silent())
    assert len(list(stored(plan, tmp_path / "a"))) == 2
    run_attempts(plan, attempt, tmp_path / "a", {"model": "nop"}, Silent())
    assert made == [0, 1, 2, 2] and len(list(stored(plan, tmp_path / "a"))) == 3
    with pytest.raises(UsageError, match="another model: nop there, gold now"):
        run_attempts(plan, attempt, tmp_path / "a", {"model": "gold"}, Silent())


def test_one_that_fails_stops_the_others_soon(task, tmp_path, no_grading):
    """Like an interrupt: attempts in progress end with their turn and are made again another time."""
    begun = threading.Event()

    class Endless(Scripted):
        def reply(self, messages, tools, asked):
            begun.set()
            time.sleep(0.05)
            return Reply("", (WireCall("bash", '{"command": "true"}'),))

    def attempt(each, stop):
        if each.sample == 1:
            assert begun.wait(60)
            raise NoReply("stopped here")
        return attempt_task(task, Endless("endless", ()), each.sample, AgentLimits(turns=10_000), stop=stop)

    started = time.monotonic()
    with pytest.raises(NoReply):
        run_attempts(planned(["merge"], 2), attempt, tmp_path / "a", {}, Silent(), concurrency=2)
    assert time.monotonic() - started < 60
    assert list(stored(planned(["merge"], 2), tmp_path / "a")) == []


def test_rollouts_flow_into_the_next_stage(task, tmp_path, capsys):
    run = tmp_path / "run"
    script = by_turn([calls(("edit_file", {"path": SPANS, "old": "nowhere", "new": ""})), SUBMIT])
    with ScriptedChat(script) as server:
        chosen = {"endpoint": server.base_url, "model_name": "scripted", "rollouts": 2, "run": run, "json": True}
        chosen |= {"price": "0.5,1.5", "max_usd": 1}
        rollout(task.folder, **chosen)
        told = json.loads(capsys.readouterr().out)
        assert (told["traces"], told["solved"], told["ended"], told["turns"]) == (2, 0, {"submitted": 2}, 4)
        asked = len(server.requests)
        rollout(task.folder, **chosen)
        assert json.loads(capsys.readouterr().out) == told
        assert len(server.requests) == asked == 4
        assert {request["max_tokens"] for request in server.requests} == {4096}
    bill = json.loads(recompose("cost", run, "--json").stdout)
    assert (bill["spent_micros"], bill["cap_micros"]) == (4 * (50 + 15), 1_000_000), "100 tokens in and 10 out, each"
    rewards = json.loads((run / "ingestion" / "rewards.json").read_text())
    assert rewards == {"spanbook-merge": {"rewards": [0.0, 0.0], "ended": ["submitted"] * 2, "notes": [[], []]}}
    run_one_stage(run, "sites", as_json=True)
    assert json.loads(capsys.readouterr().out)["kinds"] == {"edit_mismatch": 2}
    assert {trace.task_id for trace in Run.open(run).stage("ingestion").read(Trace)} == {"spanbook-merge"}
    plain = zstandard.ZstdDecompressor().decompressobj().decompress((run / EVIDENCE).read_bytes())
    promised = Run.open(run).stage("ingestion").require()["beside"]["evidence.jsonl.zst"]
    assert promised == {"sha256": hashlib.sha256(plain).hexdigest(), "records": 2}, "so that damage is seen"


def test_a_stopped_command_goes_on(task, tmp_path, capsys, no_grading, monkeypatch):
    run, made = tmp_path / "run", []

    def stop_at_the_second(code_task):
        made.append(code_task)
        if len(made) == 2:
            raise KeyboardInterrupt
        return nop(code_task)

    monkeypatch.setitem(SCRIPTED, "nop", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        rollout(task.folder, scripted="nop", run=run, rollouts=3, concurrency=1)
    with pytest.raises(UsageError, match="another rollouts: 3 there, 2 now"):
        rollout(task.folder, scripted="nop", run=run, rollouts=2, concurrency=1)
    rollout(task.folder, scripted="nop", run=run, rollouts=3, concurrency=1, json=True)
    assert (len(made), json.loads(capsys.readouterr().out)["traces"]) == (4, 3)
    assert not (run / "ingestion" / "attempts").exists()


def test_a_finished_run_belongs_to_its_settings(task, tmp_path, capsys, no_grading):
    run = tmp_path / "run"
    rollout(task.folder, scripted="nop", run=run, json=True)
    told = json.loads(capsys.readouterr().out)
    rollout(task.folder, scripted="nop", run=run, concurrency=1, json=True)
    assert json.loads(capsys.readouterr().out) == told
    for other in ({"scripted": "gold"}, {"scripted": "nop", "rollouts": 2}, {"scripted": "nop", "temperature": 0.5}):
        with pytest.raises(UsageError, match="finished attempts with other settings; next: choose another -o RUN"):
            rollout(task.folder, run=run, **other)
    manifest = run / "ingestion" / "manifest.json"
    noted = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(noted | {"inputs": noted["inputs"] | {"tasks": "1" * 64}}))
    with pytest.raises(UsageError, match="with other tasks"):
        rollout(task.folder, scripted="gold", run=run)
    del noted["inputs"]["settings"]
    manifest.write_text(json.dumps(noted))
    rollout(task.folder, scripted="gold", run=run, json=True)
    assert json.loads(capsys.readouterr().out) == told, "a run of a version that noted no settings is kept"


def test_the_command_says_what_it_needs(task, tmp_path):
    with pytest.raises(UsageError, match="--scripted"):
        rollout(task.folder, run=tmp_path / "r")
    with pytest.raises(UsageError, match="--model-name"):
        rollout(task.folder, run=tmp_path / "r", endpoint="http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match="above 0"):
        rollout(task.folder, run=tmp_path / "r", scripted="nop", concurrency=0)
    with pytest.raises(UsageError, match="holds no tasks"):
        rollout(tmp_path, run=tmp_path / "r", scripted="nop")
    assert not (tmp_path / "r").exists()
    with pytest.raises(UsageError, match="price"):
        rollout(task.folder, run=tmp_path / "r", endpoint="https://example.com/v1", model_name="m", max_usd=1)
    with pytest.raises(UsageError, match="--price 3 is no pair"):
        rollout(task.folder, run=tmp_path / "r", endpoint="http://127.0.0.1:9/v1", model_name="m", price="3")


SUBMITTED = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
LOOK = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'


@pytest.mark.parametrize(
    "text, names, said",
    [
        (f"I look.\n{LOOK}", ["bash"], "I look."),
        ('<tool_call>{"name": "submit"}', ["submit"], ""),
        (f"{LOOK}\n{LOOK}\nAnd then I am done.", ["bash", "bash"], "And then I am done."),
        (f"One.\n{LOOK}\nTwo.\n{LOOK[: -len('</tool_call>')]}", ["bash", "bash"], "One.\nTwo."),
        ('<tool_call>{"name": "a"}<tool_call>{"name": "b"}</tool_call>', ["a", "b"], ""),
    ],
)
def test_calls_in_plain_text(text, names, said):
    read = read_calls(text)
    assert ([call.name for call in read.calls], read.text) == (names, said)


@pytest.mark.parametrize(
    "text",
    ["", "done", "<tool_call>x</tool_call>", "<tool_call>[1]</tool_call>", '<tool_call>{"name": 1}</tool_call>',
     f"{LOOK}<tool_call>x</tool_call>", "<tool_call>" + "[" * 99_999],
)  # fmt: skip
def test_what_is_no_call_in_plain_text(text):
    with pytest.raises(ToolError, match=r"^Your response (did not|could not)"):
        read_calls(text)


def test_a_turn_of_a_trace_reads_as_it_was_written():
    read = read_calls(f"I look.\n{LOOK}\n{LOOK}")
    calls = [
        {"id": str(number), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for number, call in enumerate(read.calls)
    ]
    assert read_calls(as_text({"role": "assistant", "content": read.text, "tool_calls": calls})) == read


def episode_on(task, **limits):
    asked = AskedTask(task, tuple(opening(task.code_task, calls_as_text=True)), {})
    return AgentEpisode(asked, limits=SessionLimits(**limits))


def test_an_episode_on_text(task, no_grading):
    episode = episode_on(task)
    try:
        assert "<tool_call>" in episode.messages[0]["content"]
        refused = episode.step("<tool_call>{")
        assert refused.failed and "could not be parsed" in refused.observation
        solution = json.dumps({"name": "write_file", "arguments": {"path": SPANS, "content": SPANS_GOLD}})
        assert not episode.step(f"Now.\n<tool_call>\n{solution}\n</tool_call>").failed
        assert not episode.finished
        episode.step('<tool_call>{"name": "submit", "arguments": {}}</tool_call>')
        assert (episode.finished, episode.reward) == (True, 1.0)
        trace = episode.trace("policy", 0)
    finally:
        episode.close()
    assert [site.error_kind for site in find_sites(trace)] == ["json_decode"]
    assert [trace.messages[turn.start]["content"] for turn in trace.turns] == ["<tool_call>{", "Now.", ""]
    assert trace.outcome == 1.0


def test_several_calls_of_a_turn_run_in_order(task, no_grading):
    episode = episode_on(task)
    missing = '<tool_call>{"name": "read_file", "arguments": {"path": "nope"}}</tool_call>'
    write = json.dumps({"name": "write_file", "arguments": {"path": SPANS, "content": SPANS_GOLD}})
    turn = f"First {LOOK} then {missing} and\n<tool_call>{write}</tool_call>\n{SUBMITTED} Done."
    try:
        answer = episode.step(turn)
        assert (episode.finished, episode.reward, answer.failed) == (True, 1.0, True)
        trace = episode.trace("policy", 0)
    finally:
        episode.close()
    told = [part.split("\n")[0] for part in answer.observation.split("[call ")[1:]]
    assert told == ["1]", "2]", "3]", "4]"] and "spanbook" in answer.observation.split("[call 2]")[0]
    (turn,) = trace.turns
    said, *results = trace.messages[turn.start : turn.end]
    assert [call["id"] for call in said["tool_calls"]] == [each["tool_call_id"] for each in results]
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["bash", "read_file", "write_file", "submit"]
    assert [site.error_kind for site in find_sites(trace)] == ["file_not_found"]


def test_too_many_calls_in_a_turn_are_refused_and_none_runs(task, no_grading):
    episode = episode_on(task)
    try:
        answer = episode.step(f"{SUBMITTED}\n" * 9)
        assert answer.failed and "more than 8 calls" in answer.observation and not episode.finished
    finally:
        episode.close()
