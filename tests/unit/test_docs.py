"""What the documents say is what the code does."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from composer_replication.config import Config, quickstart_config
from composer_replication.objective import OLD_KEYS
from tests.own_modules import modules_of
from tests.pages import commands

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "design/*.md", "recipes/**/*.md", "experiments/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
PAGES = [path for path in DOCUMENTS if path.relative_to(ROOT).parts[0] in ("README.md", "docs", "design")]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def prose(document):
    """The text without code."""
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(document):
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_the_documented_settings_are_those_of_the_quickstart():
    text = (ROOT / "docs" / "configuration.md").read_text()
    block, of_others = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert Config.model_validate(tomllib.loads(block)) == quickstart_config("tiny", 0)
    defaults = {**Config().environment.model_dump(), "name": "code", "tasks": ("tasks",)}
    assert Config.model_validate(tomllib.loads(of_others)).environment.model_dump() == defaults


def test_pages_name_settings_as_they_are_now():
    symbols = {"alpha_sdpo", "beta_replay", "dpo_beta"}
    old = re.compile(rf"\b({'|'.join(OLD_KEYS.keys() - symbols)})\b")
    found = [(page.name, key) for page in PAGES for key in old.findall(page.read_text())]
    assert found == [("training.md", "sdpo_from")], "where it tells what older files have"


def test_the_readme_has_at_most_700_words():
    """Words of the text and of tables; code, comments and addresses of links do not count."""
    text = re.sub(r"<!--.*?-->", "", prose(ROOT / "README.md"))
    words = re.findall(r"\w[\w'’.,%/+-]*", LINK.sub("]", text))
    assert 500 < len(words) <= 700


def test_the_readmes_results_are_figures_of_the_evidence_page():
    shown = re.findall(r"^\| .*\| ([+−]\d.*?) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    page = (ROOT / "docs/evidence.md").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert len(shown) == 4 and all(row in page for row in shown)


def test_what_the_readme_installs_and_makes_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in ("README.md", "docs/quickstart.md", "docs/your-repository.md", "docs/from-python.md"):
        for words in commands(page):
            if words[0] == "make":
                assert words[1] in targets
            if words[0] == "pip":
                assert words[1:5] == ["install", "--constraint", "constraints.txt", "--editable"]
                assert words[5].strip(".[]") in extras


def test_the_quickstarts_page_shows_the_results_that_are_kept():
    table = (ROOT / "experiments" / "000-quickstart" / "results" / "table.md").read_text()
    assert table in (ROOT / "docs" / "quickstart.md").read_text()


def test_the_kept_table_comes_from_the_kept_results():
    with modules_of(ROOT / "experiments" / "000-quickstart") as module:
        run = module("run")
        assert run.table() == (run.RESULTS / "table.md").read_text()


def test_every_seed_gained():
    import json

    results = [
        json.loads(path.read_text()) for path in (ROOT / "experiments/000-quickstart/results").glob("seed-*.json")
    ]
    assert sorted(result["seed"] for result in results) == [0, 1, 2, 3, 4]
    for result in results:
        assert result["difference"]["n"] >= 256
        assert result["difference"]["lo"] > 0


def of(documents):
    return pytest.mark.parametrize("document", documents, ids=lambda path: str(path.relative_to(ROOT)))


@of(DOCUMENTS)
def test_links_lead_somewhere(document):
    for target, anchor in LINK.findall(prose(document)):
        if target.startswith("http"):
            continue
        there = document.parent / target if target else document
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{target}#{anchor}"


@of(PAGES)
def test_a_page_is_short(document):
    assert document.read_text().count("\n") < 250


@of(DOCUMENTS)
def test_lines_are_short(document):
    text = [line for line in prose(document).splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in text if len(line) > 120] == []
    assert [line for line in text if re.search(r"\S #+ \w", line)] == [], "a heading within a line"


@of(DOCUMENTS)
def test_examples_in_python_are_python_and_import_what_there_is(document):
    for block in re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("composer_replication"):
                found = importlib.import_module(str(node.module))
                assert all(hasattr(found, alias.name) for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize("seed", range(5))
def test_the_kept_outcomes_give_the_kept_numbers(seed):
    import json

    from composer_replication.evaluation.compare import TaskOutcome, compare
    from composer_replication.runs import read_records

    results = ROOT / "experiments" / "000-quickstart" / "results"
    kept = json.loads((results / f"seed-{seed}.json").read_text())
    headline = compare(list(read_records(results / f"seed-{seed}.outcomes.jsonl.zst", TaskOutcome)), {})[0]
    assert headline.difference.model_dump() == kept["difference"]
    assert headline.before.model_dump() == kept["success_before"]
