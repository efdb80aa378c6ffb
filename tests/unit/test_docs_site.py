"""`make docs`: every page and the API reference as a site, without a warning and without a link that leads nowhere."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
MODULES = re.findall(r"^\.\. automodule:: (\S+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)


class References(HTMLParser):
    """What a page loads or links to, and the anchors that it has."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.targets.append((tag, value))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(folder)]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-4000:]
    return {page: References(page) for page in folder.rglob("*.html")}


def test_no_page_needs_a_network_and_every_link_leads_somewhere(site):
    assert len(site) >= 60
    for page, found in site.items():
        for tag, target in found.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert tag == "a", f"{page.name} loads {target}"
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert there.exists(), f"{page.name}: {target}"
            if parts.fragment and there in site:
                assert parts.fragment in site[there].anchors, f"{page.name}: {target}"


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_tells_something_about_every_public_name(site, module):
    [reference] = (found for page, found in site.items() if page.name == "reference.html")
    loaded = importlib.import_module(module)
    own = [name for name, value in vars(loaded).items() if getattr(value, "__module__", None) == module]
    for name in getattr(loaded, "__all__", [name for name in own if not name.startswith("_")]):
        named = getattr(loaded, name)
        if inspect.isclass(named) or inspect.isfunction(named):
            # Dataclasses and named tuples get their signature for want of anything better.
            assert named.__doc__ and not named.__doc__.startswith(f"{name}("), name
            assert f"{module}.{name}" in reference.anchors, name
