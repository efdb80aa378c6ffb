"""The core of a step knows no trainer: what it needs of one is handed to it."""

import ast
from pathlib import Path

import pytest

import composer_replication

TRAINING = Path(composer_replication.__file__).parent / "training"
CORE = [
    TRAINING / "channels.py",
    TRAINING / "stored" / "policy_gradient.py",
    *sorted((TRAINING / "step").glob("*.py")),
    *sorted((TRAINING / "lessons").glob("*.py")),
]
TRAINERS = {"trl", "transformers", "accelerate", "peft", "backends", "train"}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(TRAINING)))
def test_it_imports_no_trainer(path):
    assert not TRAINERS & set(imported(path))


def test_an_import_would_be_found():
    assert TRAINERS & set(imported(TRAINING / "backends" / "trl" / "trainer.py"))
