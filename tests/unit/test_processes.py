"""Who a process is, by its environment, and what several processes refuse before they train."""

import errno
import json
from contextlib import nullcontext

import pytest

from composer_replication.cli import main as command
from composer_replication.config import Config
from composer_replication.errors import MAKE_ROOM, ToldElsewhereError, UsageError
from composer_replication.training import processes
from composer_replication.training.backends.trl import checkpoints
from composer_replication.training.planning.refusals import refuse_other_shards, refuse_what_processes_cannot_do
from composer_replication.training.train import last_checkpoint


@pytest.fixture
def place(monkeypatch):
    def put(**variables):
        for name in (
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "ACCELERATE_USE_FSDP",
            "FSDP_VERSION",
            "ACCELERATE_USE_DEEPSPEED",
        ):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    put()
    return put


def test_without_a_launcher_there_is_one_process(place):
    assert (processes.number(), processes.rank(), processes.speaker(is_shared=True)) == (1, 0, "")
    place(WORLD_SIZE="4", RANK="3")
    assert (processes.number(), processes.rank(), processes.speaker(is_shared=True)) == (1, 0, "")


def test_before_they_meet_the_first_process_of_each_machine_speaks(place):
    told = []
    for rank, local in ((0, 0), (1, 1), (2, 0), (3, 1)):
        place(WORLD_SIZE="4", RANK=str(rank), LOCAL_RANK=str(local))
        told.append(processes.speaker(is_shared=True))
    assert told == ["", None, "", None]
    assert processes.speaker(is_shared=False) == "process 3: "


@pytest.mark.parametrize(
    ("error", "rank", "have_met", "said"),
    [
        (UsageError("no", "go"), 0, True, "error: no; next: go\n"),
        (UsageError("no", "go"), 1, False, ""),
        (OSError("full"), 1, False, "error: process 1: full; next: check the path and its permissions\n"),
        (OSError(errno.ENOSPC, "No space"), 1, False, f"error: process 1: [Errno 28] No space; next: {MAKE_ROOM}\n"),
        (UsageError("no", "go"), 1, True, "error: process 1: no; next: go\n"),
        (OSError("full"), 1, True, "error: process 1: full; next: check the path and its permissions\n"),
        (ToldElsewhereError(2), 1, True, ""),
    ],
)
def test_an_error_is_told_by_one_process_unless_it_is_its_own(place, monkeypatch, capsys, error, rank, have_met, said):
    def fail(words, **options):
        raise error

    place(WORLD_SIZE="2", RANK=str(rank), LOCAL_RANK=str(rank))
    monkeypatch.setattr(command, "app", fail)
    monkeypatch.setattr(command, "_let_verbs_speak", lambda words: None)
    monkeypatch.setattr(processes, "have_met", lambda: have_met)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == getattr(error, "exit_code", 1)
    assert capsys.readouterr().err == said


def test_one_process_does_the_main_ones_work_and_keeps_its_errors(place):
    assert processes.by_main(lambda: 7) == 7
    with pytest.raises(KeyError), processes.all_or_none():
        raise KeyError


def config(**sections):
    return Config.model_validate(sections)


def test_stored_traces_alone_are_for_one_process():
    offline = config(training={"rollouts": False})
    refuse_what_processes_cannot_do(offline, 1, is_sharded=False)
    refuse_what_processes_cannot_do(config(), 2, is_sharded=False)
    with pytest.raises(UsageError, match="one process; next: start it without accelerate launch"):
        refuse_what_processes_cannot_do(offline, 2, is_sharded=False)


def test_what_shared_weights_cannot_do_is_refused():
    accepted = config(training={"sdpo_from": "rollouts", "sdpo_require_acceptance": True})
    refuse_what_processes_cannot_do(accepted, 2, is_sharded=False)
    for possible in (config(), config(hardware={"lora_rank": 4})):
        refuse_what_processes_cannot_do(possible, 2, is_sharded=True)
    with pytest.raises(UsageError, match="require_acceptance"):
        refuse_what_processes_cannot_do(accepted, 2, is_sharded=True)


def test_groups_that_processes_would_tear_apart_are_refused():
    sampled_again = config(training={"dynamic_sampling_rounds": 1, "prompts_per_step": 3})
    refuse_what_processes_cannot_do(sampled_again, 3, is_sharded=False)
    with pytest.raises(UsageError, match="groups of 3 prompts would be torn apart by 2 processes"):
        refuse_what_processes_cannot_do(sampled_again, 2, is_sharded=False)


@pytest.mark.parametrize(
    ("variables", "is_sharded", "is_refused"),
    [
        ({}, False, False),
        ({"ACCELERATE_USE_FSDP": "true"}, False, True),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}, True, False),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, False, True),
    ],
)
def test_only_the_second_version_of_fsdp_shares_weights(place, variables, is_sharded, is_refused):
    place(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0", **variables)
    assert processes.is_sharded() == is_sharded
    with pytest.raises(UsageError, match="only FSDP2") if is_refused else nullcontext():
        refuse_other_shards()


def save(folder, step, ranks):
    for rank in ranks:
        checkpoints.save(folder / f"checkpoint-{step}", {}, rank, frozenset(), processes=2)


def test_a_checkpoint_is_finished_when_every_process_has_finished_it(place, tmp_path):
    place(WORLD_SIZE="2", RANK="0", LOCAL_RANK="0")
    save(tmp_path, 2, (0, 1))
    save(tmp_path, 4, (0,))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-2"
    save(tmp_path, 4, (1,))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-4"


def test_a_checkpoint_of_another_number_of_processes_is_refused(place, tmp_path):
    save(tmp_path, 2, (0, 1))
    assert json.loads((tmp_path / "checkpoint-2" / "composer-0.json").read_text()) == {"processes": 2}
    with pytest.raises(UsageError, match="made by 2 processes, and these are 1; next: use as many"):
        last_checkpoint(tmp_path)
