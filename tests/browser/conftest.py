"""A Chromium that is already on the machine, and `recompose view` as a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from .large_run import large_run

WAIT_MS = 15_000
expect.set_options(timeout=WAIT_MS)
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    assert program, "no Chromium: apt-get install -y chromium"
    return program


class Served(NamedTuple):
    """`address` has the token, `origin` has not."""

    address: str
    origin: str
    pid: int
    run: Path


class Watched(NamedTuple):
    """A page, and what it asked for and complained of."""

    page: Page
    requests: list[str]
    problems: list[str]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Root may not use Chromium's own sandbox; in a container everything is root.
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    return large_run(tmp_path_factory.mktemp("viewed") / "run").path


@pytest.fixture(scope="session")
def served(run_folder) -> Iterator[Served]:
    command = [sys.executable, "-m", "composer_replication", "view", str(run_folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        yield Served(address, address.partition("/?")[0], process.pid, run_folder)
        process.terminate()


@pytest.fixture
def context(browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800})
    made.set_default_timeout(WAIT_MS)
    yield made
    made.close()


@pytest.fixture
def watched(context, served) -> Watched:
    """Signed in: the printed address gave its cookie. No page is open yet."""
    context.request.get(served.address)
    return watch(context)


def watch(context: BrowserContext) -> Watched:
    found = Watched(context.new_page(), [], [])
    context.on("request", lambda request: found.requests.append(request.url))
    found.page.on("pageerror", lambda error: found.problems.append(str(error)))
    found.page.on("console", lambda said: found.problems.append(said.text) if said.type == "error" else None)
    found.page.on("dialog", lambda dialog: (found.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
    return found
