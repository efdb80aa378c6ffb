"""What a run of tests is asked and what it tells. Only `passed` is passed: an id without a record has not passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..tasks.repository import Repository
from ..tasks.task import Symbol


@dataclass(frozen=True)
class RunRequest:
    """One run on the original tree with some edits."""

    edits: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    tests: tuple[str, ...] = ()
    """Files to collect; empty: run none."""
    only: frozenset[str] | None = None
    """Keep these ids of what was collected; None: all."""
    imports: tuple[str, ...] = ()
    """Modules to import first, in a process of their own; tests are not run where one fails."""
    imports_must_work: bool = True
    reverse: bool = False
    trace: bool = False
    stop_at_failure: bool = False
    timeout_s: float = 120.0
    cpu_s: int = 0
    """Of processor time for the tests, in whole seconds; 0: no limit."""

    def as_json(self) -> dict[str, Any]:
        values = dict(vars(self))
        return values | {"edits": dict(self.edits), "only": None if self.only is None else sorted(self.only)}


@dataclass(frozen=True)
class TestRun:
    outcomes: dict[str, str]
    collect_errors: dict[str, str]
    import_errors: dict[str, str]
    ran: dict[str, frozenset[Symbol]]
    """Per test, when it was traced."""
    at_import: frozenset[Symbol]
    loaded: tuple[str, ...]
    """Modules from outside the tree that were loaded at the end."""
    timed_out: bool
    output: str
    cpu_s: float
    wall_s: float
    cpu_by_test: dict[str, float] = field(default_factory=dict[str, float])
    """With what it started; to a hundredth of a second."""

    __test__ = False

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == "passed")


def read_run(answer: Mapping[str, Any]) -> TestRun:
    entries: list[dict[str, Any]] = answer.get("entries", [])
    tests = [entry for entry in entries if "test" in entry]
    outcomes: dict[str, str] = {}
    for entry in tests:
        before = outcomes.get(entry["test"], "passed")
        outcomes[entry["test"]] = entry["outcome"] if before == "passed" else before
    return TestRun(
        outcomes=outcomes,
        collect_errors={entry["collect_error"]: entry["text"] for entry in entries if "collect_error" in entry},
        import_errors=dict(answer["import_errors"]),
        ran={entry["test"]: _symbols(entry["ran"]) for entry in tests if entry["ran"]},
        at_import=_symbols(seen for entry in entries for seen in entry.get("at_import", ())),
        loaded=tuple(sorted({name for entry in entries for name in entry.get("loaded", ())})),
        timed_out=bool(answer.get("timed_out")),
        output=str(answer.get("output", "")),
        cpu_s=float(answer["cpu_s"]),
        wall_s=float(answer["wall_s"]),
        cpu_by_test={entry["test"]: float(entry["cpu_s"]) for entry in tests},
    )


def _symbols(seen: Iterable[list[str]]) -> frozenset[Symbol]:
    return frozenset(Symbol(file=file, name=name) for file, name in seen)


def module_names(repository: Repository) -> dict[str, str]:
    """Importable name -> file, for every source file but programs (`__main__`)."""
    found: dict[str, str] = {}
    for path in repository.source_files:
        root = next((root for root in repository.source_roots if root != "." and path.startswith(f"{root}/")), "")
        parts = path.removeprefix(f"{root}/").removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if all(part.isidentifier() for part in parts) and "__main__" not in parts:
            found[".".join(parts)] = path
    return found
