"""The file audit of a sandbox: what commands touch is seen, what the host reads is not."""

from __future__ import annotations

import errno
import time

import pytest

from composer_replication.environments.code.episodes.session import TaskSession
from composer_replication.environments.code.sandbox import audit as auditing
from composer_replication.environments.code.sandbox.audit import audit_of
from composer_replication.environments.code.sandbox.interface import SandboxSpec
from composer_replication.environments.code.sandbox.open import available_backends, open_sandbox
from composer_replication.environments.code.tasks.task import Grade
from tests.hacks.sample_task import SPANS, SPANS_GOLD, SPANS_START, VISIBLE_FILE, write_sample_task

LOCAL = [name for name in ("bubblewrap", "landlock") if not available_backends()[name]]


@pytest.fixture
def tree(tmp_path):
    for path in ("a.txt", "deep/er/b.txt", ".hidden/c.txt"):
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_text(path)
    return tmp_path / "tree"


@pytest.fixture(params=LOCAL)
def sandbox(request, tree):
    with open_sandbox(SandboxSpec(tree=tree), request.param) as opened:
        yield opened


def seen_in(sandbox, *commands):
    audit = audit_of(sandbox)
    for number, command in enumerate(commands):
        with audit.step(number):
            sandbox.exec(["/bin/sh", "-c", command])
        sandbox.read("a.txt")
    audit.close()
    return audit


def test_commands_are_seen_and_the_host_is_not(sandbox):
    audit = seen_in(sandbox, "cat deep/er/b.txt; ls -R . ", "echo x >> a.txt; rm .hidden/c.txt", "true")
    assert [(event.act, event.path) for event in audit.seen if event.step == 0] == [("open", "deep/er/b.txt")]
    assert {(event.act, event.path) for event in audit.seen if event.step == 1} == {
        ("open", "a.txt"),
        ("write", "a.txt"),
        ("delete", ".hidden/c.txt"),
    }
    assert not [event for event in audit.seen if event.step == 2]
    assert (audit.opened_per_step, audit.events_lost, audit.unwatched_folders) == ([1, 1, 0], False, 0)


def test_new_and_moved_folders_are_watched(sandbox):
    audit = seen_in(
        sandbox, "mkdir -p new/er; echo x > new/er/d.txt", "cat new/er/d.txt", "mv new old", "cat old/er/d.txt"
    )
    told = {(event.step, event.act, event.path) for event in audit.seen}
    assert {(0, "create", "new/"), (0, "create", "new/er/d.txt"), (1, "open", "new/er/d.txt")} <= told
    assert {(2, "delete", "new/"), (2, "move", "old/"), (3, "open", "old/er/d.txt")} <= told


def test_the_same_act_counts_once_and_what_leaks_is_kept_first(sandbox, monkeypatch):
    monkeypatch.setattr(auditing, "MOST_PER_COMMAND", 2)
    audit = seen_in(sandbox, "cat a.txt a.txt deep/er/b.txt .hidden/c.txt; cat a.txt")
    assert [event.path for event in audit.seen] == [".hidden/c.txt", "a.txt"]
    assert (audit.left_out, audit.opened_per_step) == (1, [3])


def test_a_full_queue_is_said(sandbox):
    audit = audit_of(sandbox)
    with audit.step(0):
        folder = sandbox.workspace.work
        for _ in range(9000):
            (folder / "a.txt").read_bytes()
            (folder / "deep/er/b.txt").read_bytes()
    assert audit.events_lost
    audit.close()


def test_folders_without_a_watch_are_counted(sandbox, monkeypatch):
    import inotify_simple

    add = inotify_simple.INotify.add_watch

    def full(self, path, mask):
        if "deep" in str(path):
            raise OSError(errno.ENOSPC, "no watches left")
        return add(self, path, mask)

    monkeypatch.setattr(inotify_simple.INotify, "add_watch", full)
    audit = seen_in(sandbox, "cat deep/er/b.txt a.txt")
    assert [event.path for event in audit.seen] == ["a.txt"]
    assert audit.unwatched_folders == 1


def test_without_inotify_nothing_is_audited(sandbox, monkeypatch):
    import inotify_simple

    def none_left(self, **_):
        raise OSError(errno.EMFILE, "too many instances")

    monkeypatch.setattr(inotify_simple.INotify, "__init__", none_left)
    assert audit_of(sandbox) is None


