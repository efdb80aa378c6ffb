"""Code tasks inside TRL's own trainer: its tool loop plays them, and their grade is the reward."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys

import pytest
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.episodes.tools import TOOL_SCHEMAS
from composer_replication.environments.code.serving.trl_environment import (
    CallFailed,
    CodeTaskTools,
    code_task_environment,
    rows,
)
from composer_replication.errors import UsageError
from composer_replication.sites import find_sites
from composer_replication.training.backends.trl.environment_traces import trace_of_messages
from tests.distributed.toy_environment import DONE, MALFORMED, call, giving, new_qwen_like_model, qwen_like_tokenizer
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task

SCRIPTS = {
    "solves": [
        call("read_file", path=SPANS),
        call("write_file", path=SPANS, content=SPANS_GOLD),
        call("submit"),
        DONE,
    ],
    "solves and says nothing": [call("write_file", path=SPANS, content=SPANS_GOLD), DONE],
    "errs": [
        call("read_file", path="nope.py"),
        call("edit_file", path=SPANS, old="nothing", new=""),
        call("submit"),
        DONE,
    ],
    "malformed": [MALFORMED],
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trl")
    write_sample_task(folder / "task")
    return folder


def test_a_scripted_policy_completes_episodes(tasks, tmp_path):
    """One step of the real trainer, with the real grader. Two rollouts per script; only the loss is left out."""
    (row,) = rows(tasks)
    dataset = [
        {**row, "prompt": [row["prompt"][0], {"role": "user", "content": f"This is row {place}. "}]}
        for place in range(len(SCRIPTS))
    ]
    seen = []

    def watch(completions, environments, **columns):
        seen.extend(zip(completions, [environment.get_reward() for environment in environments], strict=True))
        return [0.0] * len(completions)

    trainer = giving(GRPOTrainer, list(SCRIPTS.values()))(
        model=new_qwen_like_model(),
        processing_class=qwen_like_tokenizer(),
        args=GRPOConfig(
            output_dir=str(tmp_path), per_device_train_batch_size=2 * len(SCRIPTS), num_generations=2, max_steps=1,
            max_completion_length=4096, use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1,
            disable_tqdm=True, shuffle_dataset=False, gradient_checkpointing=False, learning_rate=0.0,
        ),
        reward_funcs=watch,
        train_dataset=Dataset.from_list(dataset),
        environment_factory=code_task_environment(tasks, limits=SessionLimits(steps=20)),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer._compute_loss = lambda model, inputs: 0.0 * next(model.parameters()).sum()
    assert sorted(tool.__name__ for tool in trainer.tools) == sorted(
        schema["function"]["name"] for schema in TOOL_SCHEMAS
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rewards/CodeTaskTools/mean"] == pytest.approx(0.5)
    assert [reward for _, reward in seen] == [1.0] * 4 + [0.0] * 4
    traces = [trace_of_messages([], completion) for completion, _ in seen[::2]]
    kinds = [[site.error_kind for site in find_sites(trace)] for trace in traces]
    assert kinds == [[], [], ["file_not_found", "edit_mismatch"], []]
    assert "raise NotImplementedError" in traces[0].messages[1]["content"]


def test_the_statement_becomes_part_of_the_prompt(tasks, no_grading):
    (row,) = rows(tasks)
    environment = code_task_environment(tasks)()
    assert environment.reset(**row) == "Write `merge` and `gaps` in spanbook/spans.py."
    assert environment.get_reward() == 0.0


def test_rollouts_are_apart_and_a_reset_starts_afresh(tasks, no_grading):
    (row,) = rows(tasks)
    make = code_task_environment(tasks)
    one, other = make(), make()
    one.reset(**row)
    other.reset(**row)
    one.write_file(SPANS, SPANS_GOLD)
    assert "raise NotImplementedError" in other.read_file(SPANS)
    assert (one.get_reward(), other.get_reward()) == (1.0, 0.0)
    one.reset(**row)
    assert "raise NotImplementedError" in one.read_file(SPANS)
    assert one.get_reward() == 0.0


def test_a_call_that_fails_raises_what_the_policy_reads(tasks, no_grading):
    environment = code_task_environment(tasks)()
    with pytest.raises(CallFailed, match="was not reset"):
        environment.bash("ls")
    environment.reset(**rows(tasks)[0])
    with pytest.raises(CallFailed, match="Exit code 3"):
        environment.bash("exit 3")
    environment.submit()
    with pytest.raises(CallFailed, match="The task is over"):
        environment.bash("ls")
    with pytest.raises(UsageError, match="task_id"):
        environment.reset(prompt="x")


def test_the_factory_travels_to_other_processes(tasks, tmp_path):
    factory = tmp_path / "factory"
    factory.write_bytes(pickle.dumps(code_task_environment(tasks, limits=SessionLimits(steps=3))))
    code = (
        "import pickle, sys; environment = pickle.load(open(sys.argv[1], 'rb'))()\n"
        "print(environment.reset(task_id='spanbook-merge'), environment.bash('echo there'))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(factory)], capture_output=True, text=True, check=True)
    assert done.stdout == "Write `merge` and `gaps` in spanbook/spans.py. there\n"


def test_tools_are_described_as_everywhere_else():
    """The methods of the class and the schemas of other adapters are one list."""
    for schema in TOOL_SCHEMAS:
        function = schema["function"]
        method = getattr(CodeTaskTools, function["name"])
        named = list(inspect.signature(method).parameters)[1:]
        assert named == list(function["parameters"]["properties"]), function["name"]
        assert function["description"].split(".")[0] in method.__doc__
    assert json.dumps(TOOL_SCHEMAS)
