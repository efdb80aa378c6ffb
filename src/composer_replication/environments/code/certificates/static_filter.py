"""What can be said of a candidate without running anything: its files parse, and its deleted lines are nowhere else.

Such candidates are filtered before they are tried, and counted apart: `does_not_parse`, `twin_elsewhere`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from composer_replication.syntax import parse

from ..tasks.repository import Repository
from ..tasks.task import Candidate, Rejection
from ..tasks.trees import read_text, write_tree
from .leaks import leak_certificate


def filtered(candidate: Candidate, repository: Repository) -> Rejection | None:
    for path, text in candidate.edits.items():
        if text is not None and path.endswith(".py"):
            try:
                parse(text)
            except (SyntaxError, ValueError) as error:
                return Rejection(candidate.name, "does_not_parse", f"{path}: {error}")
    return _twin(candidate, repository) if candidate.grader == "tests" else None


def _twin(candidate: Candidate, repository: Repository) -> Rejection | None:
    tree = repository.tree
    originals = {path: read_text(tree, path) for path in candidate.edits if (tree / path).is_file()}
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        write_tree(tree, Path(scratch), candidate.edits)
        certificate = leak_certificate(
            Path(scratch), deleted=originals, symbols=candidate.symbols, packages=repository.packages
        )
    twins = [finding for finding in certificate.hard() if finding.check == "twins"]
    if not twins:
        return None
    return Rejection(candidate.name, "twin_elsewhere", f"{twins[0].path}:{twins[0].line} {twins[0].detail}")
