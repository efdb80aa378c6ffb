"""A harness plays a code task: its provider is our proxy, its turns are the policy's, and every id is kept.

`RECOMPOSE_MINI_SWE_AGENT=DIR` names a virtual environment with mini-swe-agent, which then plays too.
"""

from __future__ import annotations

import asyncio
import copy
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
import torch

from composer_replication.cli.env_rollout import rollout as rollout_command
from composer_replication.config import EnvironmentConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.grading.grader import GradingProcesses
from composer_replication.environments.code.harness.proxy import CaptureProxy
from composer_replication.environments.code.harness.runtime import harness_of
from composer_replication.environments.code.tasks.task import Grade
from composer_replication.environments.self_played import ModelCall, NoTurn, TokenSegment, WrittenTurn
from composer_replication.errors import UsageError
from composer_replication.hints import write_hints
from composer_replication.records import Trace
from composer_replication.runs import Run, read_records
from composer_replication.sites import find_sites
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.training.backends.trl.rollouts import rollout_columns
from composer_replication.training.lessons.online_sites import turn_spans
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.rollouts.plain_traces import PlainTurn, plain_trace
from composer_replication.training.rollouts.playing import roll_out, started
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.rollouts.self_played import writer
from composer_replication.training.rollouts.worker import RolloutSettings, RolloutWorker
from composer_replication.training.stored.collator import ComposerDataCollator
from composer_replication.training.stored.examples import build_examples
from composer_replication.training.stored.policy_gradient import StoredPolicy
from composer_replication.training.stored.records import TokenizedTrace
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task

from .capture_client import CHAT, client_of

TINY = Path(__file__).parents[1] / "tiny_harness"


def call(command: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'bash', 'arguments': {'command': command}})}</tool_call>"


LOOK, BREAK = call("ls"), call("cat no_such_file")
SOLVE = call(f"cat > {SPANS} <<'END'\n{SPANS_GOLD}END")
DONE = "All is done."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("harness") / "one")


@pytest.fixture(scope="module")
def policy(new_chatml_policy):
    return new_chatml_policy()


@pytest.fixture(autouse=True)
def quick_grades(monkeypatch):
    def grade(self, task, submission, backend, deep=False):
        return Grade(float(submission.written.get(SPANS) == SPANS_GOLD.encode()), (), (), ())

    monkeypatch.setattr(GradingProcesses, "grade", grade)


class Writing:
    """Writes given turns, one after the other; remembers behind which ids."""

    max_tokens, batch = None, 8

    def __init__(self, tokens, texts):
        self._tokens, self._texts = tokens, list(texts)
        self.written: list[tuple[list[int], list[int]]] = []

    def sample(self, slots, contexts, **options):
        turns = []
        for context in contexts:
            text = self._texts[min(len(self.written), len(self._texts) - 1)]
            ids = self._tokens.turn(text)
            self.written.append((list(context), ids))
            turns.append(SampledTurn(ids, [-0.5] * len(ids)))
        return turns


def play(policy, folder, way, texts, **changes):
    chosen = {
        "name": "code", "heldout_share": 0.0, "concurrency": 1, "completion_tokens": 9000, "max_steps": 8,
        "harness": f"python /harness/agent.py {way}", "harness_runtime": str(TINY), **changes,
    }  # fmt: skip
    environment = CodeEnvironment([folder], EnvironmentConfig(**chosen), 60.0)
    sampler = Writing(policy.tokens, texts)
    try:
        (rollout,) = roll_out(
            policy.model, policy.tokens, environment, environment.tasks("train"), max_turn_tokens=2000, temperature=1.0,
            sampler=sampler,
        )  # fmt: skip
    finally:
        environment.close()
    return rollout, sampler.written


def trained(rollout):
    """Each sampled turn with the ids before it, from the rows of all segments."""
    return [
        (list(row.ids[:start]), list(row.ids[start:end]))
        for row in rollout.stored("trace", "tokenizer")
        for start, end in row.turn_spans
    ]


