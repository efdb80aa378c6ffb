"""Code tasks through our own `rollout_func`: sampled ids are kept, sandboxes overlap, and nothing is lost.

`RECOMPOSE_SMOLLM2=1` also lets SmolLM2 play, which takes minutes on a CPU.
"""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
import torch

from composer_replication.cli.env_rollout import rollout as rollout_command
from composer_replication.config import EnvironmentConfig, TrainingConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.errors import UsageError
from composer_replication.records import Trace
from composer_replication.runs import Run, read_records
from composer_replication.sites import find_sites
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.training.backends.trl import rollouts as trl_rollouts
from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts, prompts_of
from composer_replication.training.models.embedded import folder_of
from composer_replication.training.models.loading import load_policy
from composer_replication.training.rollouts.playing import roll_out
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.stored.records import TokenizedTrace
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task

pytestmark = pytest.mark.usefixtures("no_grading")
SUBMIT = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
SOLVE = json.dumps({"name": "write_file", "arguments": {"path": SPANS, "content": SPANS_GOLD}})
BLOCK = f"```python\n{SPANS_GOLD[SPANS_GOLD.index('def merge') :]}\n```"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rollouts")
    other = code_task().task.model_copy(update={"task_id": "other", "statement": "Write `merge`."})
    return [write_sample_task(folder / "one"), write_sample_task(folder / "two", task=other)]


@pytest.fixture(scope="module")
def environment(folders):
    def opened(**changes):
        chosen = {"name": "code", "heldout_share": 0.0, "concurrency": 2, "completion_tokens": 600, **changes}
        return CodeEnvironment(folders, EnvironmentConfig(**chosen))

    return opened


@pytest.fixture(scope="module")
def policy(new_chatml_policy):
    return new_chatml_policy()


class Writing:
    """Writes given turns: those of the row that a context belongs to."""

    max_tokens = None

    def __init__(self, tokens, scripts, batch=8):
        self.batch, self._tokens, self._scripts = batch, tokens, scripts

    def refresh(self, model):
        pass

    def sample(self, slots, contexts, **options):
        texts = [self._tokens.tokenizer.decode(list(context)) for context in contexts]
        turns = [text.count("<|im_start|>assistant") - 1 for text in texts]
        said = [self._scripts[slot][turn] for slot, turn in zip(slots, turns, strict=True)]
        ids = [self._tokens.turn(text) for text in said]
        return [SampledTurn(row, [-1.0] * len(row)) for row in ids]


def roll(policy, environment, tasks, settings):
    """What TRL gets for one prompt per task."""
    play = EnvironmentRollouts(policy, environment, tasks, settings, seed=0)
    trainer = SimpleNamespace(
        model=policy.model,
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        args=SimpleNamespace(temperature=settings.temperature),
        state=SimpleNamespace(global_step=0),
    )
    return play([row["prompt"] for row in prompts_of(tasks)], trainer)


def both(environment):
    return [environment.task("spanbook-merge"), environment.task("other")]


def test_given_turns_solve_the_task_through_rollout_func(policy, environment, monkeypatch):
    scripts = [[f"<tool_call>{SOLVE}</tool_call>", SUBMIT], ["I give up.", SUBMIT]]
    monkeypatch.setattr(trl_rollouts, "turn_sampler", lambda *given: Writing(policy.tokens, scripts))
    opened = environment(completion_tokens=8000)
    columns = roll(policy, opened, both(opened), TrainingConfig(max_turn_tokens=4000))
    assert columns["episode_reward"] == [1.0, 0.0]
    assert columns["step_failure"] == [None, None]
    first, second = columns["trace"]
    assert [trace.task_id for trace in (first, second)] == ["spanbook-merge", "other"]
    assert [site.error_kind for site in find_sites(second)] == ["no_action"]
    for row in range(2):
        mask, ids = columns["env_mask"][row], columns["completion_ids"][row]
        sampled = policy.tokens.tokenizer.decode([token for token, own in zip(ids, mask, strict=True) if own])
        assert sampled == "".join(f"{text}<|im_end|>" for text in scripts[row])


def test_a_code_block_solves_the_task_through_rollout_func(policy, environment, monkeypatch):
    scripts = [[BLOCK], ["Hm.", BLOCK.replace("sorted", "list")]]
    monkeypatch.setattr(trl_rollouts, "turn_sampler", lambda *given: Writing(policy.tokens, scripts))
    opened = environment(answer="definition", completion_tokens=8000)
    columns = roll(policy, opened, both(opened), TrainingConfig(max_turn_tokens=3000))
    assert columns["episode_reward"] == [1.0, 0.0] and columns["step_failure"] == [None, None]
    assert [len(trace.turns) for trace in columns["trace"]] == [1, 2]
    first, *_ = find_sites(columns["trace"][1])
    assert (first.turn, first.error_kind) == (0, "no_action"), "a turn without a code block"


