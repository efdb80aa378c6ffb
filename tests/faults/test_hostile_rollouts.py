"""A run goes on whatever an attempt leaves behind: each is graded with 0, and what was written can be read again.

`RECOMPOSE_FAULTS=full` (`make faults`) plays all twenty kinds; `make test` those that once ended a run.
"""

from __future__ import annotations

import os

import pytest

from composer_replication.cli.common import run_one_stage
from composer_replication.environments.code.episodes import session as session_module
from composer_replication.environments.untrusted import encodable, read_json
from composer_replication.monitor.stage import monitor_run, read_verdicts
from composer_replication.progress import Silent
from composer_replication.records import Trace, canonical_json
from composer_replication.stages.rollouts import attempts_folder

from . import hostile_rollouts
from .hostile_rollouts import hostile_replies, play

FULL = os.environ.get("RECOMPOSE_FAULTS") == "full"
ENDED_A_RUN = ["deep lists", "deep objects", "half a surrogate pair", "names on the wire", "file names"]


def test_every_kind_is_graded_and_the_run_ends_well(tmp_path):
    kinds = list(hostile_replies()) if FULL else ENDED_A_RUN
    run = play(tmp_path, kinds)
    counts = run.stage("ingestion").counts
    assert (counts["attempts"], counts["mean_reward"], counts["ended"]) == (len(kinds), 0.0, {"submitted": len(kinds)})
    run_one_stage(run.path, "sites", False)
    monitor_run(run, Silent())
    hard = {verdict.task_id for verdict in read_verdicts(run) if verdict.hard}
    assert hard >= {"deep lists", "deep objects", "half a surrogate pair"}


def test_there_are_twenty_kinds():
    assert len(hostile_replies()) == 20


def test_a_reader_that_breaks_costs_one_attempt_which_a_resumed_run_keeps(tmp_path, monkeypatch):
    """What no test foresaw: an error of ours while an attempt is graded."""
    graded: list[str] = []

    def grade(task, submission, backend):
        graded.append(task.code_task.task.task_id)
        raise RecursionError("too deep \ud800")

    def interrupted(run, plan, settings, player, progress):
        player(attempts_folder(run), progress)
        raise KeyboardInterrupt

    monkeypatch.setattr(session_module, "_grade", grade)
    monkeypatch.setattr(hostile_rollouts, "hostile_replies", lambda: {"first": [], "second": []})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(hostile_rollouts, "collect", interrupted)
        play(tmp_path, ["first", "second"])
    run = play(tmp_path, ["first", "second"])
    assert sorted(graded) == ["first", "second"]
    assert run.stage("ingestion").counts["ended"] == {"broken": 2}
    assert [trace.outcome for trace in run.stage("ingestion").read(Trace)] == [0.0, 0.0]


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 300_000, b"[" * 66 + b"]" * 66, b'{"a":' * 1000 + b"1" + b"}" * 1000, b'"\\ud800"', b"NaN", b"-Infinity",
        b"1e999", b"9" * 5000, b"\xff", b'"\xed\xa0\x80"', b"", b"\x00", b"\xff\xfe1\x00", b'{"a": 1} {"a": 2}',
    ],
)  # fmt: skip
def test_what_is_no_plain_json_is_one_kind_of_error(content):
    with pytest.raises(ValueError, match=r"^no JSON"):
        read_json(content)


@pytest.mark.parametrize(
    "content", [b"[" * 65 + b"]" * 65, b'{"a": "\\ud83d\\ude00\\u0000"}', b"[123456789012345678901]"]
)
def test_plain_json_can_be_written_and_read_again(content):
    value = read_json(content)
    assert read_json(canonical_json(value).encode()) == value


def test_text_without_bytes_of_its_own_is_replaced():
    assert encodable("a\ud800b\U0001f600") == "a?b\U0001f600"
