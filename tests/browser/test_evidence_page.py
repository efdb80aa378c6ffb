"""The evidence in short, on the documentation site: a page that a newcomer reads in two screens."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
SCREEN = {"width": 1920, "height": 1080}


def test_the_evidence_ends_within_two_screens(browser: Browser, tmp_path):
    made = [sys.executable, "-m", "sphinx", "-q", "-c", "docs", ".", str(tmp_path)]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True)
    page = browser.new_page(viewport=SCREEN)
    page.goto((tmp_path / "docs" / "evidence.html").as_uri())
    article = page.locator("article")
    assert article.locator("img").count() == 2
    assert all(article.locator("img").evaluate_all("images => images.map(image => image.naturalWidth)"))
    last = article.locator("p").last.bounding_box()
    assert last["y"] + last["height"] <= 2 * SCREEN["height"]
    page.close()
