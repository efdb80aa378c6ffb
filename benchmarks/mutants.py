"""How many small mistakes the tests notice: random mutants of one package, each with the tests that reach its line.

Reads `src/composer_replication/PACKAGE`, writes one JSON file that a second start with the same sample goes on with.
pytest collects once; every mutant is a fork of that process with other code in the package's functions, so nothing on
disk changes.
A mutant is killed when a test fails, or takes several times as long as without it. What only tests in other processes,
values made at import, or tests beyond `--seconds` would notice counts as survived: the score is a lower bound.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import math
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from mutations import mutations, with_mutation

ROOT = Path(__file__).parents[1]
TESTS = {
    "llm": "unit/llm unit/llm_edges unit/llm_ledger unit/llm_reconcile unit/dialects unit/http_answers"
    " unit/provider_words unit/askable unit/batching unit/ledger_opening unit/fork unit/agent unit/site_reader"
    " unit/roster unit/viewer_doubts unit/replay unit/replay_stage unit/judge unit/panel unit/useless_teachers"
    " faults/money faults/time",
    "pairs": "unit/pairs unit/pairs_tiers unit/pairs_calibrate unit/pairs_canonical unit/pair_sides unit/pair_report"
    " unit/export unit/askable unit/valid_calls property/canonical property/vote",
    "losses": "unit/losses unit/hidden_divergence unit/preference unit/compose unit/prime_rl unit/token_weights"
    " unit/distillation_options unit/verl_backend property/divergence property/preference",
}
NEEDS_A_GPU = {"rows_triton.py"}


def wilson(killed: int, n: int) -> dict[str, float]:
    z, share = 1.96, killed / n
    middle, width = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return {"mean": share, "lo": (middle - width) / (1 + z * z / n), "hi": (middle + width) / (1 + z * z / n), "n": n}


def codes(module: CodeType) -> dict[tuple[str, int], CodeType]:
    found = {(module.co_qualname, module.co_firstlineno): module}
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            found |= codes(constant)
    return found


def replace_code(file: Path, number: int) -> bool:
    """Puts the mutant into every function of the file that lives. False where Python cannot: a closure lost a name."""
    new = codes(compile(with_mutation(file.read_text(), number), str(file), "exec", dont_inherit=True))
    changed = False
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper):
            thing.cache_clear()  # answers from before the mutation
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == str(file):
            code = new.get((thing.__code__.co_qualname, thing.__code__.co_firstlineno))
            if code is not None:
                try:
                    thing.__code__ = code
                except ValueError:
                    return False
                changed = True
    return changed


class Mutants:
    """Runs instead of pytest's own loop over the collected tests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.package = ROOT / "src" / "composer_replication" / options.package
        self.failed = False
        self.result = json.loads(options.json.read_text()) if options.json.exists() else {"mutants": []}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()  # `tests/conftest.py` hides what was collected from `gc`, where functions are looked up
        reach = self.reached(session.items)
        items = {item.nodeid: item for item in session.items}
        chosen = self.choose()
        done = {(mutant["file"], mutant["place"]) for mutant in self.result["mutants"]}
        running: dict[int, tuple[dict, float]] = {}
        queue = [mutant for mutant in chosen if (mutant["file"], mutant["place"]) not in done]
        deadline = time.monotonic() + self.options.minutes * 60
        while running or (queue and time.monotonic() < deadline):
            while queue and len(running) < self.options.at_once and time.monotonic() < deadline:
                mutant = queue.pop(0)
                names, cost_s = self.tests_of(mutant, reach)
                if not names:
                    self.keep(mutant | {"outcome": "survived", "tests": 0})
                    continue
                pid = self.fork(lambda m=mutant, n=names, c=cost_s: self.run_mutant(m, [items[name] for name in n], c))
                running[pid] = mutant | {"tests": len(names)}, time.monotonic() + 60 + 20 * cost_s
            self.collect(running)
        return True

    def choose(self) -> list[dict]:
        every = [
            {"file": str(file.relative_to(self.package)), "place": number, "line": line, "kind": kind}
            for file in sorted(self.package.rglob("*.py"))
            if file.name not in NEEDS_A_GPU
            for number, line, kind in mutations(file.read_text())
        ]
        sample = {"package": self.options.package, "seed": self.options.seed, "possible": len(every)}
        if not sample.items() <= self.result.items():
            self.result = {"mutants": []}  # of another sample, or of a package that was another then
        self.result |= sample
        return random.Random(self.options.seed).sample(every, min(self.options.mutants, len(every)))

    def tests_of(self, mutant: dict, reach: dict) -> tuple[list[str], float]:
        """The quickest tests that run the line, as many as fit into the seconds; one at least."""
        line = f"{mutant['file']}:{mutant['line']}"
        names, total = [], 0.0
        for name, (seconds, lines) in sorted(reach.items(), key=lambda entry: entry[1][0]):
            if line in lines and (not names or total + seconds <= self.options.seconds):
                names.append(name)
                total += seconds
        return names, total

    def fork(self, work: Callable[[], int]) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        code = 9
        try:
            code = work()
        finally:
            os._exit(code)

    def run_mutant(self, mutant: dict, items: list[pytest.Item], cost_s: float) -> int:
        limit = int(10 + 5 * cost_s)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        if not replace_code(self.package / mutant["file"], mutant["place"]):
            return 5
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return 1
        return 0

    def collect(self, running: dict[int, tuple[dict, float]]) -> None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            mutant, _ = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            outcome = {0: "survived", 1: "killed", 5: "not applicable"}.get(code, "timeout" if code < 0 else "crashed")
            self.keep(mutant | {"outcome": outcome})
        elif not pid:
            time.sleep(0.02)
        for child, (_, until) in running.items():
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)

    def keep(self, mutant: dict) -> None:
        mutants = [*self.result["mutants"], mutant]
        counted = [each for each in mutants if each["outcome"] != "not applicable"]
        killed = sum(each["outcome"] != "survived" for each in counted)
        self.result |= {"score": wilson(killed, max(len(counted), 1)), "mutants": mutants}
        temporary = self.options.json.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.result).replace("}, {", "},\n{") + "\n")
        temporary.replace(self.options.json)
        print(len(mutants), mutant["file"], mutant["line"], mutant["kind"], mutant["outcome"], flush=True)

    def reached(self, items: list[pytest.Item]) -> dict[str, tuple[float, set[str]]]:
        """Each passing test with its seconds and the lines of the package that it runs, found once in a fork."""
        kept = self.options.reach
        if not kept.exists():
            pid = self.fork(lambda: self.trace(items, kept))
            os.waitpid(pid, 0)
        names = {item.nodeid for item in items}
        lines = [json.loads(line) for line in kept.read_text().splitlines()]
        return {name: (seconds, set(reached)) for name, seconds, reached in lines if name in names}

    def trace(self, items: list[pytest.Item], kept: Path) -> int:
        seen: set[str] = set()
        prefix = str(self.package) + os.sep

        def lines(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                seen.add(f"{frame.f_code.co_filename[len(prefix) :]}:{frame.f_lineno}")
            return lines

        def calls(frame: FrameType, _: str, __: object) -> Any:
            return lines if frame.f_code.co_filename.startswith(prefix) else None

        found = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            seen.clear()
            self.failed = False
            started = time.process_time()
            threading.settrace(calls)
            sys.settrace(calls)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.settrace(None)
            if seen and not self.failed:
                found.append(json.dumps([item.nodeid, time.process_time() - started, sorted(seen)]))
        kept.write_text("\n".join(found))
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=TESTS)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10, help="of processor time of the tests that a mutant gets")
    parser.add_argument("--minutes", type=float, default=600, help="no new mutant after these")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument(
        "--reach", type=Path, required=True, help="which test runs which line; remove it after a change"
    )
    options = parser.parse_args()
    files = [f"tests/{name.replace('/', '/test_')}.py" for name in TESTS[options.package].split()]
    arguments = ["-p", "no:xdist", "-p", "no:cacheprovider", "--capture=sys", "--rootdir", str(ROOT), *files]
    os.chdir(ROOT)
    pytest.main(arguments, plugins=[Mutants(options)])


if __name__ == "__main__":
    main()
