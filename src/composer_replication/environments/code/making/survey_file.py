"""A coverage map as a JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from composer_replication.runs import write_atomically

from ..tasks.repository import CoverageMap
from ..tasks.task import Symbol


def write_survey(path: Path, coverage: CoverageMap) -> None:
    tests = sorted(coverage.passing)
    number = {test: index for index, test in enumerate(tests)}
    value = {
        "passing": tests,
        "unstable": sorted(coverage.unstable),
        "by_symbol": [
            [symbol.file, symbol.name, sorted(number[test] for test in covering)]
            for symbol, covering in coverage.by_symbol.items()
        ],
        "import_time": sorted([symbol.file, symbol.name] for symbol in coverage.import_time),
        "suite_s": coverage.suite_s,
        "cpu_s": coverage.cpu_s,
        "importable": list(coverage.importable),
        "preload": list(coverage.preload),
        "red_for_agents": sorted(coverage.red_for_agents),
    }
    write_atomically(path, json.dumps(value) + "\n")


def read_survey(path: Path) -> CoverageMap:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tests: list[str] = value["passing"]
    return CoverageMap(
        passing=frozenset(tests),
        unstable=frozenset(value["unstable"]),
        by_symbol={
            Symbol(file=file, name=name): frozenset(tests[index] for index in covering)
            for file, name, covering in value["by_symbol"]
        },
        import_time=frozenset(Symbol(file=file, name=name) for file, name in value["import_time"]),
        suite_s=value["suite_s"],
        cpu_s=value["cpu_s"],
        importable=tuple(value["importable"]),
        preload=tuple(value["preload"]),
        red_for_agents=frozenset(value.get("red_for_agents", ())),
    )
