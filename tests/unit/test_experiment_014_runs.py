"""The runner of experiment 014: segments that travel, what is measured, and what the band is. A small random model."""

from __future__ import annotations

import subprocess
import tomllib
from itertools import repeat
from pathlib import Path

import pytest
import torch

from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.protocol import Log, LoggedTurn
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.training.metrics import StepLines
from shared.code_runs import arm, memory
from shared.code_runs import queue as code_queue
from shared.code_runs.plan import Plan, read_plan
from shared.result_lines import read_result, write_result
from shared.runner import carry
from shared.runner.jobs import Experiment
from tests.hacks.sample_task import SPANS_GOLD, code_task, write_sample_task
from tests.unit.test_code_environment import STATEMENT

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "014-real-code"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("pool"), code_task().task
    for repository in ("one", "two", "inflection"):
        changes = {"task_id": f"task-{repository}", "statement": f"{STATEMENT}\nThis is {repository}."}
        place = folder / repository / "tasks" / "only"
        write_sample_task(place, task=known.model_copy(update=changes), repository=repository)
        (folder / repository / "manifest.json").write_text("{}")
    return sorted(folder.iterdir())


@pytest.fixture
def plan(new_chatml_policy, no_grading, monkeypatch):
    monkeypatch.setattr(arm, "loaded", lambda *asked: new_chatml_policy())

    def made(results):
        raw = tomllib.loads((EXPERIMENT / "plan.toml").read_text())
        raw |= {"segment_steps": 2, "seeds": [501]}
        raw["base"]["training"] |= {
            "steps": 4, "prompts_per_step": 2, "group_size": 2, "max_turn_tokens": 6, "checkpoint_every": 1,
        }  # fmt: skip
        raw["base"]["hardware"] = {"lora_rank": 2, "rollouts_per_device": 2}
        raw["base"]["environment"] |= {"completion_tokens": 64, "concurrency": 2}
        raw["measuring"] |= {"end_samples": 1, "way_samples": 1, "start_parts": 1}
        raw["tuning"] |= {"arms": [], "rates": []}
        for own in raw["arms"].values():
            own["training"] = {"learning_rate": 1e-2}
        raw.pop("tuning")
        found = Plan(raw, results)
        rates = {"one": 2, "two": 3, "inflection": 3}
        lines = [
            {"line": "task", "task_id": f"task-{name}", "repository": name,
             "passed": [1] * solved + [0] * (32 - solved), "rewards": [1] * solved}
            for name, solved in rates.items()
        ]  # fmt: skip
        write_result(found.file("start-0"), lines)
        return found

    return made


def weights(state):
    from safetensors.torch import load_file

    files = [state / "scratch" / "checkpoint-4" / f"{name}.safetensors" for name in ("adapter_model", "composer-0")]
    return {name: tensor.tolist() for file in files for name, tensor in load_file(file).items()}


class Ended(BaseException):
    """As a signal ends a process: nothing is cleaned up."""


def ended(*given):
    raise Ended


class EndsInTheMiddle(arm.StopsAt):
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 3:
            raise Ended


