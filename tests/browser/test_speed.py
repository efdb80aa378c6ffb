"""A run of 5,000 pairs and a trace of 10,000 steps: the first paint, frames while it scrolls, memory of the server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

MAX_PAINT_MS, MAX_FRAME_MS, MAX_SERVER_MB = 1000, 50, 300
TRIES = 3
"""Other work on the machine only ever makes it slower, so the first try that is fast enough counts."""
SCROLL = """async (element) => {
    const frames = [];
    let last = performance.now();
    while (frames.length < 90) {
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - last);
        last = now;
        element.scrollTop += 240;
    }
    return frames.sort((a, b) => a - b)[Math.floor(0.95 * frames.length)];
}"""
CONTENT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@pytest.fixture
def trace(context, served, watched):
    answer = context.request.get(f"{served.origin}/api/run/list", params={"kind": "trace", "agent": "test"})
    return answer.json()["rows"][0]["trace_id"]


@pytest.mark.parametrize("address", ["run", "pairs"])
def test_the_first_paint_comes_within_a_second(watched, served, address):
    page = watched.page

    def opened() -> float:
        page.goto("about:blank")
        page.goto(f"{served.origin}/#/run/{address}")
        page.wait_for_selector(".funnel li, .row[aria-rowindex]")
        return page.evaluate("performance.now()")

    assert any(opened() < MAX_PAINT_MS for _ in range(TRIES)), "with rows in it"
    assert page.evaluate(CONTENT) < MAX_PAINT_MS


def test_a_transcript_scrolls_smoothly(watched, served, trace):
    page = watched.page
    page.goto(f"{served.origin}/#/run/trace/{trace}?turn=4000")
    expect(page.locator("#turn-4000")).to_be_visible()
    assert any(page.locator(".scroller").evaluate(SCROLL) < MAX_FRAME_MS for _ in range(TRIES))
    assert page.locator(".turn").count() < 60
    expect(page.locator(".turn").nth(1)).to_contain_text("line 0")


def test_a_list_of_pairs_scrolls_smoothly(watched, served):
    page = watched.page
    page.goto(f"{served.origin}/#/run/pairs")
    expect(page.locator(".row").nth(5)).to_be_visible()
    assert any(page.locator(".scroller").evaluate(SCROLL) < MAX_FRAME_MS for _ in range(TRIES))


def test_the_server_stays_small(watched, served, trace):
    for turn in range(0, 10_000, 1000):
        watched.page.request.get(f"{served.origin}/api/run/trace", params={"id": trace, "from": turn, "to": turn + 50})
    watched.page.request.get(f"{served.origin}/api/run/search", params={"q": "printed", "limit": 200})
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{served.pid}/status").read_text())
    assert peak
    assert int(peak[1]) / 1024 < MAX_SERVER_MB
