"""`recompose monitor`: findings of a run on disk, on a page and on the terminal."""

import json
from pathlib import Path

import pytest

from composer_replication.config import Config
from composer_replication.environments.evidence import EVIDENCE, TraceEvidence
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.monitor import report as module
from composer_replication.monitor.report import as_json, read_report, told, write_page
from composer_replication.monitor.stage import VERDICTS, TraceVerdict, monitor_run, read_verdicts
from composer_replication.progress import Silent
from composer_replication.records import Finding
from composer_replication.runs import Run, read_records, write_records
from tests.command_line import recompose
from tests.notes import Notes

from .monitor_cases import HARD_HIT, evidence, trace

HASHED = "with its hash in the manifest"
EVIL = "git log -p --grep='<script>alert(1)</script>\x1b[31m'"


def honest(number):
    return trace(("read_file", {"path": f"demo/m{number}.py"}, "x = 1"), task_id=f"demo/{number}")


CHEAT = trace(("bash", {"command": EVIL}, "commit"), task_id="demo/cheat")
DECOYED = trace(("bash", {"command": "ls"}, "demo"), task_id="demo/decoy")
SESSION = trace(("Bash", {"command": "git log -p"}, "commit"), agent="claude_code", task_id=None, outcome=None)


@pytest.fixture
def run(tmp_path):
    opened = Run.start(tmp_path / "run", Config())
    traces = [honest(0), CHEAT, SESSION, DECOYED, honest(1)]
    left = [TraceEvidence(trace_id=each.trace_id, evidence=evidence()) for each in (honest(1), CHEAT)]
    left.append(TraceEvidence(trace_id=DECOYED.trace_id, evidence=evidence(canary_hits=(HARD_HIT,))))
    write_records(opened.path / EVIDENCE, left)
    opened.stage("ingestion").finish(traces, {"traces": len(traces)}, [], 0.0)
    return opened


def test_findings_and_verdicts_are_kept(run):
    monitor_run(run, Silent())
    findings = list(read_records(run.path / "monitor" / "records.jsonl.zst", Finding))
    verdicts = {verdict.trace_id: verdict for verdict in read_records(run.path / VERDICTS, TraceVerdict)}
    assert {finding.trace_id for finding in findings} == {CHEAT.trace_id, DECOYED.trace_id, SESSION.trace_id}
    assert len(verdicts) == 5
    assert verdicts[DECOYED.trace_id].hard
    assert verdicts[DECOYED.trace_id].canary_hit
    assert not verdicts[CHEAT.trace_id].hard
    assert verdicts[honest(1).trace_id].has_evidence, "evidence that comes before its trace is found"
    assert not verdicts[honest(0).trace_id].has_evidence
    counts = run.stage("monitor").counts
    assert (counts["rollouts"], counts["sessions"], counts["hard"]) == (4, 1, 1)
    assert (counts["canary_hits"], counts["with_evidence"]) == (1, 3)
    assert counts["classes"]["git_history"] == 2


def test_it_is_kept_until_traces_evidence_or_monitor_change(run, monkeypatch):
    notes = Notes()
    monitor_run(run, notes)
    assert notes.said == []
    monitor_run(run, notes)
    assert len(notes.said) == 1
    write_records(run.path / EVIDENCE, [])
    monitor_run(run, notes)
    assert len(notes.said) == 1
    assert run.stage("monitor").counts["with_evidence"] == 0
    monkeypatch.setattr("composer_replication.monitor.stage.fingerprint", lambda: "other rules")
    monitor_run(run, notes)
    assert len(notes.said) == 1


def test_a_crash_leaves_no_finished_stage(run, monkeypatch):
    monitor_run(run, Silent())
    write_records(run.path / EVIDENCE, [])

    def broken(conduct):
        raise RuntimeError("broken")

    monkeypatch.setattr("composer_replication.monitor.stage.judge", broken)
    with pytest.raises(RuntimeError):
        monitor_run(run, Silent())
    assert not run.stage("monitor").is_done


def test_damaged_traces_are_refused(run):
    path = run.path / "ingestion" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "sha256": "0" * 64}))
    with pytest.raises(RecomposeError, match="damaged"):
        monitor_run(run, Silent())
    assert not run.stage("monitor").is_done


@pytest.fixture(params=[HASHED, "of before hashes were kept"])
def rolled(tmp_path, request):
    """As `env rollout` leaves it, with evidence of several blocks of the compressor."""
    opened = Run.start(tmp_path / "rolled", Config())
    attempts = [honest(number) for number in range(400)]
    left = [
        TraceEvidence(trace_id=each.trace_id, evidence=evidence(written={"demo/a.py": str(place) * 300}))
        for place, each in enumerate(attempts)
    ]
    written = write_records(opened.path / EVIDENCE, left)
    beside = {"evidence.jsonl.zst": written} if request.param == HASHED else None
    opened.stage("ingestion").finish(attempts, {"traces": len(attempts)}, [], 0.0, beside=beside)
    return opened


def test_evidence_that_is_whole_is_read_with_a_hash_and_without(rolled):
    monitor_run(rolled, Silent())
    assert rolled.stage("monitor").counts["with_evidence"] == 400


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-4],
        lambda data: data[:20],
        lambda data: b"",
        lambda data: b"no such thing " * 9,
    ],
)
def test_damaged_evidence_is_refused_and_not_taken_for_none(rolled, damage):
    path = rolled.path / EVIDENCE
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecomposeError, match=r"evidence.jsonl.zst is damaged; next: roll the attempts again"):
        monitor_run(rolled, Silent())
    assert not rolled.stage("monitor").is_done


def with_another_last_line(path):
    left = list(read_records(path, TraceEvidence))
    write_records(path, [*left[:-1], left[-1].model_copy(update={"evidence": evidence()})])


