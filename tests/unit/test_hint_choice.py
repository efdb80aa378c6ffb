"""Hints are all listed in the terminal, and a wrong one is left out before training, in a fork."""

from __future__ import annotations

import json

import pytest

from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.ingestion.inputs import embedded_session
from composer_replication.records import ErrorSite, Hint
from composer_replication.runs import Run, read_records
from tests.command_line import recompose


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hinted") / "run"
    with embedded_session() as shipped:
        assert recompose("ingest", shipped.path, "--run", folder).returncode == 0
    for verb in ("sites", "hint"):
        assert recompose(verb, folder).returncode == 0
    return Run.open(folder)


def hints_of(run):
    return list(run.stage("hints").stream(Hint))


def forked(run, new, *drop):
    assert recompose("fork", run.path, new, "--set", f"hints.drop={json.dumps(drop)}").returncode == 0
    return recompose("hint", new, "--json")


def test_all_hints_are_listed_with_kind_and_place_and_the_way_to_leave_one_out(run):
    listed = recompose("hint", run.path, "--all").stdout
    sites = {site.site_id: site for site in run.stage("sites").stream(ErrorSite)}
    for hint in hints_of(run):
        site = sites[hint.site_id]
        assert f"{hint.hint_id}  {site.error_kind}, {site.trace_id}:{site.turn}\n    {hint.text}\n" in listed
    assert f"recompose fork {run.path} NEW --set 'hints.drop=[\"ID\"]'" in listed
    as_json = json.loads(recompose("hint", run.path, "--all", "--json").stdout)
    assert [row["text"] for row in as_json["listed"]] == [hint.text for hint in hints_of(run)]


@pytest.mark.parametrize("named_by", ["hint_id", "site_id"])
def test_a_hint_that_the_settings_name_is_left_out_and_counted(run, tmp_path, named_by):
    wrong, good = hints_of(run)
    done = forked(run, tmp_path / "new", getattr(wrong, named_by)[:8])
    told = json.loads(done.stdout)
    assert (told["hints"], told["dropped"]["left_out"]) == (1, 1)
    made = Run.open(tmp_path / "new")
    assert hints_of(made) == [good]
    refused = list(read_records(made.stage("hints").path / REFUSALS, HintRefusal))
    assert [(one.site_id, one.reason) for one in refused] == [(wrong.site_id, "left_out")]


def test_a_name_that_no_hint_has_is_refused(run, tmp_path):
    done = forked(run, tmp_path / "new", "0123456789abcdef")
    assert done.returncode == 2 and "hints.drop names no hint: 0123456789abcdef" in done.stderr
    assert not Run.open(tmp_path / "new").stage("hints").is_done