def test_a_random_policy_never_breaks_the_batch(policy, environment):
    opened = environment(max_steps=3, concurrency=4)
    tasks = [*both(opened), opened.task("spanbook-merge")]
    rollouts = roll_out(policy.model, policy.tokens, opened, tasks, max_turn_tokens=24, temperature=1.0, batch_size=3)
    assert [rollout.episode.task.task_id for rollout in rollouts] == ["spanbook-merge", "other", "spanbook-merge"]
    for number, rollout in enumerate(rollouts):
        trace = rollout.trace("random", number)
        assert (rollout.reward, trace.outcome, rollout.failure) == (0.0, 0.0, None)
        assert len(trace.turns) == len(rollout.turn_spans) == 3
        assert {site.error_kind for site in find_sites(trace)} <= {"no_action", "repeated_failure"}
        assert len(find_sites(trace)) == 3
        spoken = [policy.tokens.text(rollout.completion_ids[a:b]) for a, b in rollout.turn_spans]
        assert spoken == [trace.messages[turn.start]["content"] for turn in trace.turns]


def test_work_that_was_not_handed_in_is_graded_when_the_room_is_used_up(policy, environment):
    scripts = [[f"<tool_call>{SOLVE}</tool_call>", *["I think."] * 99]]
    opened = environment(completion_tokens=4000)
    (rollout,) = roll_out(
        policy.model,
        policy.tokens,
        opened,
        both(opened)[:1],
        max_turn_tokens=2000,
        temperature=1.0,
        sampler=Writing(policy.tokens, scripts, 1),
    )
    assert rollout.truncated and rollout.reward == 1.0


def test_a_statement_that_does_not_fit_is_refused(policy, folders, tmp_path):
    policy.save(tmp_path / "model")
    with pytest.raises(UsageError, match="do not fit the 16384 of"):
        rollout_command(folders[0].folder, run=tmp_path / "run", model=str(tmp_path / "model"), max_tokens=16000)


@pytest.mark.parametrize("answer, turns", [("agent", 2), ("definition", 2)])
def test_the_command_keeps_traces_and_sampled_ids(policy, folders, tmp_path, capsys, answer, turns):
    policy.save(tmp_path / "model")
    rollout_command(
        folders[0].folder, run=tmp_path / "run", model=str(tmp_path / "model"), rollouts=3, concurrency=2, steps=2,
        answer=answer, tries=2, max_turn_tokens=16, max_tokens=400, json=True,
    )  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert (told["traces"], told["attempts"], told["solved"], told["ended"]) == (3, 3, 0, {"steps": 3})
    run = Run.open(tmp_path / "run")
    traces = run.stage("ingestion").read(Trace)
    rows = list(read_records(run.path / ROLLOUT_TOKENS, TokenizedTrace))
    assert [row.trace_id for row in rows] == [trace.trace_id for trace in traces]
    assert len({row.ids for row in rows}) == 3
    for row, trace in zip(rows, traces, strict=True):
        assert row.tokenizer == policy.tokenizer_fingerprint and len(row.turn_spans) == len(trace.turns) == turns
        said = [policy.tokens.text(row.ids[start:end]) for start, end in row.turn_spans]
        assert said == [trace.messages[turn.start]["content"] for turn in trace.turns]
    assert (run.config.environment.name, run.config.environment.answer) == ("code", answer)


@pytest.mark.parametrize("name, solved", [("gold", 2), ("nop", 0)])
def test_scripts_answer_with_a_block(folders, tmp_path, capsys, name, solved):
    rollout_command(
        folders[0].folder.parent, run=tmp_path / "run", scripted=name, answer="definition", concurrency=1, json=True
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["traces"], told["solved"], told["turns"]) == (2, solved, 2 if solved else 6)


@pytest.mark.skipif(not os.environ.get("RECOMPOSE_SMOLLM2"), reason="RECOMPOSE_SMOLLM2=1 lets SmolLM2 play: minutes")
@pytest.mark.parametrize("answer", ["agent", "definition"])
def test_smollm2_plays_through_rollout_func(environment, answer):
    if not folder_of("smollm2").exists():
        pytest.skip("recompose model fetch smollm2")
    opened = environment(answer=answer, max_steps=3, completion_tokens=800)
    smollm2 = load_policy("smollm2", opened, 0)
    columns = roll(smollm2, opened, both(opened), TrainingConfig(max_turn_tokens=160, temperature=0.7))
    assert columns["step_failure"] == [None] * 2
    for trace, reward in zip(columns["trace"], columns["episode_reward"], strict=True):
        print(trace.task_id, "reward", reward, "turns", len(trace.turns))
        print("sites", [(site.turn, site.error_kind) for site in find_sites(trace)])
        print(*(message["content"] for message in trace.messages[2:]), sep="\n---\n")
    assert torch.isfinite(torch.tensor([value for row in columns["logprobs"] for value in row])).all()
