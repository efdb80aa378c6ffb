"""`recompose export --parquet` of a run that real stages made, and every query of docs/queries.md on its tables.

Sessions are real ones of `tests/samples`. The teachers are scripted: a loopback server whose answers are made up here.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.pairs.build import VERDICTS, StateVerdict
from composer_replication.progress import Silent
from composer_replication.records import ErrorSite, Hint, PreferencePair, TeacherReply, Trace
from composer_replication.runs import Run
from composer_replication.stages import parquet
from composer_replication.stages.parquet import export_tables
from composer_replication.stages.tables import FILES
from tests.command_line import recompose
from tests.scripted_teachers import ScriptedTeachers, calls

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "queries.md").read_text()
COLUMNS = (ROOT / "docs" / "tables.md").read_text()
QUERIES = {
    title: re.findall(r"```sql\n(.*?)```", body, re.DOTALL)
    for title, body in re.findall(r"^#+ (.*?)\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
SESSIONS = {
    "plugins": ("skills__v2.1.101__0953ba2a*", "skills__v2.1.117*"),
    "command_line": ("cli__v2.1.29*", "cli__v2.1.7*"),
    "evaluator": ("context-evaluator__v2.1.45__90d7d497*", "context-evaluator__v2.1.47*"),
    "small": ("err_user_reject.jsonl.zst", "err_tool_not_found.jsonl.zst", "microcompact.jsonl.zst"),
}
TABLES = [table for file in FILES for table in file.tables]
MICROS = 100


def answer(request: dict) -> tuple[int, dict]:
    """All make the same call, but `b` and `c` have a word of their own in it at some lengths of the history."""
    model, depth = request["model"], len(request["messages"])
    differs = (model == "openai/b" and depth % 3 == 0) or (model == "qwen/c" and depth % 2 == 0)
    tool = request["tools"][0]["function"] if "tools" in request else {"name": "none", "parameters": {"properties": {}}}
    said = dict.fromkeys(tool["parameters"]["properties"], model if differs else "agreed")
    return 200, calls(model, tool["name"], said)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("queries")
    for project, patterns in SESSIONS.items():
        (folder / "sessions" / project).mkdir(parents=True)
        for pattern in patterns:
            [file] = (ROOT / "tests" / "samples").glob(f"claude_code*/{pattern}")
            shutil.copy(file, folder / "sessions" / project)
    done(recompose("ingest", folder / "sessions", "--run", folder / "run"))
    for verb in ("sites", "hint"):
        done(recompose(verb, folder / "run"))
    with ScriptedTeachers(answer) as server:
        teachers = [f"{model[-1]}={server.base_url},{model}" for model in ("mistral/a", "openai/b", "qwen/c")]
        named = [word for teacher in teachers for word in ("--teacher", teacher)]
        done(recompose("replay", folder / "run", *named, "--max-usd", 1))
    done(recompose("pair", folder / "run"))
    return Run.open(folder / "run")


@pytest.fixture(scope="module")
def tables(run) -> Path:
    folder = run.path.parent / "tables"
    told = json.loads(done(recompose("export", run.path, "--parquet", folder, "--json")).stdout)
    assert told["rows"] == {table.name: pq.read_table(folder / f"{table.name}.parquet").num_rows for table in TABLES}
    assert (told["empty"], told["kept"], told["redacted"]) == ({}, [], True)
    return folder


def done(ended):
    assert ended.returncode == 0, ended.stderr
    return ended


def rows_of(tables, name):
    return pq.read_table(tables / f"{name}.parquet").to_pylist()


def asked(monkeypatch, tables, title):
    """One dict per row of the answer to the query under a title of the page."""
    monkeypatch.chdir(tables)
    [query] = QUERIES[title]
    found = duckdb.connect().execute(query)
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    assert rows
    return rows


def test_the_page_documents_every_column_with_its_type():
    for table in TABLES:
        [body] = re.findall(rf"^## {table.name}\n(.*?)(?=^#|\Z)", COLUMNS, re.DOTALL | re.MULTILINE)
        documented = re.findall(r"^\| `(\w+)` \| (\S+) \| \S.* \|$", body, re.MULTILINE)
        assert documented == list(table.types.items())


def test_the_page_has_its_queries_and_no_test_is_left_out():
    asking = {title for title, queries in QUERIES.items() if queries}
    tested = set(re.findall(r'asked\(monkeypatch, tables, "(.*?)"\)', Path(__file__).read_text()))
    assert asking == tested and len(asking) >= 11


def characters(messages):
    """A policy reads the calls of its history, too: in the samples they are a sixth of all characters."""
    calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    return sum(len(message["content"]) for message in messages) + sum(
        len(call["name"]) + len(call["arguments"]) for call in calls
    )


def test_rows_are_what_the_records_say(run, tables):
    traces = run.stage("ingestion").read(Trace)
    for row, trace in zip(rows_of(tables, "traces"), traces, strict=True):
        assert (row["trace_id"], row["turns"], row["messages"]) == (
            trace.trace_id, len(trace.turns), len(trace.messages),
        )  # fmt: skip
        assert row["folder"] in SESSIONS and row["file"].startswith(row["folder"])
        assert json.loads(row["tools"]) == list(trace.tools)
        assert row["characters"] == characters(trace.messages)
    turns = iter(rows_of(tables, "turns"))
    for trace in traces:
        for number, state in enumerate(trace.states()):
            row = next(turns)
            assert (row["state_id"], row["turn"]) == (state["state_id"], number)
            assert row["history_characters"] == characters(state["messages"])
            assert row["action_characters"] == len(state["student_action"])
    assert next(turns, None) is None
    users = [row["user_text"] for row in rows_of(tables, "turns") if row["user_text"]]
    assert len(users) >= len(traces)
    made = [
        call for trace in traces for turn in trace.turns for call in trace.messages[turn.start].get("tool_calls", [])
    ]
    assert [row["call_id"] for row in rows_of(tables, "calls")] == [call["id"] for call in made]
    results = {
        one["tool_call_id"]: one["content"] for trace in traces for one in trace.messages if one["role"] == "tool"
    }
    assert all(row["result"] == results.get(row["call_id"]) for row in rows_of(tables, "calls"))


@pytest.mark.parametrize(
    ("table", "stage", "record"),
    [
        ("sites", "sites", ErrorSite),
        ("hints", "hints", Hint),
        ("replies", "replay", TeacherReply),
        ("pairs", "pairs", PreferencePair),
    ],
)
def test_a_row_holds_the_fields_of_its_record(run, tables, table, stage, record):
    same = record.model_fields.keys() & next(one.types.keys() for one in TABLES if one.name == table)
    assert len(same) >= 7
    for row, one in zip(rows_of(tables, table), run.stage(stage).stream(record), strict=True):
        stored = json.loads(one.model_dump_json())
        for name in same - {"chosen", "rejected"}:
            assert row[name] == stored[name]
        for side in same & {"chosen", "rejected"}:
            assert json.loads(row[side]) == stored[side]


def test_every_site_has_a_hint_or_a_reason_and_every_state_a_verdict(run, tables):
    sites = {row["site_id"] for row in rows_of(tables, "sites")}
    hinted, refused = ({row["site_id"] for row in rows_of(tables, name)} for name in ("hints", "refusals"))
    assert hinted | refused == sites and not hinted & refused
    counts = Counter(row["reason"] for row in rows_of(tables, "refusals"))
    assert counts == run.stage("hints").counts["dropped"] and len(counts) >= 2
    assert Counter(row["verdict"] for row in rows_of(tables, "verdicts")) == run.stage("pairs").counts["verdicts"]
    assert {row["state_id"] for row in rows_of(tables, "pairs")} == {
        row["state_id"] for row in rows_of(tables, "verdicts") if row["verdict"] == "paired"
    }


def test_the_same_again_keeps_what_is_true_and_makes_what_is_not(run, tables, tmp_path):
    mine = shutil.copytree(tables, tmp_path / "tables")
    (mine / "replies.parquet").unlink()
    (mine / ".turns.parquet.partial").write_bytes(b"PAR1 half a table")
    old = pq.read_table(mine / "sites.parquet")
    stale = old.replace_schema_metadata({**old.schema.metadata, b"recompose.sha256": b"of an earlier state"})
    pq.write_table(stale.slice(0, 1), mine / "sites.parquet")
    kept = export_tables(run, mine, Silent())["kept"]
    assert set(kept) == {table.name for table in TABLES} - {"replies", "sites"}
    for table in TABLES:
        assert rows_of(mine, table.name) == rows_of(tables, table.name)


def test_a_file_of_another_making_is_never_replaced(run, tmp_path):
    for make in (lambda path: path.write_text("mine"), lambda path: pq.write_table(pa.table({"a": [1]}), path)):
        make(tmp_path / "pairs.parquet")
        before = (tmp_path / "pairs.parquet").read_bytes()
        ended = recompose("export", run.path, "--parquet", tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "pairs.parquet is not of this run; next: choose another folder" in ended.stderr
        assert [file.name for file in tmp_path.iterdir()] == ["pairs.parquet"]
        assert (tmp_path / "pairs.parquet").read_bytes() == before


def test_a_run_that_lacks_stages_gets_empty_tables_and_is_told(run, tmp_path):
    young = tmp_path / "run"
    shutil.copytree(run.path, young, ignore=shutil.ignore_patterns("replay", "pairs", REFUSALS))
    manifest = json.loads((young / "hints" / "manifest.json").read_text())
    manifest.pop("beside")
    (young / "hints" / "manifest.json").write_text(json.dumps(manifest))
    shown = done(recompose("export", young, "--parquet", tmp_path / "tables")).stdout
    assert f"the run has no replay stage; next: recompose replay {young}" in shown
    assert f"the hints were made before {REFUSALS} was kept" in shown
    for table in TABLES:
        found = pq.read_table(tmp_path / "tables" / f"{table.name}.parquet")
        assert found.column_names == list(table.types)
        assert (found.num_rows == 0) == (table.name in ("refusals", "replies", "verdicts", "pairs"))


def test_a_damaged_stage_leaves_no_table_of_it(run, tmp_path):
    broken = shutil.copytree(run.path, tmp_path / "run")
    (broken / "sites" / "records.jsonl.zst").write_bytes((broken / "hints" / "records.jsonl.zst").read_bytes())
    ended = recompose("export", broken, "--parquet", tmp_path / "tables")
    assert ended.returncode == 1 and "sites is damaged" in ended.stderr
    assert {file.name for file in (tmp_path / "tables").iterdir()} == {
        "traces.parquet", "turns.parquet", "calls.parquet",
    }  # fmt: skip


def test_row_groups_are_bounded_by_rows_and_by_text(run, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 16)
    monkeypatch.setattr(parquet, "GROUP_CHARACTERS", 20_000)
    export_tables(run, tmp_path, Silent())
    for name in ("turns", "calls"):
        groups = pq.ParquetFile(tmp_path / f"{name}.parquet")
        sizes = [groups.metadata.row_group(index).num_rows for index in range(groups.num_row_groups)]
        assert len(sizes) > sum(sizes) / 16 and max(sizes) <= 16
        assert rows_of(tmp_path, name) == rows_of(tables, name)


def test_a_run_that_was_not_redacted_says_so(tmp_path):
    [session] = (ROOT / "tests" / "samples").glob("claude_code_mini/err_exit_code*")
    (tmp_path / "plain.toml").write_text("[ingestion]\nredact = false\n")
    done(recompose("ingest", session, "--run", tmp_path / "run", "--config", tmp_path / "plain.toml"))
    assert "NOT REDACTED" in done(recompose("export", tmp_path / "run", "--parquet", tmp_path / "tables")).stdout
    assert pq.read_schema(tmp_path / "tables" / "turns.parquet").metadata[b"recompose.redacted"] == b"false"


def test_a_table_says_what_was_redacted(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Questions to the data")
    told = {row["key"]: json.loads(row["value"]) for row in rows}
    assert told == {"recompose.redacted": True, "recompose.redactions": run.stage("ingestion").counts["redactions"]}


def test_tools_by_error_rate(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which tools fail most?")
    assert sum(row["made"] for row in rows) == len(rows_of(tables, "calls"))
    sites = run.stage("sites").read(ErrorSite)
    wrong = {(site.trace_id, site.call_id) for site in sites if site.call_id and site.fault == "policy"}
    assert sum(row["failed"] for row in rows) == len(wrong) > 0
    assert all(row["error_rate"] == round(row["failed"] / row["made"], 3) for row in rows)


def test_errors_by_project(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which errors does each project have?")
    assert {row["folder"] for row in rows} == SESSIONS.keys()
    by_kind = Counter({})
    for row in rows:
        by_kind[row["error_kind"]] += row["errors"]
    assert by_kind == run.stage("sites").counts["kinds"]


def test_refused_hints(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Where was a hint refused, and why?")
    refused = list(run.stage("hints").stream_beside(REFUSALS, HintRefusal, ""))
    assert sum(row["errors"] for row in rows) == len(refused) > 0
    assert all(row["example"] for row in rows)
    assert "user_rejection" in {row["error_kind"] for row in rows if row["reason"] == "fault_user"}


def test_the_cost_of_a_pair(run, tables, monkeypatch):
    rows = {row["teacher"]: row for row in asked(monkeypatch, tables, "What does a usable pair cost, by teacher?")}
    pairs = run.stage("pairs").read(PreferencePair)
    by_key = {reply.key: reply.teacher for reply in run.stage("replay").read(TeacherReply)}
    voted = Counter(teacher for pair in pairs for teacher in {by_key[key] for key in pair.provenance})
    assert {teacher: row["usable_pairs"] for teacher, row in rows.items()} == voted
    for row in rows.values():
        assert row["dollars"] == pytest.approx(row["answers"] * MICROS / 1e6)
        assert row["dollars_per_pair"] == pytest.approx(row["dollars"] / row["usable_pairs"])


def test_who_agrees(tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which teachers agree?")
    same = {(row["one"], row["other"]): row["same_call"] for row in rows}
    assert len(same) == 3 and 0 < same["mistral/a", "qwen/c"] < 1 and 0 < same["mistral/a", "openai/b"] < 1


def test_wasted_stretches(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Where are the longest stretches of wasted turns?")
    wrong = {(site.trace_id, site.turn) for site in run.stage("sites").stream(ErrorSite) if site.fault == "policy"}
    assert sum(row["length"] for row in rows) == len(wrong)
    assert rows[0]["length"] == 3 and rows[0]["file"].startswith("plugins/skills") and rows[0]["about_tokens"] > 0


def test_turns_to_recovery(tables, monkeypatch):
    rows = asked(monkeypatch, tables, "How many turns until an error is mended?")
    assert all(row["recovered"] <= row["errors"] for row in rows)
    assert any(row["turns_to_recovery"] for row in rows)
    assert all(row["turns_to_recovery"] is None or row["turns_to_recovery"] >= 1 for row in rows)


def test_tokens_per_turn(tables, monkeypatch):
    rows = asked(monkeypatch, tables, "How many tokens does a turn take?")
    assert sum(row["taken"] for row in rows) == len(rows_of(tables, "turns"))
    assert all(row["action_median"] <= row["action_p95"] < row["history_p95"] for row in rows if row["taken"] > 20)


def test_files_around_errors(tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which files are touched most around errors?")
    assert all("/" in row["path"] or "." in row["path"] for row in rows)
    assert [row["errors"] for row in rows] == sorted((row["errors"] for row in rows), reverse=True)


def test_sessions_of_the_pairs(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which sessions do the kept pairs come from?")
    names = {trace.trace_id: trace.source.file for trace in run.stage("ingestion").stream(Trace)}
    kept = Counter(names[pair.trace_id] for pair in run.stage("pairs").stream(PreferencePair))
    assert {row["file"]: row["kept"] for row in rows} == kept
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=0.01)


def test_pairs_thrown_away(run, tables, monkeypatch):
    rows = asked(monkeypatch, tables, "Which pairs were thrown away, and why?")
    lost = [one for one in run.stage("pairs").stream_beside(VERDICTS, StateVerdict, "") if one.verdict != "paired"]
    assert sum(row["states"] for row in rows) == len(lost) > 0
    assert {row["verdict"] for row in rows} == {one.verdict for one in lost}
