"""Execution feedback as the hint in `definition` mode, its sham, and imitation: a random model, real sandboxes."""

from __future__ import annotations

import json
from itertools import product

import pytest
import torch
from accelerate import Accelerator

from composer_replication.config import Config, SamplingConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.grading.grader import GradingProcesses
from composer_replication.environments.code.tasks.task import Grade
from composer_replication.errors import UsageError
from composer_replication.evaluation import probe
from composer_replication.evaluation.probe import probe_hints
from composer_replication.progress import Silent
from composer_replication.sites import find_sites
from composer_replication.training.backends.trl.engine import AccelerateEngine
from composer_replication.training.backends.trl.trainer import imitating
from composer_replication.training.checking.gap_probe import probe_gap
from composer_replication.training.lessons import feedback
from composer_replication.training.lessons.feedback import TOLD, FeedbackHinter
from composer_replication.training.planning.refusals import refuse_for_backend, refuse_what_would_do_nothing
from composer_replication.training.train import train
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task
from tests.unit.test_code_environment import STATEMENT, WRONG

NO_GAPS = "```python\ndef merge(spans):\n    return spans\n```"
FEEDBACK = {"name": "sdpo", "source": "rollouts", "weight": 1.0, "teacher": "live", "hint": "feedback"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("feedback"), code_task().task
    told = [("one", STATEMENT), ("two", f"{STATEMENT}\nNames stay as they are.")]
    return [
        write_sample_task(folder / name, task=known.model_copy(update={"task_id": name, "statement": text}))
        for name, text in told
    ]


def settings(*channels, **changes):
    return Config.model_validate(
        {
            "seed": 3,
            "environment": {
                "name": "code", "tasks": ["here"], "answer": "definition", "tries": 1, "heldout_share": 0.0,
                "completion_tokens": 64, "concurrency": 2,
            },
            "training": {
                "steps": 1, "prompts_per_step": 2, "group_size": 2, "max_turn_tokens": 8, "learning_rate": 1e-2,
                **changes,
            },
            "channels": channels,
            "hardware": {"lora_rank": 2},
        }
    )  # fmt: skip


def steps_of(folder):
    logged = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in logged if "reward" in line]


@pytest.fixture
def environment(folders, monkeypatch):
    def grade(self, task, submission, backend):
        return Grade(float(submission.written.get(SPANS) == SPANS_GOLD.encode()), (), (), ())

    monkeypatch.setattr(GradingProcesses, "grade", grade)
    return CodeEnvironment(folders, settings().environment)


@pytest.fixture
def policy(new_chatml_policy):
    return new_chatml_policy()


@pytest.fixture
def failed(environment):
    traces = []
    for task_id, block in (("one", WRONG), ("two", NO_GAPS)):
        episode = environment.start(environment.task(task_id))
        episode.step(block)
        traces.append(episode.trace("policy", 0))
        episode.close()
    return traces


def test_the_hint_is_what_the_visible_tests_said_of_this_attempt(failed, folders):
    (first,), (second,) = FeedbackHinter(300)(failed)
    assert "assert merge([(6, 9), (1, 3), (2, 7)]) == [(1, 9)]" in first.hint and "did not define `gaps`" in second.hint
    hidden = {test.partition("::")[2].partition("[")[0] for test in folders[0].code_task.hidden_tests}
    assert hidden and not [name for name in hidden - {"test_merge_overlapping"} if name in first.hint + second.hint]
    assert len(FeedbackHinter(20)(failed)[0][0].hint) < len(first.hint)


def test_the_sham_is_what_was_said_of_another_task(failed):
    (first,), (second,) = FeedbackHinter(300, sham=True)(failed)
    assert "did not define `gaps`" in first.hint and "[(1, 9)]" in second.hint
    assert FeedbackHinter(300, sham=True)(failed[:1]) == [[]]


def test_the_sham_does_not_say_the_same_in_the_words_of_another_task(failed, environment):
    wordless = []
    for task_id in ("one", "two"):
        episode = environment.start(environment.task(task_id))
        episode.step("I do not know.")
        wordless.append(episode.trace("policy", 1))
        episode.close()
    (one,), (two,) = FeedbackHinter(300)(wordless)
    assert one.hint == two.hint
    (sham,), *_ = FeedbackHinter(300, sham=True)([*wordless, failed[1]])
    assert "did not define `gaps`" in sham.hint
    assert FeedbackHinter(300, sham=True)(wordless) == [[], []]


def name_tasks_in_errors(monkeypatch):
    """A random policy fails at both tasks in the same way; the name of the task makes what it is told differ."""

    def named(trace):
        return [
            site.model_copy(update={"error_message": f"{trace.task_id}: {site.error_message}"})
            for site in find_sites(trace)
        ]

    monkeypatch.setattr(feedback, "find_sites", named)


@pytest.mark.parametrize("sham", [False, True])
def test_training_distils_from_feedback(environment, policy, tmp_path, monkeypatch, sham):
    name_tasks_in_errors(monkeypatch)
    config = settings({"name": "grpo"}, {**FEEDBACK, "sham": sham, "require_disfavour": False}, gradient_ratio_cap=None)
    train(policy, config, environment, [], tmp_path, Silent())
    assert [line["channel/sdpo"] > 0 and line["grad_norm"] > 0 for line in steps_of(tmp_path)] == [True]


