"""The parts of `swesmith.py` that run with SWE-smith's Python: its modifiers, its log parser, its verdict.

`generate TREE OUT`    every bug that its procedural Python modifiers make of the tree, as JSON
`validate LOGS OUT`    LOGS/reference.log and LOGS/N.log -> its report for each
"""

from __future__ import annotations

import difflib
import json
import random
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swebench.harness.constants import FAIL_TO_PASS, PASS_TO_PASS
from swesmith.bug_gen.procedural import MAP_EXT_TO_MODIFIERS
from swesmith.bug_gen.utils import generate_patch_fast
from swesmith.harness.grading import get_valid_report
from swesmith.profiles.base import registry
from swesmith.profiles.python import PythonProfile

SEED = 24
"""The default of its own command."""


def generate(tree: Path) -> dict[str, Any]:
    """What `python -m swesmith.bug_gen.procedural.generate` does, on a folder instead of a clone."""

    @dataclass
    class Local(PythonProfile):
        owner: str = "local"
        repo: str = "local"
        commit: str = "0" * 40

        def clone(self, dest: str | None = None) -> tuple[str, bool]:
            return str(tree), False

    random.seed(SEED)
    entities = Local().extract_entities()
    bugs: list[dict[str, Any]] = []
    for modifier in MAP_EXT_TO_MODIFIERS[".py"]:
        for entity in entities:
            if not modifier.can_change(entity):
                continue
            bug = modifier.modify(entity)
            if not bug or not generate_patch_fast(entity, bug, str(tree)):
                continue
            file = Path(entity.file_path)
            bugs.append(
                {
                    "modifier": modifier.name,
                    "name": entity.name,
                    "line": entity.line_start,
                    "path": str(file.relative_to(tree)),
                    "text": with_rewrite(file.read_text(), entity, bug.rewrite),
                }
            )
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"entities": len(entities), "bugs": bugs, "cpu_s": used.ru_utime + used.ru_stime}


def with_rewrite(original: str, entity: Any, rewrite: str) -> str:
    """The file with the rewritten entity, indented as its patch does it."""
    lines = original.splitlines(keepends=True)
    pad = " " * entity.indent_level * entity.indent_size
    change = [f"{pad}{line}" if line.strip() else line for line in rewrite.splitlines(keepends=True)]
    last = lines[entity.line_end - 1]
    change[-1] = change[-1].rstrip("\n") + "\n" * (len(last) - len(last.rstrip("\n")))
    changed = lines[: entity.line_start - 1] + change + lines[entity.line_end :]
    assert list(difflib.unified_diff(lines, changed, n=0))
    return "".join(changed)


def validate(logs: Path) -> dict[str, Any]:
    names = list(registry.keys())
    known = next(name for name in names if isinstance(registry.get(name), PythonProfile))
    reports = {}
    for log in sorted(logs.glob("[0-9]*.log")):
        report = get_valid_report(str(log), str(logs / "reference.log"), {"repo": known})
        reports[log.stem] = {"f2p": report[FAIL_TO_PASS], "p2p": len(report[PASS_TO_PASS])}
    return reports


def main() -> None:
    what, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out.write_text(json.dumps({"generate": generate, "validate": validate}[what](source)))


if __name__ == "__main__":
    main()