@pytest.mark.parametrize("dialect", ["openai", "openai+stream", "anthropic", "anthropic+stream"])
def test_a_harness_solves_a_task_and_every_id_is_the_sampled_one(policy, folder, dialect):
    rollout, written = play(policy, folder, f"work {dialect}", [BREAK, SOLVE, DONE])
    assert (rollout.reward, rollout.episode.ended, rollout.failure) == (1.0, "finished", None)
    (row,) = rollout.stored("trace", "tokenizer")
    assert trained(rollout) == written
    assert all(later[: len(ids) + len(turn)] == ids + turn for (ids, turn), (later, _) in pairwise(written))
    assert [row.logprobs[start:end] for start, end in row.turn_spans] == [(-0.5,) * len(turn) for _, turn in written]
    trace = rollout.trace("random", 0)
    assert [len(trace.turns), len(trace.segments), trace.tools[0]["function"]["name"]] == [3, 1, "bash"]
    sites = find_sites(trace)
    assert [(site.turn, site.fault) for site in sites] == [(0, "policy")]
    assert len(write_hints({trace.trace_id: trace}, sites, 96).hints) == 1


def test_a_compaction_begins_a_segment_that_trains_alone(policy, folder):
    rollout, written = play(policy, folder, "compact", [BREAK, LOOK, SOLVE, DONE])
    rows, trace = rollout.stored("trace", "tokenizer"), rollout.trace("random", 0)
    assert [(row.segment, row.turns) for row in rows] == [(0, (0, 1)), (1, (2, 3))]
    assert trained(rollout) == written and rollout.reward == 1
    assert trace.history(2)[-1]["content"] == "You looked around. Go on."
    assert LOOK not in policy.tokens.tokenizer.decode(list(rows[1].ids))
    examples, _ = build_examples(
        policy.tokens, [row.model_copy(update={"trace_id": trace.trace_id}) for row in rows], {}, (), (), 9000,
        {trace.trace_id: 1.0}, [trace],
    )  # fmt: skip
    lengths = [len(turn) for _, turn in written]
    assert [sum(example.response_mask) for example in examples] == [sum(lengths[:2]), sum(lengths[2:])]
    trains_a_step(policy, examples)


def trains_a_step(policy, examples):
    model = copy.deepcopy(policy.model)
    loss = StoredPolicy().loss(model, ComposerDataCollator(policy.tokenizer.pad_token_id)(examples))
    loss.backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    before, after = (torch.cat([each.flatten() for each in one.parameters()]) for one in (policy.model, model))
    assert torch.isfinite(loss) and torch.isfinite(after).all() and not torch.equal(before, after)


def test_a_training_row_is_the_longest_segment_with_a_trace_of_its_own(policy, folder):
    rollout, written = play(policy, folder, "compact", [BREAK, LOOK, SOLVE, DONE])
    columns = rollout_columns([rollout], "random")
    (trace,), (mask,) = columns["trace"], columns["env_mask"]
    spans = turn_spans(mask)
    assert [columns["completion_ids"][0][start:end] for start, end in spans] == [turn for _, turn in written[2:]]
    assert len(trace.turns) == len(spans) and len(trace.segments) == 1 and not find_sites(trace)
    assert len(find_sites(rollout.trace("random", 0))) == 1


def test_a_retry_is_a_sibling_and_each_answer_is_trained_once(policy, folder):
    rollout, written = play(policy, folder, "retry", [LOOK, SOLVE, DONE])
    trace = rollout.trace("random", 0)
    assert trained(rollout) == written and written[0][0] == written[1][0]
    assert [segment.continues for segment in trace.segments] == [None, (0, trace.turns[0].start)]
    assert trace.history(0) == trace.history(1)