def test_a_run_goes_on_elsewhere_and_after_it_was_ended_to_the_same_bits(plan, tasks, tmp_path, monkeypatch):
    here, there, straight = (plan(tmp_path / name / "results") for name in ("here", "there", "straight"))
    (run,) = [run for run in here.runs() if run.arm == "sdpo"]
    states = {name: code_queue.state_of(tmp_path / name, run.name) for name in ("here", "there", "straight")}
    arm.run_segment(here, run, 2, tasks, states["here"], here.file("sdpo-501@2"))
    monkeypatch.setattr(code_queue, "read_plan", lambda path, results: here)
    experiment = Experiment(EXPERIMENT, EXPERIMENT / "plan.toml", tmp_path / "here", here.results, "")
    (tmp_path / "state.001").write_bytes(b"of the slice before")
    assert carry.pack([experiment], tmp_path / "here", tmp_path, piece_mib=1) == 1
    assert not (tmp_path / "state.001").exists()
    with (tmp_path / "state.000").open("rb") as packed:
        names = subprocess.run(["tar", "-xvf", "-", "-C", str(tmp_path / "there")], stdin=packed, capture_output=True)
    assert b"optimizer.pt" in names.stdout and b"tokenizer" not in names.stdout
    with monkeypatch.context() as patched, pytest.raises(Ended):
        patched.setattr(arm, "StopsAt", EndsInTheMiddle)
        arm.run_segment(there, run, 4, tasks, states["there"], there.file("sdpo-501@4"))
    with monkeypatch.context() as patched, pytest.raises(Ended):
        patched.setattr(arm, "outcomes", ended)
        arm.run_segment(there, run, 4, tasks, states["there"], there.file("sdpo-501@4"))
    arm.run_segment(there, run, 4, tasks, states["there"], there.file("sdpo-501@4"))
    assert max(line["step"] for line in StepLines(states["there"] / "metrics.jsonl").read()) == 4
    arm.run_segment(straight, run, 4, tasks, states["straight"], straight.file("sdpo-501@4"))
    assert weights(states["there"]) == weights(states["straight"])
    policies, averages = (
        [tensor for name, tensor in weights(states["there"]).items() if name.startswith(start)]
        for start in ("base_model", "teacher/")
    )
    assert len(policies) == len(averages) and policies != averages
    first, second = (next(iter(read_result(each))) for each in (here.file("sdpo-501@2"), there.file("sdpo-501@4")))
    assert first["adapters_before"] is None and first["adapters_after"] == second["adapters_before"]
    lines = list(read_result(there.file("sdpo-501@4")))
    assert [line["step"] for line in lines if line["line"] == "step"] == [3, 4]
    assert all(line["channel/sdpo"] > 0 for line in lines if line["line"] == "step")
    rolled = [
        [line["rollouts"] for line in read_result(plan.file("sdpo-501@4")) if line["line"] == "step"]
        for plan in (there, straight)
    ]
    assert rolled[0] == rolled[1][-2:] and all(len(of_step) == 4 for of_step in rolled[0])
    assert any(hinted for line in lines if line["line"] == "step" for _, _, hinted in line["rollouts"])
    (measured,) = [line for line in lines if line["line"] == "task"]
    assert len(measured["said"]) == 1 and len(first["code_sha256"]) == 64
    assert 0 < first["adapters_rms"]["lora_B"] < second["adapters_rms"]["lora_B"]
    assert any(
        turn["hint"]
        for line in read_result(here.file("sdpo-501@2"))
        if line["line"] == "sample"
        for turn in line["turns"]
    )
    assert measured["repository"] == "inflection" and len(measured["passed"]) == 1 and measured["covered"]


class Noting(CodeEnvironment):
    """Says of each episode of a step how many turns it had."""

    def observe(self, episodes, traces):
        self.noted = {"turns": [len(trace.turns) for trace in traces], "tasks": [one.task.task_id for one in episodes]}


def test_what_an_environment_notes_of_each_rollout_is_kept_with_it(plan, tasks, tmp_path):
    here = plan(tmp_path / "results")
    here.raw["environment"] = f"{__name__}:Noting"
    (run,) = [run for run in here.runs() if run.arm == "grpo"]
    state = code_queue.state_of(tmp_path, run.name)
    for end in (2, 4):
        arm.run_segment(here, run, end, tasks, state, here.file(f"grpo-501@{end}"))
    steps = [line for end in (2, 4) for line in read_result(here.file(f"grpo-501@{end}")) if line["line"] == "step"]
    assert [line["step"] for line in steps] == [1, 2, 3, 4] and all(line["turns"] == [1] * 4 for line in steps)
    assert all(line["tasks"] == [task for task, _, _ in line["rollouts"]] for line in steps)


def test_the_start_is_measured_before_any_run(plan, tasks, tmp_path):
    here = plan(tmp_path)
    here.raw["measuring"] |= {"start_samples": 2, "before_samples": 1}
    arm.measure_start(here, tasks, 0, here.file("start-0"))
    arm.measure_before(here, tasks, here.file("before"))
    about, *measured = read_result(here.file("start-0"))
    assert about["left_out"] == {} and {line["repository"] for line in measured} == {"one", "two", "inflection"}
    assert [line["repository"] for line in list(read_result(here.file("before")))[1:]] == ["inflection"]


def test_a_run_whose_state_is_gone_begins_anew(plan, tmp_path):
    here = plan(tmp_path / "results")
    for name in ("grpo-501@2", "sham-501@2", "sham-501@4"):
        write_result(here.file(name), [])
    code_queue.begin_anew(here, tmp_path / "work")
    assert not here.file("grpo-501@2").exists() and here.file("sham-501@4").exists()
    assert len(list((tmp_path / "results" / "orphans").iterdir())) == 1


def checkpoint(state, step):
    folder = state / "scratch" / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "composer-0.safetensors").touch()


