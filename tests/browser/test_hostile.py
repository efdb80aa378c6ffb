"""Every text of every answer, names of fields too, is an attack: no script runs, and nothing outside is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import Route, expect

from composer_replication.viewer.api import encoded

from .conftest import watch
from .payloads import PAYLOADS

FIXTURES = Path(__file__).parents[2] / "viewer/fixtures"
KEPT = ({"kind"}, {"kind", "role"})
"""What the page branches on. Every other round attacks roles too, but then no message is of a tool."""
ROUND = 60
"""Payloads in each text: few enough that none is folded away, enough that a handful of rounds has them all."""
PAGES = (
    "run", "traces", "sites", "hints", "replies", "pairs", "rollouts", "trace/x", "site/x", "site/x?blind=1", "pair/x",
    "hint/x", "reply/x", "rollout/x", "task/x", "tokens", "tokens/x", "training", "compare", "monitor", "finding/x",
    "search?q=script",
)  # fmt: skip
ROUNDS = [PAYLOADS[start : start + ROUND] for start in range(0, len(PAYLOADS), ROUND)]


def test_there_are_three_hundred_attacks():
    assert len(PAYLOADS) >= 300


@pytest.fixture(scope="module")
def answers() -> dict[str, object]:
    """One whole answer of each name, of lists one per kind: those with most in them."""
    found: dict[str, object] = {}
    for path in sorted(FIXTURES.glob("*.json"), key=lambda path: path.stat().st_size):
        fixture = json.loads(path.read_text())
        found[name_of(fixture["address"])] = fixture["answer"]
    found["tokens"]["rows"] = [
        {
            "part": "a",
            "ids": [1, 2],
            "pieces": ["a", "b"],
            "mask": [0, 1],
            "entropy": [0.5, 1],
            "channels": {"c": [0, 1]},
        }
    ]
    return found


def name_of(address: str) -> str:
    parts = urlsplit(address)
    name, query = parts.path.split("/")[-1], dict(parse_qsl(parts.query))
    if name == "list":
        return f"list?{query['kind']}"
    return "tokens?list" if name == "tokens" and "id" not in query else name


def attacked(value: object, payloads: tuple[str, ...], kept: set[str], name: str = "") -> object:
    if isinstance(value, dict):
        is_free = name in FREE
        return {
            f"{payloads[place % len(payloads)]}{key}" if is_free or key not in SHAPE else key: attacked(
                inner, payloads, kept, key
            )
            for place, (key, inner) in enumerate(value.items())
        }
    if isinstance(value, list):
        return [attacked(inner, payloads, kept, name if isinstance(inner, str) else "") for inner in value]
    if isinstance(value, str) and name not in kept:
        first = len(value) % len(payloads)
        return "\n".join((*payloads[first:], *payloads[:first]))
    return value


FREE = frozenset({"config", "parsed", "arguments", "channels", "counts", "tally", "not_answered", "tool_schema"})
"""Objects whose names are texts of a run."""


def names_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.isidentifier():
                yield name
            yield from () if name in FREE and isinstance(inner, dict) else names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


SHAPE = frozenset(name for path in FIXTURES.glob("*.json") for name in names_in(json.loads(path.read_text())["answer"]))
"""Names of fields that the page reads. Others, as of arguments, metrics and channels, are attacked too."""


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_no_text_of_an_answer_runs_or_asks_outside(context, served, answers, number):
    watched = watch(context)
    page = watched.page

    def answer(route: Route) -> None:
        name = name_of(route.request.url)
        # As the server sends it: controls and the like are glyphs.
        body = encoded(attacked(answers[name], ROUNDS[number], KEPT[number % 2]))
        route.fulfill(body=body, content_type="application/json")

    context.route("**/api/**", answer)
    page.goto(served.origin)
    page.wait_for_selector("nav a")
    run = page.locator("nav a").first.get_attribute("href").split("/")[1]
    for name in PAGES:
        page.evaluate("address => { location.hash = address }", f"#/{run}/{name}")
        page.wait_for_selector(".waiting", state="detached")
        assert watched.problems == [], name
        page.wait_for_selector("main h1")
        page.evaluate(UNFOLD)
        assert page.locator("main").inner_text().strip(), name
        odd = page.evaluate(ODD)
        assert odd == [], name
    assert page.evaluate("window.ran") is None
    assert not [url for url in watched.requests if not url.startswith((served.origin, "data:"))]
    assert watched.problems == []


UNFOLD = """async () => {
    document.querySelectorAll('.more, .provenance, details:not([open]) > summary').forEach(element => element.click());
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
ODD = """() => [...document.querySelectorAll('*')].filter(element =>
    ['SCRIPT', 'IFRAME', 'IMG', 'OBJECT', 'EMBED', 'VIDEO', 'STYLE', 'BASE', 'MATH', 'IMAGE', 'USE'].includes(
        element.tagName.toUpperCase()) && element.src !== location.origin + '/index.js'
    || [...element.attributes].some(({name}) => name.startsWith('on'))
    || element.tagName === 'A' && element.hasAttribute('href') && !element.getAttribute('href').startsWith('#')
        && !(/^https?:/.test(element.href) && element.rel.includes('noopener')
            && element.textContent === element.getAttribute('href'))
).map(element => element.outerHTML.slice(0, 200))"""


def test_an_address_is_shown_as_text(watched, served):
    watched.page.goto(served.origin)
    watched.page.wait_for_selector("h1")
    for payload in PAYLOADS[:: len(PAYLOADS) // 40]:
        part = quote(payload, safe="")
        watched.page.evaluate("address => { location.hash = address }", f"#/run/{part}/{part}")
        expect(watched.page.get_by_role("alert")).to_be_visible()
    assert watched.page.evaluate("window.ran") is None
    assert watched.problems == []
