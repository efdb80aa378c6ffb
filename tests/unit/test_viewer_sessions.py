"""What the viewer says of sessions without teachers: reasons in order, hints and held-out sessions beside sites."""

from __future__ import annotations

import pytest

from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.records import ErrorSite, Hint
from composer_replication.runs import Run, read_records
from composer_replication.stages.held_out import held_out_of
from composer_replication.viewer.api import Library
from tests.command_line import recompose
from tests.pages import ROOT

SETTINGS = """training.rollouts = false
evaluation.held_out_sessions = 0.5
channels = [{ name = "sdpo", weight = 1.0 }]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "mine.toml").write_text(SETTINGS)
    sessions = ROOT / "tests/samples/claude_code_mini"
    assert recompose("ingest", sessions, "--run", folder / "run", "--config", folder / "mine.toml").returncode == 0
    for verb in ("sites", "hint"):
        assert recompose(verb, folder / "run").returncode == 0
    return Run.open(folder / "run")


@pytest.fixture(scope="module")
def library(run):
    library = Library([run.path])
    yield library
    library.close()


@pytest.fixture(scope="module")
def ask(library):
    return lambda name, **query: library.answer("run", name, query)


def test_the_run_is_said_to_train_on_sessions(library, ask):
    assert ask("run")["trained_on"] == library.about()["runs"][0]["trained_on"] == "sessions"


def test_whole_sessions_come_first_among_what_was_skipped_then_the_largest(ask):
    drops = [(drop["reason"], drop["count"]) for drop in ask("run")["funnel"][0]["drops"]]
    whole, lines = drops[:3], drops[3:]
    assert {reason for reason, _ in whole} == {"session_without_turns", "subagent", "duplicate_session"}
    assert len(lines) > 5 and [count for _, count in lines] == sorted((count for _, count in lines), reverse=True)


def test_a_hint_is_listed_with_the_kind_and_turn_of_its_site(run, ask):
    sites = {site.site_id: site for site in run.stage("sites").stream(ErrorSite)}
    rows = ask("list", kind="hint", limit="500")["rows"]
    assert len({row["error_kind"] for row in rows}) > 3
    for row in rows:
        site = sites[row["site_id"]]
        assert (row["error_kind"], row["trace_id"], row["turn"]) == (site.error_kind, site.trace_id, site.turn)


def test_a_site_is_listed_with_its_hint_or_why_it_has_none_and_whether_it_is_held_out(run, ask):
    hints = {hint.site_id: hint.text for hint in run.stage("hints").stream(Hint)}
    refused = {one.site_id: one.reason for one in read_records(run.stage("hints").path / REFUSALS, HintRefusal)}
    held_out, rows = held_out_of(run), ask("list", kind="site", limit="500")["rows"]
    assert hints and refused and held_out
    for row in rows:
        assert row["hint"] == hints.get(row["site_id"])
        assert row["no_hint"] == refused.get(row["site_id"])
        assert row["held_out"] == (row["trace_id"] in held_out)
    assert {row["held_out"] for row in rows} == {True, False}


def test_a_system_prompt_that_is_in_no_file_is_marked(ask):
    trace = ask("list", kind="trace", limit="1")["rows"][0]["trace_id"]
    for messages in (ask("trace", id=trace)["before"], ask("saw", trace=trace, turn="0")["messages"]):
        assert [message.get("supplied", False) for message in messages] == [True, *[False] * (len(messages) - 1)]