def test_a_state_that_is_further_than_the_results_is_not_taken_for_them(plan, tmp_path):
    here = plan(tmp_path / "results")
    behind, at_it, lost = (
        code_queue.state_of(tmp_path / "work", name) for name in ("grpo-501", "sdpo-501", "sham-501")
    )
    for state, step in ((behind, 2), (at_it, 4), (lost, 4)):
        checkpoint(state, step)
    for name in ("grpo-501@2", "sdpo-501@2"):
        write_result(here.file(name), [{"line": "run", "stopped": None}])
    code_queue.begin_anew(here, tmp_path / "work")
    assert here.file("grpo-501@2").exists() and here.file("sdpo-501@2").exists()
    assert behind.exists() and at_it.exists() and not lost.exists()


def test_a_run_that_a_watchdog_ended_is_measured_at_its_last_checkpoint_and_not_begun_anew(
    plan, tasks, tmp_path, monkeypatch
):
    here = plan(tmp_path / "results")
    (run,) = [run for run in here.runs() if run.arm == "grpo"]
    state = code_queue.state_of(tmp_path, run.name)
    arm.run_segment(here, run, 2, tasks, state, here.file("grpo-501@2"))

    def breaks(policy, *arguments):
        for weight in policy.model.parameters():
            weight.data.fill_(float("nan"))
        raise RecomposeError("loss is not a finite number", "recompose train")

    monkeypatch.setattr(arm, "train", breaks)
    arm.run_segment(here, run, 4, tasks, state, here.file("grpo-501@4"))
    first, second = (next(iter(read_result(here.file(f"grpo-501@{step}")))) for step in (2, 4))
    assert "finite" in second["stopped"]
    assert first["adapters_after"] == second["adapters_before"] == second["adapters_after"]
    here.raw["base"]["training"]["steps"] = 6
    code_queue.begin_anew(here, tmp_path)
    assert here.file("grpo-501@4").exists()


def test_the_band_is_of_the_start_and_of_one_side(plan, tmp_path):
    here = plan(tmp_path)
    assert here.band("train") == ["task-one", "task-two"] and here.band("test") == ["task-inflection"]
    write_result(
        here.file("start-0"),
        [
            {"line": "task", "task_id": name, "repository": name,
             "passed": [1] * solved + [0] * (32 - solved), "rewards": [1] * solved + [parts]}
            for name, solved, parts in [
                ("never", 0, 0), ("seldom", 1, 0), ("half", 16, 0), ("often", 8, 0), ("mostly", 17, 0), ("parts", 0, 1)
            ]
        ],
    )  # fmt: skip
    assert here.band("train") == ["seldom", "often", "half", "parts"]
    here.raw["fewest"]["train"] = 2
    assert here.band("train") == ["seldom", "often"]


def test_tasks_may_be_those_of_named_repositories_that_a_visible_test_covers(plan, tasks, tmp_path, monkeypatch):
    here = plan(tmp_path)
    here.raw["repositories"] = {"train": ["one"], "test": ["inflection"]}
    environment = arm.opened(here, here.config(), tasks)

    def asked():
        return [task.labels["repository"] for task in arm.asked_of(here, environment, *arm.SIDES)]

    assert here.heldout == ["inflection"] and asked() == ["one", "inflection"]
    monkeypatch.setattr(environment, "covering", lambda task: task.labels["repository"] == "one")
    here.raw["covered_only"] = True
    assert asked() == ["one"]


class Teaching(CodeEnvironment):
    """Has old logs, one answer over and over."""

    def old_logs(self, config, seed):
        (task,) = self.tasks("train")
        return repeat(Log(task.messages, [LoggedTurn(None, "the same answer", None)]))


def test_what_a_model_was_taught_is_where_all_begins(plan, new_chatml_policy, tasks, tmp_path, monkeypatch):
    here = plan(tmp_path)
    here.raw["environment"], here.raw["repositories"] = f"{__name__}:Teaching", {"train": ["one"], "test": ["two"]}
    here.raw["base"]["warmup"] = {"steps": 3, "batch_size": 2, "learning_rate": 1e-2, "optimizer": "adamw"}
    here.raw["seconds"]["taught"] = 1
    monkeypatch.undo()
    monkeypatch.setattr(arm, "untaught", lambda *asked: new_chatml_policy())
    arm.teach(here, tasks, here.file("taught"))
    (about,) = read_result(here.file("taught"))
    assert about["losses"][2] < about["losses"][0] and about["taught"] == here.taught_hash()
    environment = arm.opened(here, here.config(), tasks)
    taught = arm.loaded(here, here.config(), environment).model.state_dict()
    plain = new_chatml_policy().model.state_dict()
    assert taught.keys() == plain.keys() and any(not torch.equal(taught[name], plain[name]) for name in plain)
    (run,) = [run for run in here.runs() if run.arm == "grpo"]
    begun = []

    def noted(policy, *rest):
        begun.append(all(torch.equal(tensor, taught[name]) for name, tensor in policy.model.state_dict().items()))
        return trained(policy, *rest)

    trained = arm.train
    monkeypatch.setattr(arm, "train", noted)
    arm.run_segment(here, run, 2, tasks, code_queue.state_of(tmp_path, run.name), here.file("grpo-501@2"))
    assert begun == [True], "training begins with what was taught"
    head = next(read_result(here.file("grpo-501@2")))
    assert head["taught"] == here.taught_hash() and head["adapters_before"] is None
    jobs = {job.name: job for job in here.jobs()}
    assert next(iter(jobs)) == "taught" and jobs["start-0"].needs == jobs["before"].needs == ("taught",)
    here.file("start-0").unlink()
    code_queue.check_taught(here)
    (here.taught / "adapter_model.safetensors").write_bytes(b"of another warm-up")
    with pytest.raises(UsageError, match="was made with other adapters"):
        code_queue.check_taught(here)


