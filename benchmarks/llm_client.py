"""What the paid client costs in CPU, latency and memory, against the bare HTTP library and against two SDKs.

    python benchmarks/llm_client.py [--peers] [--json FILE]

The server is on loopback and answers after 50 ms. Each side runs in a process of its own, in turns, best of three; the
CPU is that process's alone, threads included. `--peers` installs the OpenAI SDK, litellm and other HTTP libraries into
environments of their own. Targets are ratios and differences within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKER = HERE / "llm_worker.py"
PEERS = {
    "openai": "openai==3.49.0",
    "litellm": "litellm==1.106.2",
    "httpx2": "httpx2==2.16.0",
    "niquests": "niquests==3.21.2",
}
AT_A_TIME, CALLS, REPEATS = 256, 2_000, 3
PER_S, OPEN_CALLS = 50, 500
MANY_CALLS = 50_000
DRY_CALLS = 10_000
TEACHERS = 4


@contextmanager
def serving(latency_s: float) -> Generator[str]:
    command = [sys.executable, str(WORKER), "serve", str(latency_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        try:
            assert server.stdout
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


def worker(python: str, library: str, base_url: str, loop: str, calls: int, rate: int) -> dict[str, Any]:
    command = [python, str(WORKER), "ask", library, base_url, loop, str(calls), str(rate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def peer_python(name: str) -> str:
    """Python of an environment with one peer in it, made when it is first asked for."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "composer-replication" / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEERS[name]], check=True)  # noqa: S603
        (folder / "complete").touch()
    return str(python)


def measure_cpu(base_url: str, with_peers: bool) -> dict[str, Any]:
    sides = [(sys.executable, "aiohttp"), (sys.executable, "ours")]
    if with_peers:
        sides += [(peer_python(name), name) for name in PEERS]
    found: dict[str, list[dict[str, Any]]] = {name: [] for _, name in sides}
    for _ in range(REPEATS):
        for python, name in sides:
            found[name].append(worker(python, name, base_url, "closed", CALLS, AT_A_TIME))
    return {name: min(runs, key=lambda run: run.get("cpu_ms_per_call", 1e9)) for name, runs in found.items()}


def measure_latency(base_url: str) -> dict[str, Any]:
    """In turns, the better of two: a busy machine has bad moments."""
    runs = {
        name: [worker(sys.executable, name, base_url, "open", OPEN_CALLS, PER_S) for _ in range(2)] for name in SIDES
    }
    return {name: min(found, key=lambda run: run["p99_ms"]) for name, found in runs.items()}


SIDES = ("aiohttp", "ours")


def measure_runs(base_url: str, scratch: Path) -> dict[str, Any]:
    """A run of many calls through the command: its dry run, and how soon a resumed one sends its first request."""
    from llm_runs import make_run, settle_all_but

    dry, big = scratch / "dry", scratch / "big"
    teachers = [
        part
        for name in "abcd"[:TEACHERS]
        for part in ("--teacher", f"{name}={base_url},{name}/model,0.1,0.4", "--alias", f"{name}=m")
    ]
    make_run(dry, DRY_CALLS // TEACHERS)
    started = time.monotonic()
    plan, _ = recompose("replay", dry, *teachers, "--dry-run", "--json")
    dry_s = time.monotonic() - started
    make_run(big, MANY_CALLS // TEACHERS)
    settle_all_but(big, 8, base_url, TEACHERS)
    first_at(base_url)
    started_at = time.time()
    resumed, peak_mb = recompose("replay", big, *teachers, "--max-usd", "100", "--json")
    asked_at = first_at(base_url)
    return {
        "dry_run_s": round(dry_s, 2),
        "dry_run_calls": plan["calls"],
        "resume_s": round(asked_at - started_at, 2) if asked_at else None,
        "resume_whole_s": round(time.time() - started_at, 2),
        "resumed_calls": resumed["calls"],
        "resumed_peak_mb": peak_mb,
    }


def first_at(base_url: str) -> float | None:
    with urllib.request.urlopen(f"{base_url}/first", timeout=10) as response:  # noqa: S310
        return json.load(response)["first_at"]


def recompose(*arguments: object) -> tuple[dict[str, Any], int]:
    """What the command prints, and the most memory it had, in MB."""
    command = [sys.executable, "-m", "composer_replication", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout
    told = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"{command} ended with {status}"
    return json.loads(told), used.ru_maxrss // 1024


def targets(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """What, seen, and the most that is allowed."""
    cpu, latency, runs = results["cpu"], results["latency"], results["runs"]
    ours, memory = cpu["ours"]["cpu_ms_per_call"], results["memory"]["resident_mb"]
    found = [("CPU over the bare library, ms per call", ours - cpu["aiohttp"]["cpu_ms_per_call"], 0.5)]
    for name in ("openai", "litellm"):
        if "cpu_ms_per_call" in cpu.get(name, {}):
            found.append((f"CPU over {name}'s", ours / cpu[name]["cpu_ms_per_call"], 1 / 3))
    return [
        *found,
        (f"added p99 at {PER_S} calls/s, ms", latency["ours"]["p99_ms"] - latency["aiohttp"]["p99_ms"], 20),
        (f"memory growth from {MANY_CALLS // 5} to {MANY_CALLS} calls, MB", memory[-1] - memory[0], 15),
        (f"resume of {MANY_CALLS} calls, s", runs["resume_s"], 5),
        (f"dry run of {runs['dry_run_calls']} calls, s", runs["dry_run_s"], 10),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    load = os.getloadavg()
    with serving(0.05) as base_url, tempfile.TemporaryDirectory() as scratch:
        results: dict[str, Any] = {
            "machine": {
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "load_at_start": round(load[0], 2),
            },
            "cpu": measure_cpu(base_url, given.peers),
            "latency": measure_latency(base_url),
            "memory": worker(sys.executable, "ours", base_url, "closed", MANY_CALLS, AT_A_TIME),
            "runs": measure_runs(base_url, Path(scratch)),
        }
    results["targets"] = [
        {"what": what, "seen": round(seen, 3), "at_most": round(most, 3), "met": seen <= most}
        for what, seen, most in targets(results)
    ]
    for name, run in results["cpu"].items():
        print(f"{name:<10} {run}")
    for target in results["targets"]:
        verdict = "met " if target["met"] else "MISS"
        print(f"{verdict}  {target['what']:<52} {target['seen']:>9} (at most {target['at_most']})")
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