def test_an_answer_that_the_harness_forgets_is_an_error_turn_of_its_own(policy, folder):
    rollout, written = play(policy, folder, "forget", ["I just talk.", SOLVE])
    trace = rollout.trace("random", 0)
    assert trained(rollout) == written and rollout.reward == 1
    assert [message["content"] for message in trace.history(1)][-1] == "No tool calls found in the response."
    assert [(site.turn, site.error_message) for site in find_sites(trace)] == [
        (0, "No tool calls found in the response.")
    ]


def test_calls_side_by_side_are_segments_behind_one_turn(policy, folder):
    rollout, written = play(policy, folder, "side_by_side", [LOOK, DONE])
    trace = rollout.trace("random", 0)
    assert sorted(trained(rollout)) == sorted(written) and len(written) == 3
    assert [segment.continues for segment in trace.segments] == [None, (0, trace.turns[0].start + 1)]
    assert {trace.history(turn)[-1]["content"] for turn in (1, 2)} == {"Part 0.", "Part 1."}


def test_a_harness_that_goes_on_after_its_budget_is_ended(policy, folder):
    rollout, written = play(policy, folder, "loop", [LOOK], max_steps=3)
    assert rollout.episode.ended.startswith("loop: ") and len(written) == 3


def test_work_of_a_harness_that_fails_is_graded_as_it_is(policy, folder):
    rollout, _ = play(policy, folder, "fail", [LOOK])
    assert (rollout.reward, rollout.episode.ended) == (0.0, "exit_1: no more")


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"harness": "no-such-agent --task x"}, "the harness is not in the sandbox.*no-such-agent"),
        ({"harness": "python /harness/agent.py silent"}, "never called the model: I never ask.*run it by hand"),
        ({"harness": "mini-swe-agent", "harness_runtime": None}, "where is mini-swe-agent installed"),
        ({"harness_runtime": "no/folder"}, "no/folder is no folder"),
        ({"sandbox": "landlock"}, "needs the sandbox bubblewrap"),
        ({"answer": "definition"}, "works as an agent"),
    ],
)
def test_what_is_wrong_with_a_harness_is_said_in_words(policy, folder, changes, said):
    with pytest.raises(UsageError, match=said):
        play(policy, folder, "work", [DONE], **changes)


def test_a_conversation_that_is_full_ends_the_harness_in_peace(policy, folder):
    rollout, written = play(policy, folder, "work", [call("seq 400")], completion_tokens=2600)
    assert rollout.episode.ended == "calls" and 0 < len(written) < 8
    assert len(rollout.context_ids) <= len(policy.tokens.prompt(rollout.episode.task.messages)) + 2600


def test_a_first_prompt_that_does_not_fit_breaks_its_episode_in_true_words(policy, folder):
    rollout, written = play(policy, folder, "wordy", [DONE])
    assert rollout.reward == 0 and written == [] and rollout.stored("trace", "tokenizer") == []
    assert "the harness's first prompt leaves no room for a turn" in rollout.failure.message
    assert "raise completion_tokens" in rollout.trace("random", 0).messages[-1]["content"]


def test_a_harness_whose_every_call_is_refused_is_told_so(policy, folder):
    with pytest.raises(UsageError, match="the harness got no turn: the request was refused: it cannot be read"):
        play(policy, folder, "unreadable", [DONE])


class Asking:
    """Plays itself without a sandbox: one call, or none."""

    messages, tools, reward, finished = [{"role": "user", "content": "hi"}], (), 1.0, False
    evidence, segments = None, ()

    def __init__(self, asks, works_s=0.0):
        self._asks, self._works_s = asks, works_s

    def play(self, write):
        time.sleep(self._works_s)
        if not self._asks:
            raise NoTurn("the harness ended by killed and never called the model: it said nothing")
        turn = write(ModelCall(self.messages))
        ids, start = [*turn.prompt_ids, *turn.ids], len(turn.prompt_ids)
        self.segments = [TokenSegment(ids, [(start, len(ids))], [0.0] * len(ids), [0])]

    def step(self, turn):
        raise AssertionError

    def trace(self, source_model, sample):
        return plain_trace(self.messages, [PlainTurn("hello", None, False)], source_model, sample)

    def close(self):
        pass


