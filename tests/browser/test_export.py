"""A run as a folder: opened from file://, every page works and nothing is asked for over the network."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from composer_replication.progress import Silent
from composer_replication.viewer.api import Library
from composer_replication.viewer.export import export
from composer_replication.viewer.server import page_files
from tests.viewed_run import HOSTILE, add_trace, long_trace, viewed_run

from .conftest import watch


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = viewed_run(tmp_path_factory.mktemp("exported") / "run")
    add_trace(made, long_trace(120, HOSTILE[:-1]))
    return made


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    made = tmp_path_factory.mktemp("export") / "made"
    library = Library([run.path])
    export(library, made, page_files(), Silent())
    library.close()
    return made


@pytest.fixture
def offline(context, folder):
    context.set_offline(True)
    found = watch(context)
    found.page.goto(f"{(folder / 'index.html').as_uri()}#/")
    found.page.wait_for_selector("h1")
    yield found
    assert found.problems == []
    assert not [url for url in found.requests if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("Traces", "claude_code"), ("Sites", "type error"), ("Hints", "Reminder"), ("Replies", "qwen/big"),
        ("Pairs", "type error"), ("Rollouts", "task/1"), ("Tokens", "policy"), ("Training", "step 2 of"),
        ("Monitor", "rm tests/test_a.py"),
    ],
)  # fmt: skip
def test_pages_open_without_a_server(offline, page, text):
    offline.page.get_by_role("navigation").get_by_role("link", name=page, exact=True).click()
    expect(offline.page.locator("main")).to_contain_text(text)


def test_records_open_from_lists_with_filters(offline):
    page = offline.page
    page.get_by_role("navigation").get_by_role("link", name="Sites").click()
    page.get_by_label("error kind").select_option("type_error")
    expect(page.locator(".filters .total")).to_have_text("1")
    page.locator(".row a").first.click()
    expect(page.locator("h1")).to_have_text("✕ type error")
    expect(page.locator(".columns article")).to_have_count(3)
    expect(page.get_by_label("blind")).to_have_count(0)
    page.locator(".facts").get_by_role("link", name="type error").click()
    expect(page.locator(".side.good")).to_contain_text("look")


@pytest.mark.parametrize(
    ("text", "total"), [("site_id", "0"), ("null", "0"), ("true", "0"), ("Type Error", "1"), ("leave nothing out", "1")]
)
def test_a_list_is_filtered_by_what_its_rows_say(offline, text, total):
    offline.page.get_by_role("navigation").get_by_role("link", name="Sites").click()
    offline.page.get_by_label("filter rows by text").fill(text)
    expect(offline.page.locator(".filters .total")).to_have_text(total)


@pytest.mark.parametrize(("link", "total"), [("no majority 1", "1"), ("doubtful pairs: 1", "1")])
def test_a_number_of_the_funnel_opens_as_many_rows(offline, link, total):
    offline.page.get_by_role("navigation").get_by_role("link", name="Run").click()
    offline.page.get_by_role("link", name=link).click()
    expect(offline.page.locator(".filters .total")).to_have_text(total)


def test_a_transcript_goes_on_past_its_first_window_and_shows_glyphs(offline):
    page = offline.page
    page.get_by_role("navigation").get_by_role("link", name="Traces").click()
    page.locator(".row", has_text="test").locator("a").click()
    expect(page.locator("#turn-0")).to_contain_text("⟦202E⟧gnp.exe")
    page.locator(".scroller").evaluate("element => { element.scrollTop = element.scrollHeight }")
    expect(page.locator("#turn-119")).to_contain_text("␛[2J")


def test_search_says_that_an_export_does_not_hold_all_texts(context, run, tmp_path, monkeypatch):
    monkeypatch.setattr("composer_replication.viewer.export.MAX_SEARCHED_CHARS", 2000)
    library = Library([run.path])
    export(library, tmp_path / "cut", page_files(), Silent())
    library.close()
    page = watch(context).page
    page.goto(f"{(tmp_path / 'cut/index.html').as_uri()}#/run/search?q=nowhere-to-be-found")
    expect(page.get_by_role("status")).to_have_text("0 and more")
    expect(page.locator("main")).to_contain_text("Nothing found in the part that was searched.")


def test_search_works_without_a_server(offline):
    page = offline.page
    page.keyboard.press("/")
    expect(page.get_by_label("search the run")).to_be_focused()
    page.keyboard.type("required parameter")
    expect(page.locator(".results mark").first).to_have_text("required")
    page.locator(".results a").first.click()
    expect(page.locator("h1")).to_be_visible()
