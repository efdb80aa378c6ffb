"""Whether every stage keeps its memory as a run grows, how much CPU it takes, and whether a killed run comes out alike.

python benchmarks/scale.py [--megabytes 100 400 4000] [--samples FOLDER] [--scratch FOLDER] [--json FILE]

The corpus is made of the sample sessions, copied until the size is reached. Each copy gets other uuids and ids of
messages and calls, and in its texts the words "the", "that" and "and" carry the number of the copy: no turn is a
duplicate, and what refers to what stays. Folders and file names have the number too.

The real verbs run as processes. CPU seconds are those of the process and of all that it started (getrusage of a
process that adopts the orphans), because other work on the machine slows the clock more than the CPU time. Memory is
the largest sum over all these processes, looked at ten times a second. `orjson.loads` of the same files, line by line,
is measured in the same run. Teachers are a loopback server that answers every request with its first tool: the replies
mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import zstandard
from ingestion import with_new_ids

MB = 1_000_000
SAMPLES = Path(__file__).parent.parent / "tests" / "samples"
SUFFIXES = (".jsonl", ".json", ".traj")
NOT_SESSIONS = {"expected.json"}
WORDS = re.compile(rb" (the|that|and) ")
STAGES = ("ingestion", "sites", "hints")
TEACHERS = ("one/qwen-a", "two/mistral-b", "three/glm-c")
FLAT = 0.2
SET_ASIDE_EXIT = 4

# Adopts the orphans of a command, so that the CPU time of worker processes is counted, and watches the memory of all.
MEASURE = """
import ctypes, json, os, resource, subprocess, sys, threading, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
peak, over, page = 0, threading.Event(), os.sysconf("SC_PAGE_SIZE")
def below(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            own = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return own + [one for child in own for one in below(child)]
def watch():
    global peak
    while not over.wait(0.1):
        total = 0
        for pid in below(os.getpid()):
            try:
                with open(f"/proc/{pid}/statm") as file:
                    total += int(file.read().split()[1]) * page
            except (OSError, IndexError):
                continue
        peak = max(peak, total)
threading.Thread(target=watch, daemon=True).start()
began = time.perf_counter()
with open(os.devnull, "wb") as nowhere:
    process = subprocess.Popen(sys.argv[1:], stdout=nowhere, stderr=subprocess.PIPE)
    said = process.communicate()[1]
wall, code = time.perf_counter() - began, process.returncode
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
over.set()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": code, "wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "rss": peak,
                  "said": said[-2000:].decode("utf-8", "replace")}))
"""

LOADS = """
import sys
from pathlib import Path
import orjson
for path in sorted(Path(sys.argv[1]).rglob("*")):
    if path.is_file():
        with path.open("rb") as lines:
            for line in lines:
                try:
                    orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
"""

# What `recompose train` does before its first step; a byte-level tokenizer stands in for that of a model.
EXAMPLES = """
import sys, tempfile
from pathlib import Path
from types import SimpleNamespace
from composer_replication.runs import Run
from composer_replication.stages.taught import make_examples
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from tests.unit.conftest import _chatml_tokenizer
run = Run.open(Path(sys.argv[1]))
policy = Policy("chatml", None, ChatTokens(_chatml_tokenizer("<|pad|>")))
with tempfile.TemporaryDirectory() as folder:
    made = make_examples(run, policy, 4096, Path(folder))
    made.sessions.save()
    print(len(made.stored), sum(len(example.ids) for example in made.stored), file=sys.stderr)