def test_an_episode_without_a_call_is_broken_and_stops_the_run_only_where_none_called(policy):
    settings = RolloutSettings(max_turn_tokens=20, temperature=1.0, max_completion_tokens=40, max_concurrency=2)
    worker = RolloutWorker(Writing(policy.tokens, ["hello"]), policy.tokens, settings)
    silent, asking = worker.run([Asking(False), Asking(True)])
    assert (silent.reward, silent.failure.kind, asking.reward, asking.failure) == (0.0, "runtime_error", 1.0, None)
    with pytest.raises(UsageError, match=r"killed and never called the model.*run it by hand"):
        worker.run([Asking(False), Asking(False)])


class WritingSlowly:
    """A server that takes its time for each turn."""

    max_tokens = None

    def __init__(self, ids, turn_s):
        self._ids, self._turn_s = ids, turn_s

    @asynccontextmanager
    async def connected(self):
        yield

    async def write(self, context, **options):
        await asyncio.sleep(self._turn_s)
        return SampledTurn(self._ids, [-0.5] * len(self._ids))


@pytest.mark.parametrize("served", [True, False])
def test_sampling_for_a_harness_is_no_time_of_its_environment(policy, served):
    settings = RolloutSettings(max_turn_tokens=20, temperature=1.0, max_completion_tokens=40, max_concurrency=2)
    sampler = WritingSlowly(policy.tokens.turn("hello"), 0.3) if served else Writing(policy.tokens, ["hello"])
    if not served:
        write = sampler.sample
        sampler.sample = lambda *asked, **options: (time.sleep(0.3), write(*asked, **options))[1]
    worker = RolloutWorker(sampler, policy.tokens, settings)
    (rollout,) = worker.run([Asking(True, works_s=0.1)])
    worked_s = sum(turn.seconds for turn in rollout.turns)
    assert worker.sampling_s >= 0.3 and worked_s >= 0.1
    assert worker.sampling_s + worked_s <= worker.total_s
    if served:
        assert worker.environment_share == pytest.approx(worked_s / (worked_s + worker.sampling_s))


def test_the_proxy_is_the_only_way_out(policy, folder):
    outside = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=outside.serve_forever, daemon=True).start()
    try:
        way = f"OUTSIDE=http://127.0.0.1:{outside.server_port} python /harness/agent.py escape"
        rollout, _ = play(policy, folder, "escape", [DONE], harness=way)
    finally:
        outside.shutdown()
        outside.server_close()
    assert rollout.trace("random", 0).messages[-2]["content"] == "reached []"


def test_a_runtime_that_holds_the_solution_takes_the_task_away(policy, folder, tmp_path):
    (tmp_path / "agent.py").write_text((TINY / "agent.py").read_text())
    (tmp_path / "notes.py").write_text(SPANS_GOLD)
    with pytest.raises(UsageError, match=r"the harness's runtime tells the solution: .*notes\.py"):
        play(policy, folder, "work", [DONE], harness_runtime=str(tmp_path))


def test_a_runtime_that_can_import_the_package_takes_the_task_away(policy, folder, tmp_path):
    package = tmp_path / "lib" / "python3" / "site-packages" / folder.code_task.packages[0]
    package.mkdir(parents=True)
    (tmp_path / "agent.py").write_text((TINY / "agent.py").read_text())
    with pytest.raises(UsageError, match="is importable"):
        play(policy, folder, "work", [DONE], harness_runtime=str(tmp_path))


