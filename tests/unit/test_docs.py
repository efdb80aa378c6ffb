"""What the documents say is what the code does."""

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

from composer_replication.config import Config, quickstart_config

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("docs/engines/*.md"),
    *ROOT.glob("design/*.md"),
]


def test_the_documented_settings_are_those_of_the_quickstart():
    text = (ROOT / "docs" / "configuration.md").read_text()
    block, of_others = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert Config.model_validate(tomllib.loads(block)) == quickstart_config("tiny", 0)
    defaults = {**Config().environment.model_dump(), "name": "code", "tasks": ("tasks",)}
    assert Config.model_validate(tomllib.loads(of_others)).environment.model_dump() == defaults


def test_the_readmes_config_for_own_traces_leaves_the_toolbox_out():
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    config, on_code = (Config.model_validate(tomllib.loads(block)) for block in blocks)
    assert on_code.environment.name == "code"
    assert (config.training.rollouts, config.warmup.steps, config.ingestion.rollouts) == (False, 0, 0)
    assert config.model.name not in ("tiny", "smollm2")


def test_the_readme_shows_the_results_that_are_kept():
    table = (ROOT / "experiments" / "000-quickstart" / "results" / "table.md").read_text()
    assert table in (ROOT / "README.md").read_text()


def test_the_kept_table_comes_from_the_kept_results():
    sys.path.insert(0, str(ROOT / "experiments" / "000-quickstart"))
    import run

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
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