def test_a_definition_from_memory_is_asked_without_a_statement(tasks):
    bare = arm.read_tasks(tasks[0])[0]
    _, asked = memory.Bare([bare], _definition()).task(bare.code_task.task.task_id).messages
    assert "def merge(spans):" in asked["content"] and "smallest list" not in asked["content"]
    gold = SPANS_GOLD[SPANS_GOLD.index("def merge") :]
    assert memory.likeness(bare, f"```python\n{gold}\n```") == 1.0 and memory.likeness(bare, "no") == 0.0
    other = "```python\ndef merge(spans):\n    return spans\n\n\ndef gaps(spans):\n    return None\n```"
    assert 0.0 < memory.likeness(bare, other) < 0.6


def _definition():
    from composer_replication.config import EnvironmentConfig

    return EnvironmentConfig(name="code", answer="definition", heldout_share=0.0)


def test_every_job_of_the_plan_can_be_configured(tmp_path):
    whole = read_plan(EXPERIMENT / "plan.toml", tmp_path)
    jobs = whole.jobs()
    assert len([job for job in jobs if "@30" in job.name]) == 16 and all(job.seconds < 540 for job in jobs)
    for run in whole.runs():
        if run.rate is not None:
            step = whole.steps_of(run)[-1]
            rewards = [float(run.rate == 2e-4)] if run.arm == "sdpo" else [0.5]
            write_result(whole.file(f"{run.name}@{step}"), [{"line": "task", "rewards": rewards}])
    assert {arm: whole.tuned_rate(arm) for arm in ("grpo", "sdpo")} == {"grpo": 1e-4, "sdpo": 2e-4}
    rates = {run.arm: whole.config(run).training.learning_rate for run in whole.runs() if run.rate is None}
    assert rates == {"grpo": 1e-4, "sdpo": 2e-4, "sham": 2e-4, "imitation": 1e-4}


def test_a_run_waits_for_the_tuning_of_its_own_rate_alone(tmp_path):
    jobs = {job.name: job for job in read_plan(EXPERIMENT / "plan.toml", tmp_path).jobs()}
    starts = {f"start-{part}" for part in range(4)}
    of_sdpo = {f"tune-sdpo-{rate}-500@10" for rate in ("1e-04", "2e-04", "4e-04")}
    assert set(jobs["sham-501@10"].needs) == set(jobs["sdpo-501@10"].needs) == starts | of_sdpo
    assert jobs["sham-501@20"].needs == ("sham-501@10",)


def test_the_archive_is_the_pool_that_the_plan_and_the_table_name(tmp_path):
    experiment = Experiment(EXPERIMENT, EXPERIMENT / "plan.toml", tmp_path / "work", tmp_path, "")
    (tmp_path / "work").mkdir()
    whole = read_plan(experiment.plan, tmp_path)
    code_queue.unpack_tasks(experiment, whole)
    table = tomllib.loads((EXPERIMENT / "repositories.toml").read_text())["repositories"]
    made = {folder.name: len(list(folder.glob("tasks/*"))) for folder in (tmp_path / "work" / "tasks").iterdir()}
    assert made == {f"{entry['name']}-{entry['version']}": entry["tasks"] for entry in table}
    sides = [whole.side(entry["name"]) for entry in table for _ in range(entry["tasks"])]
    assert {side: sides.count(side) for side in set(sides)} == {"train": 33, "validation": 8, "test": 31}
    whole.raw["tasks_sha256"] = "0" * 64
    with pytest.raises(UsageError, match="is not the file"):
        code_queue.unpack_tasks(experiment._replace(work=tmp_path / "other"), whole)
