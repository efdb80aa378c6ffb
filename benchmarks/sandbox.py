"""What a sandbox adds to running a command: `/bin/true` inside each backend against a plain `subprocess.run` of it.

    python benchmarks/sandbox.py [--rounds 200] [--json benchmarks/results/sandbox.json]     under a minute

The backends and the plain run take turns, so that other work on the machine hits them alike. Also measured: to open a
sandbox on a small tree and to close it. Backends that do not work here are named with the reason. Writes only the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from composer_replication.environments.code.sandbox import SandboxSpec, available_backends, open_sandbox
from composer_replication.environments.code.sandbox.limits import controllers

TARGET_MS = 25.0
TREE_FILES, FILE_BYTES, OPENINGS, PROCESSOR_ROUNDS, WARM_UP = 100, 4096, 20, 50, 5


def milliseconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def processor_ms(backend: str | None) -> float:
    """Per command, of everything from opening to closing; other work on the machine changes it little."""

    def spent_s() -> float:
        found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in found)

    before_s = spent_s()
    if backend is None:
        for _ in range(PROCESSOR_ROUNDS):
            plain()
    else:
        with open_sandbox(SandboxSpec(), backend) as sandbox:
            for _ in range(PROCESSOR_ROUNDS):
                sandbox.exec(["/bin/true"])
    return round(1000 * (spent_s() - before_s) / PROCESSOR_ROUNDS, 2)


def plain() -> None:
    subprocess.run(["/bin/true"], capture_output=True, check=True)


def summary(times_ms: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(median(times_ms), 2),
        "p90_ms": round(quantiles(times_ms, n=10)[-1], 2),
        "min_ms": round(min(times_ms), 2),
        "n": len(times_ms),
    }


def exec_times(backends: list[str], rounds: int) -> dict[str, list[float]]:
    sandboxes = {name: open_sandbox(SandboxSpec(), name) for name in backends}
    actions: dict[str, Callable[[], Any]] = {"plain": plain}
    for name, sandbox in sandboxes.items():
        actions[name] = lambda sandbox=sandbox: sandbox.exec(["/bin/true"])
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + WARM_UP):
        for name, action in actions.items():
            spent_ms = milliseconds(action)
            if turn >= WARM_UP:
                times[name].append(spent_ms)
    for sandbox in sandboxes.values():
        sandbox.kill()
    return times


def opening_times(backend: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(TREE_FILES):
            Path(folder, f"file{number}.py").write_bytes(b"#" * FILE_BYTES)
        spec = SandboxSpec(tree=Path(folder))
        return [milliseconds(lambda: open_sandbox(spec, backend).kill()) for _ in range(OPENINGS)]


def measure(rounds: int) -> dict[str, Any]:
    states = available_backends()
    working = [name for name, why in states.items() if not why]
    times = exec_times(working, rounds)
    plain_ms = median(times["plain"])
    report: dict[str, Any] = {
        "machine": {
            "kernel": platform.release(),
            "cores": os.cpu_count(),
            "load": [round(load, 1) for load in os.getloadavg()],
            "root": os.getuid() == 0,
            "control_groups": [f"v{place.version}:{'+'.join(place.names)}" for place in controllers()],
        },
        "target_ms_over_plain": TARGET_MS,
        "plain": {**summary(times["plain"]), "processor_ms": processor_ms(None)},
        "unavailable": {name: why for name, why in states.items() if why},
        "backends": {},
    }
    for name in working:
        over_ms = median(times[name]) - plain_ms
        report["backends"][name] = {
            "exec": {**summary(times[name]), "processor_ms": processor_ms(name)},
            "p50_over_plain_ms": round(over_ms, 2),
            "within_target": over_ms <= TARGET_MS,
            "open_and_close": summary(opening_times(name)),
        }
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = measure(arguments.rounds)
    print(f"plain        p50 {report['plain']['p50_ms']:6.1f} ms")
    for name, found in report["backends"].items():
        times = found["exec"]
        print(
            f"{name:12} p50 {times['p50_ms']:6.1f} ms  p90 {times['p90_ms']:6.1f} ms"
            f"  over plain {found['p50_over_plain_ms']:6.1f} ms"
            f"  processor {times['processor_ms']:6.1f} ms  open and close {found['open_and_close']['p50_ms']:6.1f} ms"
        )
    for name, why in report["unavailable"].items():
        print(f"{name:12} {why}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