"""


# The corpus


def samples(folder: Path) -> list[tuple[Path, bytes]]:
    found: list[tuple[Path, bytes]] = []
    for path in sorted(folder.rglob("*")):
        plain = Path(str(path).removesuffix(".zst"))
        if not path.is_file() or plain.suffix not in SUFFIXES or path.name in NOT_SESSIONS or "agent-" in path.name:
            continue
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
        found.append((plain.relative_to(folder), data))
    return found


def another(data: bytes, copy: int) -> bytes:
    return WORDS.sub(rb" \g<1>%d " % copy, with_new_ids(data, copy))


def write_corpus(folder: Path, size: int, source: Path) -> tuple[int, int]:
    """Bytes and files."""
    written = files = copy = 0
    sessions = samples(source)
    while True:
        copy += 1
        for name, data in sessions:
            path = folder / f"{copy:05}" / name.parent / f"{copy:05}-{name.name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            written, files = written + path.write_bytes(another(data, copy)), files + 1
            if written >= size:
                return written, files


# Measuring


def measured(*command: str | Path) -> dict[str, Any]:
    launcher = [sys.executable, "-S", "-c", MEASURE, *map(str, command)]
    done = json.loads(subprocess.run(launcher, stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603
    if done["code"] not in (0, SET_ASIDE_EXIT):
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {done['said']}")
    return done


def verb(*words: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", "composer_replication", *words]


def rates(size: int, done: dict[str, Any]) -> dict[str, float]:
    return {
        "cpu_s": round(done["cpu_s"], 2),
        "wall_s": round(done["wall_s"], 1),
        "mb_per_cpu_s": round(size / MB / done["cpu_s"], 1),
        "peak_rss_mb": round(done["rss"] / MB, 1),
    }


def hashes(run: Path) -> dict[str, str]:
    return {noun: json.loads((run / noun / "manifest.json").read_text(encoding="utf-8"))["sha256"] for noun in STAGES}


@contextmanager
def teachers() -> Iterator[list[str]]:
    """Options that name three families at a loopback server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Teacher)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield [
            word
            for number, model in enumerate(TEACHERS)
            for word in ("--teacher", f"t{number}=http://127.0.0.1:{server.server_port}/v1,{model}")
        ]
    finally:
        server.shutdown()


