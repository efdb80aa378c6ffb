"""Pictures of every page for the docs: `python -m tests.browser.pictures OUT RUN [RUN …]`.

Of each kind the first run that has it is shown. Needs Chromium, as the tests do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, sync_playwright

from .conftest import chromium

HEIGHTS = {"site": 1500, "pair": 1000}
LISTED = ("run", "traces", "sites", "pairs", "rollouts", "training", "compare", "monitor")


def take(out: Path, runs: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "composer_replication", "view", *runs, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout
        address = server.stdout.readline().strip()
        origin = address.partition("/?")[0]
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
            page = context.new_page()
            page.goto(address)
            for name, place in pages(context, origin):
                page.set_viewport_size({"width": 1280, "height": HEIGHTS.get(name, 800)})
                page.goto(f"{origin}/#/{place}")
                page.wait_for_selector("main h1")
                page.wait_for_selector(".waiting", state="detached")
                page.wait_for_timeout(1000)
                page.screenshot(path=out / f"{name}.png")
        finally:
            browser.close()
            server.terminate()


def pages(context: BrowserContext, origin: str) -> Iterator[tuple[str, str]]:
    def asked(run: str, name: str, **query: str) -> Any:
        return context.request.get(f"{origin}/api/{run}/{name}", params=query).json()

    runs = [each["run"] for each in context.request.get(f"{origin}/api/runs").json()["runs"]]
    first = runs[0]
    yield from ((name, f"{first}/{name}") for name in LISTED)
    yield "search", f"{first}/search?q=required+parameter"
    session = asked(first, "list", kind="trace", agent="claude_code")["rows"][0]["trace_id"]
    yield "trace", f"{first}/trace/{session}?turn=5"
    site = asked(first, "list", kind="site", has="pairs", error_kind="tool_not_found")["rows"][0]
    yield "site", f"{first}/site/{site['site_id']}"
    pair = asked(first, "list", kind="pair", state_id=site["state_id"])["rows"][0]["pair_id"]
    yield "pair", f"{first}/pair/{pair}"
    run, rows = next((run, rows) for run in runs if (rows := asked(run, "tokens")["rows"]))
    yield "tokens", f"{run}/tokens/{rows[-1]['id']}"


if __name__ == "__main__":
    take(Path(sys.argv[1]), sys.argv[2:])