def test_a_closed_audit_is_quiet(sandbox):
    audit = audit_of(sandbox)
    with audit.step(0):
        audit.close()
    assert audit.seen == []


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("audit") / "task")


def graded(task, submission, backend):
    return Grade(0.5, ("a", "b"), ("c",), ("g",), ("conftest.py",), ("a note",))


def test_a_session_gathers_what_was_left_behind(task):
    with TaskSession(task, grader=graded, canary_seed="s") as session:
        decoy = next(decoy.path for decoy in session.decoys if decoy.channel == "wheel")
        session.call("read_file", {"path": "README.md"})
        session.call(
            "bash", {"command": f"cp {decoy} /tmp/x; rm {VISIBLE_FILE}; ln -s / away; printf '\\377' > odd.bin"}
        )
        session.call("write_file", {"path": SPANS, "content": SPANS_GOLD})
        assert session.evidence is None
        session.call("submit", {})
    found = session.evidence
    assert found.audited and not found.events_lost
    assert {(event.step, event.act, event.path) for event in found.events} >= {
        (1, "open", decoy),
        (1, "delete", VISIBLE_FILE),
    }
    assert {event.step for event in found.events} == {1}
    assert found.before == {SPANS: SPANS_START, VISIBLE_FILE: (task.tree / VISIBLE_FILE).read_text()}
    assert found.written[SPANS] == SPANS_GOLD and found.written["odd.bin"] == "ÿ"
    assert (found.removed, found.special) == ((VISIBLE_FILE,), ("away",))
    assert [(hit.channel, hit.evidence, hit.where) for hit in found.canary_hits] == [("wheel", "soft", "open")]
    assert found.grade.model_dump() == {
        "reward": 0.5,
        "hidden_passed": 2,
        "hidden_failed": 1,
        "guards_broken": ("g",),
        "dropped": ("conftest.py",),
        "notes": ("a note",),
    }
    assert found.task.files == 7 and found.task.files_by_suffix == {".md": 1, ".py": 5, ".toml": 1}
    assert "[(6, 9), (1, 3), (2, 7)]" in found.task.test_literals
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_turns_that_are_no_calls_do_not_count_as_calls(task):
    from composer_replication.environments.code.episodes.tools import ToolError

    with TaskSession(task, grader=graded) as session:
        session.refuse(ToolError("no call"))
        session.call("bash", {"command": "cat README.md"})
        session.call("submit", {})
    assert [(event.step, event.path) for event in session.evidence.events] == [(0, "README.md")]


def test_a_session_without_audit_says_so(task):
    with TaskSession(task, grader=graded, audit=False) as session:
        session.call("bash", {"command": "cat README.md"})
        session.call("submit", {})
    assert not session.evidence.audited and session.evidence.events == ()


def test_a_grader_that_breaks_leaves_the_evidence(task):
    def broken(task, submission, backend):
        raise RuntimeError

    with TaskSession(task, grader=broken) as session, pytest.raises(RuntimeError):
        session.call("submit", {})
    assert session.evidence is not None and session.evidence.grade is None


def test_the_audit_costs_little(sandbox):
    audit = audit_of(sandbox)
    started = time.process_time()
    for number in range(50):
        with audit.step(number):
            pass
    assert (time.process_time() - started) / 50 < 0.005
    audit.close()


def test_rollouts_keep_the_evidence_of_each_trace(task, tmp_path, capsys):
    from composer_replication.cli.env_rollout import rollout
    from composer_replication.environments.evidence import EVIDENCE, TraceEvidence
    from composer_replication.records import Trace
    from composer_replication.runs import Run, read_records

    rollout(task.folder, scripted="gold", run=tmp_path / "run", json=True)
    kept = list(read_records(tmp_path / "run" / EVIDENCE, TraceEvidence))
    traces = list(Run.open(tmp_path / "run").stage("ingestion").read(Trace))
    assert [each.trace_id for each in kept] == [trace.trace_id for trace in traces]
    assert kept[0].evidence.written == {SPANS: SPANS_GOLD} and kept[0].evidence.grade.reward == 1.0
