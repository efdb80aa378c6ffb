"""Every reason for which a candidate becomes no task has its sentence, on the screen and on the page."""

import ast
from pathlib import Path

import composer_replication.environments.code as code
from composer_replication.cli.env import _show_funnel
from composer_replication.environments.code.tasks.reasons import REASONS

GIVING = {"Rejected": 0, "Rejection": 1}
"""Calls, and which of their arguments is the reason."""


def given_reasons():
    for path in Path(code.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GIVING:
                reason = node.args[GIVING[node.func.id]]
                # One that is passed on was given elsewhere.
                if not isinstance(reason, ast.Attribute):
                    yield ast.literal_eval(reason)


def test_each_reason_that_the_code_gives_has_a_sentence():
    given = set(given_reasons())
    assert len(given) > 30 and given == set(REASONS)


def test_the_page_has_the_same_sentences():
    page = (Path(__file__).parents[2] / "docs" / "code-tasks.md").read_text().splitlines()
    table = page[page.index("| Reason | Says |") + 2 :]
    assert table[: len(REASONS) + 1] == [*(f"| `{reason}` | {said} |" for reason, said in REASONS.items()), ""]


def test_a_person_reads_the_sentence_after_the_reason(tmp_path, capsys):
    result = {"valid": 0, "new": 0, "repository": "r", "tried": 3, "yield": 0.0, "across_files": 0, "proposed": 3}
    _show_funnel(tmp_path, {**result, "filtered": {"too_large": 1, "my_own": 2}, "rejected": {"thin_statement": 3}}, 3)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"thin_statement 3 {REASONS['thin_statement']}" in lines
    assert f"filtered, too_large 1 {REASONS['too_large']}" in lines and "filtered, my_own 2" in lines