def test_the_probe_tells_what_training_would_tell(environment, policy, monkeypatch):
    """Also under an arm with sham feedback: hint and sham are both measured, and neither is a written hint."""
    name_tasks_in_errors(monkeypatch)
    config = settings({"name": "grpo"}, {**FEEDBACK, "sham": True})
    generator = torch.Generator().manual_seed(0)
    sites = probe._error_sites(policy, config, environment, 2, generator, Silent())
    begin = TOLD.partition("{")[0]
    for site in sites:
        hint, sham = (policy.tokens.text(site.contexts[name]) for name in ("hint", "sham"))
        own = site.rolled.trace.task_id
        other = "two" if own == "one" else "one"
        assert f"{begin}{own}: " in hint and f"{begin}{other}: " in sham
    tried = probe_hints(policy, config, environment, sites=2, tries=1)
    assert sorted((one.site, one.condition) for one in tried) == sorted(product(range(2), probe.CONDITIONS))
    assert {(one.accepted, one.right) for one in tried} == {(0.0, 0.0)}


def test_the_self_check_looks_at_what_training_would_tell(environment, policy, monkeypatch):
    """Sham feedback is that of another task: where there is none, there is nothing to tell."""
    name_tasks_in_errors(monkeypatch)
    config = settings({"name": "grpo"}, {**FEEDBACK, "sham": True})
    one, two = (environment.task(name) for name in ("one", "two"))
    assert probe_gap(policy, config, environment, [one, one]).sites == 0
    found = probe_gap(policy, config, environment, [one, two])
    assert found.sites == 2 and found.plain_divergence < 1e-5 < found.hinted_divergence


def test_imitation_pulls_at_accepted_answers_alone():
    logits = torch.zeros(4, 3, requires_grad=True)
    said = torch.tensor([0, 1, 2, 0])
    alone = AccelerateEngine(Accelerator(cpu=True))
    advantages = imitating([1.0, 0.9, 1.0, 0.0], torch.zeros(4), alone)
    assert advantages.tolist() == [2.0, 0.0, 2.0, 0.0]
    assert imitating([0.0, 0.9], torch.zeros(2), alone).tolist() == [0.0, 0.0]
    logprobs = logits.log_softmax(-1)[torch.arange(4), said]
    # TRL's surrogate on the policy's own samples: the ratio is 1 and has the gradient of the log-probability.
    (surrogate,) = torch.autograd.grad(-((logprobs - logprobs.detach()).exp() * advantages).mean(), logits)
    likelihood = torch.nn.functional.cross_entropy(logits[[0, 2]], said[[0, 2]])
    assert torch.allclose(surrogate, torch.autograd.grad(likelihood, logits)[0])


def test_only_imitation_learns_where_all_answers_are_accepted(environment, policy, tmp_path, monkeypatch):
    monkeypatch.setattr(GradingProcesses, "grade", lambda *asked: Grade(1.0, (), (), ()))
    pulls = {}
    for name in ("group", "accepted"):
        train(policy, settings({"name": "grpo", "advantage": name}), environment, [], tmp_path / name, Silent())
        (pulls[name],) = [line["grad_norm"] > 0 for line in steps_of(tmp_path / name)]
    assert pulls == {"group": False, "accepted": True}


def test_what_would_do_nothing_is_refused():
    with pytest.raises(UsageError, match="hint of the channel sdpo does nothing without source"):
        refuse_what_would_do_nothing(settings({"name": "grpo"}, {"name": "sdpo", "hint": "feedback"}))
    with pytest.raises(UsageError, match="sibling_hints of the channel sdpo does nothing with hint"):
        refuse_what_would_do_nothing(settings({"name": "grpo"}, {**FEEDBACK, "sibling_hints": "outcome"}))
    sham = settings({"name": "grpo"}, {**FEEDBACK, "sham": True}, prompts_per_step=1)
    with pytest.raises(UsageError, match=r"sham of the channel sdpo finds no other task.*next: set training.prompts_"):
        refuse_what_would_do_nothing(sham)
    two = settings({"name": "grpo"}, {**FEEDBACK, "sham": True})
    refuse_what_would_do_nothing(two)
    with pytest.raises(UsageError, match=r"next: set training.prompts_per_step, 2 or more for each process"):
        refuse_what_would_do_nothing(two, processes=2)
    served = settings({"name": "grpo"}, {**FEEDBACK, "sham": True}, token_weights=False)
    served = served.model_copy(update={"sampling": SamplingConfig(server="http://127.0.0.1:1")})
    with pytest.raises(UsageError, match=r"sham of the channel sdpo finds no other task.*next: use --backend trl"):
        refuse_for_backend(served, "trl_async", 1)
    imitation = {"name": "grpo", "advantage": "accepted"}
    with pytest.raises(UsageError, match="advantage of the channel grpo does nothing with --backend verl"):
        refuse_for_backend(settings(imitation), "verl", 1)
    with pytest.raises(UsageError, match="advantage of the channel grpo does nothing without rollouts"):
        refuse_what_would_do_nothing(Config.model_validate({"training": {"rollouts": False}, "channels": [imitation]}))