def test_the_command_keeps_a_row_for_each_segment_and_goes_on(policy, folder, tmp_path, capsys):
    policy.save(tmp_path / "model")

    def command():
        rollout_command(
            folder.folder, run=tmp_path / "run", model=str(tmp_path / "model"), rollouts=2, concurrency=2, steps=3,
            harness="python /harness/agent.py retry", harness_runtime=TINY, max_turn_tokens=8, max_tokens=3000,
            json=True,
        )  # fmt: skip
        return json.loads(capsys.readouterr().out)

    told = command()
    assert (told["traces"], told["turns"]) == (2, 4) and command() == told
    run = Run.open(tmp_path / "run")
    rows = list(read_records(run.path / ROLLOUT_TOKENS, TokenizedTrace))
    assert [row.segment for row in rows] == [0, 1, 0, 1]
    ended = sum(row.ids[row.turn_spans[0][1] - 1] == policy.tokens.end_of_turn_id for row in rows)
    assert told["cut_turns"] == 4 - ended > 0
    assert {row.trace_id for row in rows} == {trace.trace_id for trace in run.stage("ingestion").read(Trace)}
    with pytest.raises(UsageError, match="--model"):
        rollout_command(folder.folder, run=tmp_path / "other", scripted="gold", harness="x")


def test_a_terminated_rollout_leaves_no_harness_and_no_folder(policy, folder, tmp_path):
    policy.save(tmp_path / "model")
    # Where commands run as another user, that one must be able to pass through.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        Path(temporary).chmod(0o755)
        asked = [
            *(sys.executable, "-m", "composer_replication", "env", "rollout", str(folder.folder), "-o", "run"),
            *("--model", str(tmp_path / "model"), "--max-turn-tokens", "8", "--max-tokens", "3000"),
            *("--harness", "touch started; sleep 4242", "--harness-runtime", str(TINY)),
        ]
        env = {**os.environ, "TMPDIR": temporary}
        process = subprocess.Popen(asked, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not [*Path(temporary).glob("recompose-sandboxes-*/*/area/work/started")]:
            time.sleep(0.05)
        process.terminate()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 143, said
        left = [path for path in Path(temporary).rglob("*") if not path.name.startswith("recompose-sandboxes-")]
        assert left == []
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"sleep\0004242" in command for command in running)


# The proxy alone


def echo(call):
    return WrittenTurn([1, 2, 3], [4, 5], [-0.1, -0.2], "hello", True)


@pytest.fixture
def proxy():
    with CaptureProxy("policy", body_bytes=2000) as opened:
        yield opened


@pytest.fixture
def client(proxy):
    with client_of(proxy) as opened:
        yield opened


def test_only_model_calls_under_a_key_and_of_a_bounded_size_are_answered(proxy, client):
    body = {"messages": [{"role": "user", "content": "hi"}]}
    with proxy.session(echo, 60) as capture:
        key = {"Authorization": f"Bearer {capture.key}"}
        assert client.post(CHAT, json=body, headers=key).status_code == 200
        assert client.post(CHAT, json=body).status_code == 401
        assert client.post(CHAT, json=body, headers={"x-api-key": "guess"}).status_code == 401
        long = {"messages": [{"role": "user", "content": "x" * 3000}]}
        assert client.post(CHAT, json=long, headers=key).status_code == 413
        for path in ("/sessions", "/health", f"/sessions/{capture.key}/rollout", "/docs"):
            assert client.get(path, headers=key).status_code == 404
        assert client.post("/sessions", json={}, headers=key).status_code == 404
        assert [node.sampled_ids for node in capture.session.graph.nodes()] == [[4, 5]]
    assert client.post(CHAT, json=body, headers=key).status_code == 401


def test_calls_beyond_the_limit_get_a_last_word(proxy, client):
    body = {"messages": [{"role": "user", "content": "hi"}]}
    with proxy.session(echo, 2) as capture:
        key = {"Authorization": f"Bearer {capture.key}"}
        said = [client.post(CHAT, json=body, headers=key).json()["choices"][0]["message"] for _ in range(3)]
    assert [message["content"] for message in said] == ["hello", "hello", "Step budget exhausted; stopping."]
    assert len(capture.session.graph.nodes()) == 2