@pytest.mark.parametrize("gone", [lambda path: write_records(path, []), Path.unlink, with_another_last_line])
@pytest.mark.parametrize("rolled", [HASHED], indirect=True)
def test_evidence_that_was_promised_must_be_there(rolled, gone):
    gone(rolled.path / EVIDENCE)
    with pytest.raises(RecomposeError, match="damaged"):
        monitor_run(rolled, Silent())


def test_no_traces_is_said(tmp_path):
    empty = Run.start(tmp_path / "run", Config())
    with pytest.raises(UsageError, match="no finished ingestion"):
        monitor_run(empty, Silent())
    with pytest.raises(UsageError, match="no finished monitor"):
        read_verdicts(empty)
    empty.stage("ingestion").finish([], {}, [], 0.0)
    with pytest.raises(UsageError, match="no traces"):
        monitor_run(empty, Silent())


def test_the_worst_come_first_and_people_apart(run):
    monitor_run(run, Silent())
    report = read_report(run)
    assert [shown.verdict.trace_id for shown in report.worst] == [DECOYED.trace_id, CHEAT.trace_id]
    assert [shown.verdict.trace_id for shown in report.sessions] == [SESSION.trace_id]
    assert report.canary_hit_rate == pytest.approx(1 / 3)


def test_few_are_shown_unless_all_are_asked_for(run, monkeypatch):
    monitor_run(run, Silent())
    monkeypatch.setattr(module, "WORST", 1)
    report = read_report(run)
    assert (len(report.worst), len(report.sessions), report.left_out) == (1, 1, 1)
    assert any("--all" in line for line in told(report))
    assert read_report(run, show_all=True).left_out == 0


def test_the_offending_lines_are_on_the_terminal(run):
    monitor_run(run, Silent())
    text = "\n".join(told(read_report(run)))
    assert "step 0" in text
    assert "git log -p" in text
    assert "git_history (command" in text
    assert "1 of 3 rollouts with evidence (33.3%)" in text
    assert "a person steers this session" in text


def test_a_line_cannot_steer_the_terminal(run):
    monitor_run(run, Silent())
    report = read_report(run)
    finding = report.worst[0].findings[0].model_copy(update={"lines": ("a\x1b]0;title\x07b\r\nc",)})
    shown = report._replace(worst=[report.worst[0]._replace(findings=[finding])])
    assert not [line for line in told(shown) if not line.isprintable()]


def test_the_page_stands_alone_and_escapes_everything(run):
    monitor_run(run, Silent())
    page = write_page(read_report(run)).read_text()
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "git_history" in page


def test_the_json_is_json(run):
    monitor_run(run, Silent())
    made = json.loads(json.dumps(as_json(read_report(run))))
    assert made["canary_hit_rate"] == pytest.approx(1 / 3)
    assert made["worst"][0]["findings"][0]["evidence"] == "hard"


def test_a_persons_session_is_shown_and_not_judged(run):
    monitor_run(run, Silent())
    report = read_report(run)
    lines = list(told(report))
    [headed] = [line for line in lines if line.startswith(SESSION.trace_id)]
    assert headed == f"{SESSION.trace_id}  not judged: a person steered"
    assert any("4, and 1 session that" in line for line in lines)
    page = write_page(report).read_text()
    _, _, article = page.partition(f"<h3>{SESSION.trace_id}")
    assert "not judged: a person steered" in article.partition("</article>")[0]
    assert "alarm" not in article.partition("</article>")[0]


def test_all_traces_can_be_judged_as_rollouts(run):
    chat = trace(("Bash", {"command": "git log -p"}, "commit"), agent="messages", task_id=None, outcome=None)
    run.stage("ingestion").finish([SESSION, chat], {"traces": 2}, [], 0.0)
    notes = Notes()
    monitor_run(run, notes)
    counts = run.stage("monitor").counts
    assert (counts["sessions"], counts["alarms"]) == (2, 0)
    monitor_run(run, notes, all_rollouts=True)
    counts = run.stage("monitor").counts
    assert (counts["rollouts"], counts["sessions"], counts["alarms"]) == (2, 0, 2)
    assert notes.said == [], "a stage that was judged otherwise is not kept"
    monitor_run(run, notes, all_rollouts=True)
    assert len(notes.said) == 1
    monitor_run(run, notes)
    assert run.stage("monitor").counts["alarms"] == 0


def test_the_hint_at_more_keeps_how_they_were_judged(run, monkeypatch):
    monkeypatch.setattr(module, "WORST", 1)
    monitor_run(run, Silent(), all_rollouts=True)
    assert any(line.endswith("--rollouts --all") for line in told(read_report(run)))


def test_an_alarm_fails_the_command_where_that_is_asked_for(run):
    quiet = recompose("monitor", run.path, "--json")
    loud = recompose("monitor", run.path, "--json", "--fail-on-alarm")
    assert (quiet.returncode, loud.returncode) == (0, 1)
    assert json.loads(loud.stdout) == json.loads(quiet.stdout)
    run.stage("ingestion").finish([honest(0), SESSION], {"traces": 2}, [], 0.0)
    assert recompose("monitor", run.path, "--fail-on-alarm").returncode == 0
    assert recompose("monitor", run.path, "--fail-on-alarm", "--rollouts").returncode == 1


def test_the_command(run, tmp_path):
    done = recompose("monitor", run.path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rollouts"] == 4
    again = recompose("monitor", run.path, "--all")
    assert "demo/cheat" in again.stdout
    assert "kept" in again.stderr
    missing = recompose("monitor", tmp_path / "nowhere")
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
    assert not (tmp_path / "nowhere").exists()
