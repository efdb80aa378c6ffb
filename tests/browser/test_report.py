"""`report.html` in Chromium: of a small quickstart run, and of one with far too much of everything; and the reports
about held-out sessions and of the monitor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from composer_replication.cli.sessions import MEANING
from composer_replication.evaluation.report import render_report
from composer_replication.evaluation.session_page import render_sessions
from composer_replication.evaluation.sessions import Phase, TurnMeasure, changes
from tests.command_line import recompose
from tests.pages import ROOT
from tests.small import SMALL_CONFIG
from tests.unit.test_report import too_much

from .conftest import watch


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    (folder / "small.toml").write_text(SMALL_CONFIG)
    command = [sys.executable, "-m", "composer_replication", "quickstart", "--config", "small.toml", "--run", "run"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "too_much.html").write_text(render_report(too_much()))
    (folder / "sessions.html").write_text(_sessions())
    samples, read = ROOT / "tests/samples/claude_code_mini", folder / "read"
    assert recompose("ingest", samples, "--run", read).returncode == recompose("monitor", read).returncode == 0
    return {
        "quickstart": folder / "run/report.html",
        "too much": folder / "too_much.html",
        "sessions": folder / "sessions.html",
        "monitor": read / "monitor/report.html",
    }


def _sessions() -> str:
    phases: tuple[Phase, Phase] = ("before", "after")
    found = [
        TurnMeasure(measure=measure, trace_id=f"{session:016x}", turn=312, phase=phase, value=session * place - 1.234)
        for measure in MEANING
        for session in range(9)
        for place, phase in enumerate(phases)
    ]
    return render_sessions(Path("runs") / ("long" * 30), 9, changes(found)[0], MEANING, ["a remark"], found)


@pytest.fixture
def open_report(context, reports):
    context.set_offline(True)
    found = watch(context)

    def opened(name: str):
        found.page.goto(reports[name].as_uri())
        return found.page

    yield opened
    assert found.problems == []
    assert not [url for url in found.requests if not url.startswith("file:")]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["quickstart", "too much", "sessions", "monitor"])
def test_a_report_fits_its_window_folded_and_unfolded(open_report, name, width):
    page = open_report(name)
    page.set_viewport_size({"width": width, "height": 800})
    for opened in ("false", "true"):
        page.evaluate(f"document.querySelectorAll('details').forEach(each => {{ each.open = {opened} }})")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        inner = page.evaluate(
            "[...document.querySelectorAll('main *')].filter(each => getComputedStyle(each).overflowX == 'auto'"
            " && each.scrollWidth > each.clientWidth).map(each => each.tagName)"
        )
        assert inner == [], "nothing scrolls sideways inside the page either"


def test_figures_keep_their_headings_on_a_phone(open_report):
    page = open_report("sessions")
    page.set_viewport_size({"width": 390, "height": 800})
    row = page.locator("tr", has_text="of the actor's correction").first
    told = row.evaluate("row => [...row.cells].map(cell => getComputedStyle(cell, '::before').content)")
    assert told == ["none", '"Before: "', '"After: "', '"Difference [95 %]: "', '"Turns: "', '"Sessions: "', "none"]


def test_a_report_names_environment_model_and_seed(open_report):
    page = open_report("quickstart")
    expect(page.locator(".facts")).to_contain_text("Environmenttoolbox")
    expect(page.locator(".facts")).to_contain_text("Modeltiny")
    assert page.title() == "toolbox, tiny, seed 3: run report"


def test_long_lists_and_texts_are_folded(open_report):
    page = open_report("too much")
    last = page.get_by_text("kind_29", exact=True).first
    assert last.is_hidden()
    page.get_by_text("22 more").first.click()
    expect(last).to_be_visible()
    whole = page.get_by_text("the last line of a long turn").first
    assert whole.is_hidden()
    page.locator("summary", has_text="characters").nth(1).click()
    expect(whole).to_be_visible()


def test_a_report_is_dark_where_the_system_is(open_report):
    page = open_report("quickstart")
    page.emulate_media(color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