class _Teacher(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        function = {
            "name": request["tools"][0]["function"]["name"] if request.get("tools") else "none",
            "arguments": "{}",
        }
        call = {"id": "c", "type": "function", "function": function}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        body = {
            "id": "x",
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 10},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


# The benchmarks


def through_the_stages(corpus: Path, size: int, run: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"orjson": rates(size, measured(sys.executable, "-c", LOADS, corpus))}
    found["ingest"] = rates(size, measured(*verb("ingest", corpus, "-o", run)))
    found["sites"] = rates(size, measured(*verb("sites", run)))
    found["hint"] = rates(size, measured(*verb("hint", run)))
    with teachers() as options:
        found["replay --dry-run"] = rates(size, measured(*verb("replay", run, *options, "--dry-run")))
        found["replay"] = rates(size, measured(*verb("replay", run, *options, "--max-usd", "1000")))
    found["pair"] = rates(size, measured(*verb("pair", run)))
    return found


def examples(scratch: Path, megabytes: int, source: Path) -> dict[str, Any]:
    corpus, run = scratch / "sessions", scratch / "run"
    size, _ = write_corpus(corpus, megabytes * MB, source)
    for words in (("ingest", corpus, "-o", run), ("sites", run), ("hint", run)):
        measured(*verb(*words))
    found = rates(size, measured(sys.executable, "-c", EXAMPLES, run))
    for folder in (corpus, run):
        shutil.rmtree(folder)
    return found


def killed_and_resumed(corpus: Path, run: Path, walls: dict[str, float], kills: int, seed: int) -> dict[str, Any]:
    """Each stage is killed, with all that it started, after a random share of the time that it takes."""
    rng, killed = random.Random(seed), dict.fromkeys(("ingest", "sites", "hint"), 0)
    for name in killed:
        words = ("ingest", corpus, "-o", run) if name == "ingest" else (name, run)
        for _ in range(kills):
            process = subprocess.Popen(  # noqa: S603
                verb(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            try:
                process.wait(rng.uniform(0.2, 0.9) * walls[name])
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed[name] += 1
        measured(*verb(*words))
    return {"killed": killed, "hashes": hashes(run)}


def grown(corpus: Path, run: Path, source: Path) -> dict[str, Any]:
    """One more copy of all samples, and the stages again."""
    for name, data in samples(source):
        path = corpus / "grown" / name.parent / f"grown-{name.name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(another(data, 10**6))
    size = sum(path.stat().st_size for path in (corpus / "grown").rglob("*") if path.is_file())
    words = {"ingest": ("ingest", corpus, "-o", run), "sites": ("sites", run), "hint": ("hint", run)}
    return {"added_mb": round(size / MB, 1)} | {
        name: rates(size, measured(*verb(*command))) for name, command in words.items()
    }


def table(results: dict[str, Any]) -> str:
    sizes = list(results["sizes"].values())
    lines = ["| stage | " + " | ".join(f"{one['mb']:,.0f} MB: CPU s, memory" for one in sizes) + " | memory flat |"]
    lines.append("|---" * (len(sizes) + 2) + "|")
    for name in sizes[0]["stages"]:
        cells = [one["stages"].get(name) for one in sizes]
        shown = [f"{one['cpu_s']:.1f}, {one['peak_rss_mb']:.0f} MB" if one else "not run" for one in cells]
        lines.append(f"| {name} | " + " | ".join(shown) + f" | {results['flat'].get(name, '')} |")
    return "\n".join(lines)


def flatness(sizes: dict[str, Any]) -> dict[str, str]:
    """The largest run against the smallest."""
    found: dict[str, str] = {}
    for name in next(iter(sizes.values()))["stages"].keys() - {"orjson"}:
        memory = [one["stages"][name]["peak_rss_mb"] for one in sizes.values() if name in one["stages"]]
        change = memory[-1] / memory[0] - 1
        found[name] = f"{'yes' if change <= FLAT else 'NO'} ({change:+.0%})"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[100, 400, 4000])
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--scratch", type=Path, help="where the corpora and runs go; the system's temporary folder")
    parser.add_argument(
        "--examples-megabytes", type=int, nargs="*", default=[5, 20], help="rendering with a tokenizer is slow"
    )
    parser.add_argument("--kills", type=int, default=3, help="of each stage, at the smallest size; 0: none")
    parser.add_argument("--json", type=Path, help="results; sizes that are in the file already stay")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent.parent / "src"), str(Path(__file__).parent.parent)]
    )
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    results: dict[str, Any] = {"machine": machine, "sizes": {}}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="scale-") as scratch:
        results.setdefault("examples", {})
        results["examples"] |= {
            each: examples(Path(scratch), each, options.samples) for each in options.examples_megabytes
        }
        for megabytes in sorted(options.megabytes):
            corpus, run = Path(scratch, "sessions"), Path(scratch, "run")
            size, files = write_corpus(corpus, megabytes * MB, options.samples)
            stages = through_the_stages(corpus, size, run)
            counts = json.loads((run / "ingestion" / "manifest.json").read_text(encoding="utf-8"))["counts"]
            told = {
                "load": os.getloadavg()[0],
                "mb": size / MB,
                "files": files,
                "stages": stages,
                "hashes": hashes(run),
            }
            told["counts"] = {name: counts[name] for name in ("files", "traces", "turns", "tool_calls")}
            to_hints = [stages[name] for name in ("ingest", "sites", "hint")]
            told["through_hints"] = {
                "cpu_s": round(sum(one["cpu_s"] for one in to_hints), 1),
                "wall_s": round(sum(one["wall_s"] for one in to_hints), 1),
                "times_orjson": round(sum(one["cpu_s"] for one in to_hints) / stages["orjson"]["cpu_s"], 1),
            }
            told["ingest_over_orjson"] = round(stages["ingest"]["cpu_s"] / stages["orjson"]["cpu_s"], 2)
            if options.kills and megabytes == min(options.megabytes):
                walls = {name: stages[name]["wall_s"] for name in ("ingest", "sites", "hint")}
                again = killed_and_resumed(corpus, Path(scratch, "killed"), walls, options.kills, seed=0)
                results["killed"] = again | {"same_hashes": again["hashes"] == told["hashes"]}
            told["grown"] = grown(corpus, run, options.samples)
            results["sizes"][str(megabytes)] = told
            print(json.dumps({megabytes: told}), flush=True)
            for folder in (corpus, run):
                shutil.rmtree(folder)
    results["sizes"] = dict(sorted(results["sizes"].items(), key=lambda item: int(item[0])))
    results["flat"] = flatness(results["sizes"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(table(results))
    print(json.dumps({"examples": results["examples"]}))
    print(json.dumps({"killed": results.get("killed")}))


if __name__ == "__main__":
    main()
