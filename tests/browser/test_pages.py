"""Every page and key of the viewer, in a real browser against the real server."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from composer_replication.runs import locked
from tests.browser.large_run import MARK, PAIRS, STEPS

PAGES = {
    "run": "From traces to training", "traces": "claude_code", "sites": "claude_code/input_validation",
    "hints": "Reminder", "replies": "qwen/big", "pairs": "type error", "rollouts": "task/1", "tokens": "policy",
    "training": "step 2 of", "compare": "task/2", "monitor": "test edit", "search": "All text",
}  # fmt: skip


@pytest.fixture
def page(watched):
    yield watched.page
    assert watched.problems == []


@pytest.fixture
def open_page(page, served):
    """Opens `<page>[/<id>][?<filters>]` of the run."""

    def opened(address: str):
        page.goto(f"{served.origin}/#/run/{address}")
        return page

    return opened


@pytest.fixture
def first(context, served):
    """The first row of a list."""

    def asked(kind: str, **filters: str):
        answer = context.request.get(f"{served.origin}/api/run/list", params={"kind": kind, "limit": "1", **filters})
        return answer.json()["rows"][0]

    return asked


@pytest.mark.parametrize("name", PAGES)
def test_the_header_leads_to_every_page(open_page, page, name):
    open_page("run")
    page.get_by_role("navigation").get_by_role("link", name=name.capitalize(), exact=True).click()
    expect(page.locator("main")).to_contain_text(PAGES[name])
    assert page.get_by_role("navigation").locator("[aria-current]").inner_text().lower() == name


def test_keys_lead_to_pages_and_help_names_them(open_page, page):
    open_page("traces")
    expect(page.locator("h1")).to_have_text("Traces")
    for keys, title in (("g s", "Sites"), ("g p", "Pairs"), ("g l", "Training"), ("g r", "run")):
        for key in keys.split():
            page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Compare")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate("location.hash = '#/run/sites'")
    expect(page.locator("h1")).to_have_text("Sites")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_label("search the run")).to_be_focused()


def test_a_reason_of_the_funnel_opens_the_list_with_its_filter(open_page, page):
    open_page("run")
    expect(page.locator(".funnel")).to_contain_text("no majority 1")
    page.get_by_role("link", name="no majority 1").click()
    expect(page.get_by_role("status")).to_have_text("1")
    assert "verdict=no_majority" in page.url
    page.go_back()
    page.get_by_role("link", name=f"doubtful pairs: {PAIRS:,}").click()
    expect(page.get_by_role("status")).to_have_text(f"{PAIRS:,}")
    page.go_back()
    page.get_by_role("link", name="sites without a pair: 1").click()
    expect(page.locator("h1")).to_have_text("Sites")
    expect(page.get_by_role("status")).to_have_text("1")
    page.go_back()
    page.locator(".funnel").get_by_role("link", name="sites", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("2")


def test_filters_are_in_the_address_and_come_back_from_it(open_page, first):
    page = open_page("sites?lacks=pairs")
    expect(page.locator(".filters .total")).to_have_text("1")
    page.get_by_label("take out the filter lacks").click()
    expect(page.locator(".filters .total")).to_have_text("2")
    page.get_by_label("error kind").select_option("type_error")
    expect(page.locator(".filters .total")).to_have_text("1")
    assert "error_kind=type_error" in page.url
    page.reload()
    expect(page.get_by_label("error kind")).to_have_value("type_error")
    page.get_by_label("filter rows by text").fill("nothing has this text")
    expect(page.locator("main")).to_contain_text("Nothing matches")


def test_a_list_that_is_empty_does_not_blame_a_filter(open_page, served, context):
    answer = context.request.get(f"{served.origin}/api/run/list", params={"kind": "verdict"}).json()
    context.route("**/api/run/list?*", lambda route: route.fulfill(json={**answer, "rows": [], "total": 0}))
    page = open_page("rollouts?sort=-step")
    expect(page.locator("main")).to_contain_text("This run has none.")
    page.get_by_label("filter rows by text").fill("no such text")
    expect(page.locator("main")).to_contain_text("Nothing matches")


def test_rows_are_walked_and_opened_by_keys(open_page, page):
    open_page("pairs")
    expect(page.locator(".filters .total")).to_have_text(f"{PAIRS:,}")
    expect(page.locator(".row").nth(5)).to_be_visible()
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator(".row.current")).to_have_attribute("aria-rowindex", "2")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Pair: type error")


def test_a_list_of_thousands_is_drawn_in_parts(open_page, page):
    open_page("pairs")
    expect(page.locator(".row").nth(5)).to_be_visible()
    page.locator(".scroller").evaluate("element => { element.scrollTop = element.scrollHeight }")
    expect(page.locator(f"[aria-rowindex='{PAIRS}']")).to_be_visible()
    assert page.locator(".row").count() < 100


def test_a_transcript_is_walked_by_turns_and_errors(open_page, page, first):
    trace = first("trace", agent="claude_code")["trace_id"]
    open_page(f"trace/{trace}")
    expect(page.locator("#turn-0")).to_be_visible()
    page.keyboard.press("e")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-2")
    expect(page.locator(".turn.current .mark.site")).to_have_text("✕ type error")
    page.keyboard.press("j")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-3")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-1")
    page.keyboard.press("e")
    page.keyboard.press("e")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-5")
    expect(page.locator("#turn-5 .diff .removed").first).to_be_visible()
    page.keyboard.press("E")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-2")
    assert "turn=2" in page.url
    page.keyboard.press("p")
    page.keyboard.press("r")
    expect(page.locator("#turn-2 .raw").first).to_contain_text('"role": "assistant"')


def test_tool_output_is_folded_until_one_wants_it(open_page, page, first):
    trace = first("trace", agent="claude_code")["trace_id"]
    open_page(f"trace/{trace}?turn=3")
    more = page.locator("#turn-3 .message.tool .more").first
    before = page.locator("#turn-3 .message.tool pre").first.inner_text()
    more.click()
    assert len(page.locator("#turn-3 .message.tool pre").first.inner_text()) > len(before)
    more.click()
    assert page.locator("#turn-3 .message.tool pre").first.inner_text() == before


def test_a_turn_leads_to_the_bytes_of_its_file(open_page, page, first):
    trace = first("trace", agent="claude_code")["trace_id"]
    open_page(f"trace/{trace}?turn=2")
    page.locator("#turn-2 .provenance").click()
    expect(page.locator("#turn-2 .source")).to_contain_text("claude_code_session.jsonl, bytes 14,278 to 17,997")
    expect(page.locator("#turn-2 .source")).to_contain_text("Not redacted")
    expect(page.locator("#turn-2 .source pre")).to_contain_text('"parentUuid"')


def test_a_trace_has_its_own_search(open_page, page, first):
    trace = first("trace", agent="test")["trace_id"]
    open_page(f"trace/{trace}")
    expect(page.locator("#turn-0")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type('"turn 7321 line"')
    page.keyboard.press("Enter")
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-7321", timeout=60_000)
    expect(page.locator("#turn-7321")).to_be_in_viewport()


def test_a_deep_link_opens_a_turn_far_down_and_the_map_leads_back(open_page, page, first):
    trace = first("trace", agent="test")["trace_id"]
    open_page(f"trace/{trace}?turn=9000")
    expect(page.locator("#turn-9000")).to_be_in_viewport()
    expect(page.locator("#turn-9000")).to_contain_text("turn 9000 line 0")
    box = page.locator(".minimap").bounding_box()
    assert box
    page.mouse.click(box["x"] + 5, box["y"] + 0.5 * box["height"])
    expect(page.locator(".turn.current")).to_be_in_viewport()
    landed = int(page.locator(".turn.current").get_attribute("id").removeprefix("turn-"))
    assert abs(landed - STEPS // 2) < STEPS / box["height"] + 1, "within a pixel"


def test_search_finds_text_of_every_kind_and_leads_to_it(open_page, page):
    open_page("search?q=required+parameter")
    result = page.locator(".results li").filter(has_text="site").first
    expect(result.locator("mark")).to_have_text("required", timeout=60_000)
    page.locator(".filters select").select_option("trace")
    expect(page.locator(".results li").filter(has_text="site")).to_have_count(0)
    page.locator(".results a").first.click()
    expect(page.locator(".turn.current")).to_have_attribute("id", "turn-2")


def test_a_site_shows_what_was_seen_the_wrong_turn_hint_and_teachers(open_page, page, first):
    site = first("site", has="pairs")["site_id"]
    open_page(f"site/{site}")
    main = page.locator("main")
    for text in ("What the policy saw", "The required parameter", "hint", "sham", "qwen/big", "0.010 ¢", "500 ms"):
        expect(main).to_contain_text(text)
    expect(page.locator(".columns article")).to_have_count(3)
    expect(page.locator(".columns .good")).to_have_count(2)


def test_any_two_columns_of_a_site_are_compared_by_words(open_page, page, first):
    open_page(f"site/{first('site', has='pairs')['site_id']}")
    rows = page.locator(".arguments-diff tbody tr")
    expect(rows.filter(has_text="prompt")).to_contain_text("absent")
    page.get_by_label("one column").select_option("kimi/big")
    page.get_by_label("other column").select_option("qwen/big")
    expect(page.locator(".arguments-diff thead")).to_have_text("argumentkimi/bigqwen/big")
    expect(rows.filter(has_text="prompt").locator("ins")).to_have_text("see")
    expect(rows.filter(has_text="prompt").locator("del")).to_have_text("look")
    expect(rows.filter(has_text="text").locator("ins")).to_have_text("kimi")
    assert "one=3&other=1" in page.url


def test_what_redaction_took_out_is_a_chip_with_its_kind(open_page, page, first):
    open_page(f"trace/{first('trace', agent='test')['trace_id']}")
    chip = page.locator("#turn-0 .secret").first
    expect(chip).to_have_text("github-pat 1")
    expect(chip).to_have_attribute("title", f"redacted: {MARK}")
    assert "SECRET" not in page.locator("#turn-0").inner_text()


@pytest.mark.parametrize(("task", "text"), [("task/1", "do"), ("task/2", "not its text"), ("task/long", "begin")])
def test_a_task_shows_its_statement_where_the_run_has_it(open_page, page, task, text):
    open_page(f"task/{quote(task, safe='')}")
    expect(page.locator("main")).to_contain_text(text)
    expect(page.get_by_role("heading", name="Statement")).to_have_count(0 if task == "task/2" else 1)


def test_a_blind_vote_is_kept_and_then_shows_who_was_who(open_page, page, first, served):
    site = first("site", has="pairs")["site_id"]
    open_page(f"site/{site}?blind=1")
    expect(page.locator(".columns h3")).to_have_text(["A", "B", "C"])
    assert "qwen/big" not in page.locator(".columns").inner_text()
    page.keyboard.press("2")
    expect(page.locator(".columns .mine")).to_have_count(1)
    expect(page.locator(".columns")).to_contain_text("qwen/big")
    expect(page.locator(".votes")).to_contain_text("Your vote is kept, given blind")
    votes = [json.loads(line) for line in (served.run / "annotations/human.jsonl").read_text().splitlines()]
    assert [vote["value"]["blind"] for vote in votes] == [True]
    open_page("run")
    expect(page.locator(".people")).to_have_text(
        re.compile("teachers' vote, blind votes: kappa 1.00 \\(95%: too few to tell\\), 1 site$")
    )
    page.go_back()
    expect(page.locator(".votes")).to_contain_text("Your vote is kept, given blind")
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="what the policy did")).to_have_attribute("aria-pressed", "true")


def test_a_pair_shows_both_sides_the_arguments_and_why(open_page, page, first):
    open_page(f"pair/{first('pair')['pair_id']}")
    expect(page.locator(".side.good")).to_contain_text('"look"')
    expect(page.get_by_role("heading", name="The request")).to_be_in_viewport()
    expect(page.locator(".side.bad")).not_to_contain_text("look")
    expect(page.locator("tr", has_text="prompt")).to_contain_text("absent")
    expect(page.locator("main")).to_contain_text("Kept because 2 of 3 families gave the same call")
    expect(page.locator("main")).to_contain_text("kimi/big: for Task with other arguments")
    for doubt in ("low agreement 2 of 3 families is the least that counts.", "off-policy The rejected side is"):
        expect(page.get_by_label("reasons to doubt it")).to_contain_text(doubt)
    page.keyboard.press("s")
    expect(page.locator("h1")).to_have_text("✕ type error")


def test_tokens_are_shaded_and_tell_their_values(open_page, page):
    open_page("tokens/1-abcdefabcdefabcd?channel=sdpo")
    token = page.locator(".token").nth(1)
    expect(page.get_by_role("radio", name="sdpo")).to_have_attribute("aria-checked", "true")
    expect(token).to_have_attribute("aria-label", "ne: sdpo 0.125")
    token.hover()
    expect(page.locator(".values")).to_contain_text("0.25")
    page.keyboard.press("c")
    assert "channel=" in page.url
    page.get_by_role("radio", name="entropy").click()
    expect(token).to_have_attribute("aria-label", "ne: entropy 0.5")
    page.locator(".token").nth(1).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".values")).to_contain_text("do")


def test_training_goes_on_while_one_looks(open_page, page, served):
    metrics = served.run / "training/metrics.jsonl"
    metrics.touch()
    open_page("training")
    expect(page.get_by_role("status")).to_contain_text("● live, step 2 of")
    with metrics.open("a") as file:
        file.write('\n{"step":3,"loss":0.3}\n')
    expect(page.get_by_role("status")).to_contain_text("step 3 of", timeout=8000)
    expect(page.get_by_role("img", name="loss, loss 0.3")).to_be_visible()
    page.get_by_role("img", name="loss, loss 0.3").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("img", name="loss, loss 0.4")).to_be_visible()


def test_a_run_that_is_being_trained_says_which_step_it_is_at(open_page, page, served):
    with locked(served.run):
        (served.run / "training/windows.jsonl").write_text("")
        open_page("run")
        expect(page.get_by_role("status")).to_contain_text("Now: training, step ")
        expect(page.locator("main")).not_to_contain_text("Next:")
        page.get_by_role("link", name="curves").click()
        expect(page.get_by_role("heading", name="Training")).to_be_visible()


def test_arms_are_compared_by_interval_and_task(open_page, page):
    open_page("compare")
    expect(page.locator(".estimates")).to_contain_text("25% (")
    expect(page.locator(".estimates")).to_contain_text("+25.0 points")
    expect(page.locator("main")).to_contain_text("10 better, 0 worse, 30 the same")
    expect(page.locator(".dots").first).to_contain_text("0% ↑ 100%")


def test_a_finding_shows_its_lines_and_its_turn(open_page, page):
    open_page("monitor")
    expect(page.locator(".offending")).to_have_text("rm tests/test_a.py")
    page.locator(".finding").get_by_role("link", name="test edit").click()
    expect(page.locator("h1")).to_have_text("test edit")
    expect(page.locator("main")).to_contain_text("The turn")


@pytest.mark.parametrize(("kind", "field"), [("hint", "hint_id"), ("reply", "key"), ("rollout", "id")])
def test_everything_with_an_id_has_a_page_and_says_where_it_came_from(open_page, page, first, kind, field):
    open_page(f"{kind}/{first(kind)[field]}")
    expect(page.locator("h1")).to_contain_text(kind, ignore_case=True)
    if kind != "rollout":
        expect(page.locator(".chain").first).to_contain_text("trace")
        expect(page.locator("main")).to_contain_text({"hint": "Reminder", "reply": "I am qwen"}[kind])


def test_any_id_leads_to_its_page(open_page, page, first):
    pair = first("pair")["pair_id"]
    open_page(f"id/{pair}")
    page.wait_for_url(f"**/#/run/pair/{pair}")


@pytest.mark.parametrize("address", ["nowhere", "trace", "constructor", "__proto__", "%E0%A4%A"])
def test_an_unknown_page_says_so_and_leads_back(open_page, page, address):
    open_page(address)
    expect(page.get_by_role("alert")).to_contain_text("There is no page")
    page.get_by_role("link", name="Back to the run").click()
    expect(page.locator("h1")).to_have_text("run")


def test_the_theme_follows_the_system_until_it_is_chosen(context, served, watched):
    page = watched.page
    page.emulate_media(color_scheme="dark")
    page.goto(served.origin)
    expect(page.locator("h1")).to_be_visible()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_label("theme: auto").click()
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == light
    page.keyboard.press("d")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark


def test_pages_fit_a_phone(open_page, page, first):
    page.set_viewport_size({"width": 390, "height": 800})
    site, pair, trace = (first(kind)[f"{kind}_id"] for kind in ("site", "pair", "trace"))
    for address in (*PAGES, f"site/{site}", f"pair/{pair}", f"trace/{trace}", "tokens/1-abcdefabcdefabcd"):
        open_page(address)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        assert page.locator("main").evaluate("element => element.scrollWidth") <= 390, address
        for name in ("Run", "Search"):
            expect(page.get_by_role("navigation").get_by_role("link", name=name)).to_be_in_viewport(ratio=1)


def test_the_printed_address_opens_the_run(context, served):
    page = context.new_page()
    page.goto(served.address)
    expect(page.locator("h1")).to_have_text("run")
    assert "token" not in page.url


def test_an_old_address_names_the_next_command(browser, served):
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(served.origin)
        expect(page.get_by_role("alert")).to_contain_text("open the address that recompose view printed")
    finally:
        context.close()


def test_faults_are_no_subtraction_and_of_many_reasons_five_are_shown(open_page, page):
    answered = {"noun": "ingestion", "label": "traces", "count": 9, "page": "traces", "links": []}
    many = [{"reason": f"kind_{number}", "count": 60 - number, "filters": None} for number in range(8)]

    def with_many(route):
        answer = route.fetch().json()
        answer["funnel"][0] = {**answered, "drops": many}
        route.fulfill(json=answer)

    page.route(re.compile(r"/api/run/run$"), with_many)
    open_page("run")
    expect(page.locator(".funnel .drop:visible").filter(has_text="kind")).to_have_count(5)
    page.get_by_text("3 more kinds").click()
    expect(page.locator(".funnel .drop:visible").filter(has_text="kind")).to_have_count(8)
    expect(page.locator(".funnel .part").first).to_contain_text("policy")


def test_lists_of_hints_and_sites_say_what_trains(open_page, page):
    open_page("hints")
    head = page.locator(".row.head")
    for title in ("kind", "trace", "turn"):
        expect(head.get_by_role("columnheader", name=title, exact=True)).to_be_visible()
    expect(head.get_by_role("columnheader", name="sham")).to_have_count(0)
    expect(page.locator("[aria-rowindex='1']")).to_contain_text("type error")
    open_page("sites")
    expect(head.get_by_role("columnheader", name="held out")).to_be_visible()
    expect(page.locator("[aria-rowindex='1']")).to_contain_text("Reminder:")
    expect(head.get_by_role("columnheader", name="replies")).to_be_visible()
    open_page("sites?lacks=replies")
    expect(page.locator(".filters .total")).to_have_text("1")
    expect(head.get_by_role("columnheader", name="replies")).to_have_count(0)


def test_a_supplied_system_prompt_is_marked_and_teachers_who_were_not_asked_are_not_counted(open_page, page, first):
    open_page(f"site/{first('site', lacks='replies')['site_id']}")
    expect(page.locator("main")).to_contain_text("No teacher was asked about this state.")
    expect(page.locator("main")).not_to_contain_text("families agree")
    open_page(f"trace/{first('trace', agent='claude_code')['trace_id']}")
    expect(page.locator(".message.system .role").first).to_contain_text("supplied: in no file of yours")