@pytest.mark.parametrize(
    "sent",
    [
        {"messages": [{"role": "user", "content": [5]}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": 5}]}]},
        {"max_tokens": "abc"},
        {"tools": [1]},
        {"tools": [{"type": "function", "function": {"name": 5}}]},
    ],
)
def test_a_call_that_cannot_be_read_is_refused_and_is_no_failure_of_the_policy(proxy, client, sent):
    body = {"messages": [{"role": "user", "content": "hi"}]}
    with proxy.session(echo, 60) as capture:
        key = {"Authorization": f"Bearer {capture.key}"}
        said = [client.post(CHAT, json=each, headers=key).status_code for each in (body, {**body, **sent}, body)]
    assert said == [200, 400, 200] and capture.failure is None
    assert len(capture.session.graph.nodes()) == 2


def test_messages_that_the_template_refuses_are_refused_and_sampling_that_fails_is_the_policys(
    proxy, client, chatml_tokenizer
):
    tokenizer = chatml_tokenizer("<|pad|>")
    refusing = "{% if messages[-1]['role'] == 'assistant' %}{{ raise_exception('not now') }}{% endif %}"
    tokens = ChatTokens(tokenizer)
    tokens.template._template = refusing + tokenizer.chat_template

    def sample(context):
        raise RuntimeError("out of memory")

    with proxy.session(writer(tokens, sample, 8, 1000, {}), 60) as capture:
        key = {"Authorization": f"Bearer {capture.key}"}
        body = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}
        answer = client.post(CHAT, json=body, headers=key)
        assert answer.status_code == 400 and "not now" in answer.text and capture.failure is None
        assert client.post(CHAT, json={"messages": body["messages"][:1]}, headers=key).status_code == 502
    assert str(capture.failure) == "out of memory"


def test_episodes_that_start_at_once_share_one_proxy(folder):
    chosen = EnvironmentConfig(name="code", heldout_share=0.0, harness="true", concurrency=8)
    environment = CodeEnvironment([folder], chosen)
    try:
        episodes = started(environment, list(environment.tasks("train")) * 8)
        assert len({id(episode._settings.proxy) for episode in episodes}) == 1
    finally:
        environment.close()


def test_the_socket_is_gone_when_the_proxy_is_closed(proxy, client):
    assert (proxy.folder / "proxy.sock").exists()
    proxy.close()
    assert not proxy.folder.exists()
    with pytest.raises(httpx.ConnectError):
        client.get("/v1/models")


def test_a_harness_goes_by_its_name_or_by_its_command():
    assert harness_of("mini-swe-agent").agent == harness_of("/opt/x/bin/mini --yolo").agent == "mini_swe_agent"
    assert harness_of("python my_agent.py") == ("python my_agent.py", "harness")


@pytest.mark.skipif(
    not os.environ.get("RECOMPOSE_MINI_SWE_AGENT"),
    reason="RECOMPOSE_MINI_SWE_AGENT=DIR names an environment with mini-swe-agent; its first search takes minutes",
)
def test_mini_swe_agent_plays(policy, folder):
    submit = call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    rollout, written = play(
        policy, folder, "", ["I just talk.", BREAK, SOLVE, submit], harness="mini-swe-agent",
        harness_runtime=os.environ["RECOMPOSE_MINI_SWE_AGENT"],
    )  # fmt: skip
    trace = rollout.trace("random", 0)
    assert (rollout.reward, rollout.episode.ended, trace.source.agent) == (1.0, "finished", "mini_swe_agent")
    assert trained(rollout) == written and len(trace.segments) == 2
    assert [site.turn for site in find_sites(trace)] == [0, 1]
