"""How fast `recompose ingest` is, and how much memory and disk it takes: ratios from one run on one machine.

python benchmarks/ingestion.py [--megabytes 200] [--peers] [--json FILE]
python benchmarks/ingestion.py --against CHECKOUT [--megabytes 200]

The second compares reading, redaction included, with that of another checkout of this repository, in turns.

The corpus is made of the Claude Code sessions in tests/samples, copied with new ids so that nothing is a duplicate.
Other processes slow the clock but hardly the CPU time, so both are measured and the best of a few runs is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

from composer_replication.ingestion.ingest import FileJob, read_file
from composer_replication.ingestion.inputs import find_inputs
from composer_replication.ingestion.readers.claude_code_lines import LoggedRecord, blocks_of, decode, is_bulky

SAMPLES = Path(__file__).parent.parent / "tests" / "samples" / "claude_code"
MB = 1_000_000
REPEATS = 3
PEER_REPEATS = 2
PEER_MEGABYTES = 30
STORE_TURNS = 2000
SET_ASIDE_EXIT = 4
PEERS = {"claude-code-log": "1.7.0", "harbor": "0.25.0"}

UUID = re.compile(rb"\b([0-9a-f]{8})(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)")
API_ID = re.compile(rb"\b(msg|toolu|req)_(?=\w{20})")
SESSION_ID = re.compile(rb'"sessionId":"[^"]*"')

# Runs a command in a process that is small itself: the kernel counts a parent's memory as that of its child.
MEASURE = """
import json, os, resource, subprocess, sys, time
os.sched_setaffinity(0, json.loads(sys.argv[1]))
began = time.perf_counter()
done = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({
    "code": done.returncode, "wall": wall, "cpu": used.ru_utime + used.ru_stime,
    "rss": used.ru_maxrss * 1024, "said": done.stderr[-2000:].decode("utf-8", "replace"),
}))
"""

# Reads a folder with the package that PYTHONPATH names, and prints CPU seconds; tables are built before.
READ = """
import sys, tempfile, time
from pathlib import Path
from composer_replication.ingestion.ingest import FileJob, read_file
from composer_replication.ingestion.inputs import find_inputs
files = find_inputs([Path(sys.argv[1])]).files
with tempfile.TemporaryDirectory() as scratch:
    shard = Path(scratch, "shard.jsonl")
    read_file(FileJob(files[0], shard, True))
    began = time.process_time()
    for item in files:
        read_file(FileJob(item, shard, True))
    print(time.process_time() - began)
"""

# Both peers are measured inside one process, without their start and imports: that is in their favour.
PEER_SCRIPTS = {
    "claude-code-log": """
import json, sys, time
from pathlib import Path
from claude_code_log.converter import load_transcript
began, cpu = time.perf_counter(), time.process_time()
found = sum(len(load_transcript(path, silent=True)) for path in sorted(Path(sys.argv[1]).glob("*.jsonl")))
print(json.dumps({"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "found": found}))
""",
    # The package says it needs Python 3.12, but the converter takes only these two names from it.
    "harbor": """
import json, sys, tempfile, time, typing
from pathlib import Path
import typing_extensions
if sys.version_info < (3, 12):
    typing.override, typing.TypedDict = typing_extensions.override, typing_extensions.TypedDict
from harbor.agents.installed.claude_code import ClaudeCode
with tempfile.TemporaryDirectory() as root:
    folders = [Path(root, str(number)) for number, _ in enumerate(Path(sys.argv[1]).glob("*.jsonl"))]
    for folder, path in zip(folders, sorted(Path(sys.argv[1]).glob("*.jsonl"))):
        (folder / "sessions" / "projects" / "one").mkdir(parents=True)
        (folder / "sessions" / "projects" / "one" / path.name).symlink_to(path)
    converter, found = ClaudeCode(logs_dir=Path(root)), 0
    began, cpu = time.perf_counter(), time.process_time()
    for folder in folders:
        trajectory = converter.convert_trajectory(folder)
        found += len(trajectory.steps) if trajectory else 0
    print(json.dumps({"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "found": found}))
""",
}


class Cost(NamedTuple):
    """Seconds by the clock and of CPU; bytes of the largest process, where one was started."""

    wall: float
    cpu: float
    rss: int = 0


class Target(NamedTuple):
    what: str
    measured: str
    wanted: str
    met: bool


# The corpus


def sample_sessions() -> list[tuple[str, bytes]]:
    """Sessions of main agents; every line ends with a newline."""
    paths = sorted(path for path in SAMPLES.glob("*.jsonl.zst") if "__agent-" not in path.name)
    sessions = [(path.name.removesuffix(".jsonl.zst"), _unpacked(path)) for path in paths]
    return [(name, data if data.endswith(b"\n") else data + b"\n") for name, data in sessions]


def _unpacked(path: Path) -> bytes:
    with path.open("rb") as raw:
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read()


def with_new_ids(data: bytes, copy: int) -> bytes:
    """The same session with its own uuids, message ids and tool ids; references among them still hold."""
    shift = copy * 0x9E3779B1
    data = UUID.sub(lambda match: b"%08x" % ((int(match[1], 16) + shift) & 0xFFFFFFFF), data)
    return API_ID.sub(rb"\1_%dx" % copy, data)


def copies() -> Iterator[tuple[str, bytes]]:
    """Copies of all samples without end."""
    sessions, copy = sample_sessions(), 0
    while True:
        copy += 1
        for name, data in sessions:
            yield f"{copy:03}-{name}.jsonl", with_new_ids(data, copy)


def write_folder(folder: Path, size: int) -> int:
    """Sessions of at least `size` bytes together; returns how many bytes."""
    folder.mkdir()
    written = 0
    for name, data in copies():
        (folder / name).write_bytes(data)
        written += len(data)
        if written >= size:
            return written
    raise AssertionError("copies never end")


def write_session(path: Path, is_enough: Callable[[bytes], bool]) -> int:
    """Lines of many copies as one session in one file, until a line is enough; returns how many bytes."""
    with path.open("wb") as out:
        for _, data in copies():
            for line in SESSION_ID.sub(b'"sessionId":"5e550000-0000-4000-8000-000000000000"', data).splitlines(True):
                if is_enough(line):
                    return out.tell()
                out.write(line)
    raise AssertionError("copies never end")


def reaches_bytes(size: int) -> Callable[[bytes], bool]:
    left = size

    def is_enough(line: bytes) -> bool:
        nonlocal left
        left -= len(line)
        return left < 0

    return is_enough


def reaches_turns(turns: int) -> Callable[[bytes], bool]:
    parsed = Parsed()

    def is_enough(line: bytes) -> bool:
        parsed.add(line)
        return len(parsed.calls) > turns

    return is_enough


# The bare parser


class Parsed:
    """Turns with their tool calls, and results by call: what parsing has to find out, without the texts."""

    def __init__(self) -> None:
        self.calls: dict[str | None, list[str | None]] = {}
        self.results: dict[str | None, bool] = {}

    def add(self, line: bytes) -> None:
        if is_bulky(line):
            return
        try:
            record = decode(line)
        except ValueError:
            return
        if record.message is None or record.isSidechain:
            return
        if record.type == "assistant":
            self._add_turn(record)
        else:
            for block in blocks_of(record.message.content):
                if block.type == "tool_result":
                    self.results[block.tool_use_id] = block.is_error is True

    def _add_turn(self, record: LoggedRecord) -> None:
        message = record.message
        if message is None or record.isApiErrorMessage or message.model == "<synthetic>":
            return
        calls = self.calls.setdefault(message.id, [])
        calls += [block.id for block in blocks_of(message.content) if block.type == "tool_use"]

    @property
    def answered(self) -> int:
        return sum(call in self.results for calls in self.calls.values() for call in calls)


def parse_folder(folder: Path) -> tuple[int, int]:
    """Turns, and tool calls that have a result."""
    turns = answered = 0
    for path in sorted(folder.iterdir()):
        parsed = Parsed()
        with path.open("rb") as lines:
            for line in lines:
                parsed.add(line)
        turns += len(parsed.calls)
        answered += parsed.answered
    return turns, answered


def load_folder(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        with path.open("rb") as lines:
            for line in lines:
                try:
                    orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue


# Measuring


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


@contextmanager
def on_one_core() -> Generator[None]:
    before = cores()
    os.sched_setaffinity(0, before[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def timed(work: Callable[[], object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def best(costs: list[Cost]) -> Cost:
    """The best of each, not necessarily of one run; of memory the most."""
    walls, cpus, sizes = zip(*costs, strict=True)
    return Cost(min(walls), min(cpus), max(sizes))


def in_turns(*works: Callable[[], Cost], repeats: int) -> list[Cost]:
    """The best of each kind of work, done alternately so that a slow moment of the machine hits all."""
    rounds = [[work() for work in works] for _ in range(repeats)]
    return [best(list(costs)) for costs in zip(*rounds, strict=True)]


def ingest(source: Path, run: Path, on: list[int], *options: str) -> Cost:
    """The command in a process of its own. The run stays until the next one with the same name."""
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "composer_replication", "ingest", str(source), "-o", str(run), *options]
    launcher = [sys.executable, "-S", "-c", MEASURE, json.dumps(on), *command]
    done = json.loads(subprocess.run(launcher, stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603
    if done["code"] not in (0, SET_ASIDE_EXIT):
        raise RuntimeError(f"recompose ingest failed: {done['said']}")
    return Cost(done["wall"], done["cpu"], done["rss"])


def counts_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "ingestion" / "manifest.json").read_text(encoding="utf-8"))["counts"]


def speed(size: int, cost: Cost) -> dict[str, float]:
    rates = {"mb_per_s": size / MB / cost.wall, "mb_per_cpu_s": size / MB / cost.cpu}
    rates |= {"wall_s": cost.wall, "cpu_s": cost.cpu}
    return _rounded(rates | ({"max_rss_mb": cost.rss / MB} if cost.rss else {}))


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


# The benchmarks


def compare_parsers(corpus: Path, size: int) -> dict[str, Any]:
    with on_one_core():
        loads, parser = in_turns(
            lambda: timed(lambda: load_folder(corpus)), lambda: timed(lambda: parse_folder(corpus)), repeats=REPEATS
        )
        turns, answered = parse_folder(corpus)
    return {
        "orjson": speed(size, loads),
        "bare_parser": speed(size, parser),
        "ratio": round(loads.wall / parser.wall, 3),
        "cpu_ratio": round(loads.cpu / parser.cpu, 3),
        "turns": turns,
        "answered_calls": answered,
    }


def measure_command(corpus: Path, size: int, scratch: Path) -> dict[str, Any]:
    run, every = scratch / "run", cores()
    small = min(corpus.iterdir(), key=lambda path: path.stat().st_size)
    one, both, unredacted = in_turns(
        lambda: ingest(corpus, run, every[-1:]),
        lambda: ingest(corpus, run, every),
        lambda: ingest(corpus, run, every[-1:], "--allow-unredacted"),
        repeats=REPEATS,
    )
    return {
        "one_core": speed(size, one),
        "all_cores": speed(size, both) | {"cores": len(every)},
        "speed_up": round(one.wall / both.wall, 3),
        "one_core_unredacted": speed(size, unredacted),
        "one_small_file": speed(small.stat().st_size, ingest(small, scratch / "small", every[-1:])),
        "counts": {name: counts_of(run)[name] for name in ("files", "traces", "turns", "tool_calls", "tool_results")},
    }


def measure_memory(corpus: Path, size: int, scratch: Path) -> dict[str, Any]:
    """One core, so that one process does everything."""
    used: dict[str, float] = {}
    for label, wanted in (("small", size // 10), ("large", size)):
        path = scratch / f"{label}.jsonl"
        used[f"{label}_session_input_mb"] = write_session(path, reaches_bytes(wanted)) / MB
        used[f"{label}_session_rss_mb"] = ingest(path, scratch / "run", cores()[-1:]).rss / MB
        path.unlink()
    used["folder_rss_mb"] = ingest(corpus, scratch / "run", cores()[-1:]).rss / MB
    used["difference_mb"] = used["large_session_rss_mb"] - used["small_session_rss_mb"]
    used["mb_per_mb_of_input"] = used["difference_mb"] / (
        used["large_session_input_mb"] - used["small_session_input_mb"]
    )
    return _rounded(used)


def measure_store(scratch: Path) -> dict[str, Any]:
    path, run = scratch / "turns.jsonl", scratch / "run"
    size = write_session(path, reaches_turns(STORE_TURNS))
    ingest(path, run, cores())
    records = run / "ingestion" / "records.jsonl.zst"
    packed, lines = records.stat().st_size, len(_unpacked(records))
    return {
        "turns": counts_of(run)["turns"],
        "input_bytes": size,
        "records_bytes": packed,
        "records_uncompressed_bytes": lines,
        "ratio": round(packed / size, 4),
        "uncompressed_ratio": round(lines / size, 4),
    }


def measure_peers(scratch: Path, megabytes: int) -> dict[str, Any]:
    folder = scratch / "peers"
    size = write_folder(folder, megabytes * MB)
    try:
        python = peer_python()
    except subprocess.CalledProcessError as error:
        return {"did_not_install": _last_line(error.stderr)}
    with on_one_core():
        ours = in_turns(
            lambda: ingest(folder, scratch / "run", cores()),
            lambda: timed(lambda: read_folder(folder, scratch)),
            repeats=REPEATS,
        )
        theirs = {name: peer_speed(python, name, folder, size) for name in PEERS}
    command, in_process = (speed(size, cost) for cost in ours)
    for rates in theirs.values():
        if "mb_per_cpu_s" in rates:
            rates["ours_over_theirs"] = round(in_process["mb_per_cpu_s"] / rates["mb_per_cpu_s"], 2)
            rates["our_command_over_theirs"] = round(command["mb_per_cpu_s"] / rates["mb_per_cpu_s"], 2)
    return {"input_bytes": size, "our_command": command, "ours_in_process": in_process, **theirs}


def measure_against(other: Path, size: int, repeats: int) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "corpus")
        written = write_folder(folder, size)
        works = [partial(_read_with, checkout.resolve(), folder) for checkout in (Path(__file__).parents[1], other)]
        ours, theirs = (written / MB / cost.cpu for cost in in_turns(*works, repeats=repeats))
    rows = [f"| this checkout | {ours:.1f} |", f"| the other | {theirs:.1f} |"]
    return "\n".join(
        ["| reading and redaction | MB per CPU s |", "|---|---|", *rows, f"| ratio | {ours / theirs:.2f} |"]
    )


def _read_with(checkout: Path, folder: Path) -> Cost:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-c", READ, str(folder)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    return Cost(0.0, float(done.stdout))


def read_folder(folder: Path, scratch: Path) -> None:
    """What the command does to each file, in this process: read, redact, write."""
    for item in find_inputs([folder]).files:
        read_file(FileJob(item, scratch / "shard.jsonl", redact=True))


def peer_speed(python: Path, name: str, folder: Path, size: int) -> dict[str, Any]:
    costs: list[Cost] = []
    found = 0
    for _ in range(PEER_REPEATS):
        command = [str(python), "-c", PEER_SCRIPTS[name], str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
        if done.returncode:
            return {"version": PEERS[name], "did_not_run": _last_line(done.stderr)}
        result = json.loads(done.stdout.splitlines()[-1])
        costs.append(Cost(result["wall"], result["cpu"]))
        found = result["found"]
    return {"version": PEERS[name], "found": found, **speed(size, best(costs))}


def peer_python() -> Path:
    """Python of an environment with the peers in it, made when it is first asked for."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "composer-replication" / f"peers-py{sys.version_info[0]}{sys.version_info[1]}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        log = ["claude-code-log==" + PEERS["claude-code-log"], "shortuuid"]
        # Without what it needs to run agents, and without the price list: the converter does less, and is no slower.
        converter = ["--no-deps", "--ignore-requires-python", "harbor==" + PEERS["harbor"]]
        for packages in (log, converter):
            command = [str(python), "-m", "pip", "install", "--quiet", *packages]
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        ready.touch()
    return python


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


# The result


def targets(results: dict[str, Any]) -> list[Target]:
    parsers, command, memory, store = (results[name] for name in ("parsers", "command", "memory", "store"))
    found = command["counts"]["turns"]
    return [
        Target("turns that the bare parser finds", str(parsers["turns"]), f"= {found}", parsers["turns"] == found),
        _at_least("bare parser over orjson.loads, one core, CPU", parsers["cpu_ratio"], 0.8),
        _at_least("default command on one core, MB per CPU second", command["one_core"]["mb_per_cpu_s"], 35),
        *_peer_targets(results.get("peers", {})),
        _at_least(f"speed-up on {command['all_cores']['cores']} cores", command["speed_up"], 1.5),
        _at_most("growth of memory, MB per MB of input", memory["mb_per_mb_of_input"], 0.1),
        _at_most(f"store over input, {store['turns']} turns", store["ratio"], 1.2),
        _at_most("the same, uncompressed", store["uncompressed_ratio"], 1.2),
    ]


def _peer_targets(peers: dict[str, Any]) -> list[Target]:
    """These stand for the absolute speed on machines that are too slow for it."""
    wanted = {"claude-code-log": 1.3, "harbor": 10.0}
    return [
        _at_least(f"or: default command over {name}, CPU", peers[name]["our_command_over_theirs"], factor)
        for name, factor in wanted.items()
        if "our_command_over_theirs" in peers.get(name, {})
    ]


def _at_least(what: str, value: float, wanted: float) -> Target:
    return Target(what, f"{value:.2f}", f"≥ {wanted}", value >= wanted)


def _at_most(what: str, value: float, wanted: float) -> Target:
    return Target(what, f"{value:.3f}", f"≤ {wanted}", value <= wanted)


def report(results: dict[str, Any]) -> str:
    tables = (speed_table(results), memory_table(results), target_table(results))
    return "\n\n".join("\n".join(rows) for rows in tables)


def speed_table(results: dict[str, Any]) -> list[str]:
    parsers, command, peers = results["parsers"], results["command"], results.get("peers", {})
    speeds = {
        "orjson.loads, one core": parsers["orjson"],
        "bare parser, one core": parsers["bare_parser"],
        "default command, one core": command["one_core"],
        "default command, all cores": command["all_cores"],
        "command --allow-unredacted, one core": command["one_core_unredacted"],
        "default command, one small file": command["one_small_file"],
        "default command, peers' files": peers.get("our_command", {}),
        "the same without start and store": peers.get("ours_in_process", {}),
        **{f"{name} {PEERS[name]}": peers.get(name, {}) for name in PEERS},
    }
    rows = ["| speed | MB/s | MB per CPU s | wall s | CPU s |", "|---|---|---|---|---|"]
    for what, rates in speeds.items():
        if "wall_s" in rates:
            numbers = (rates[name] for name in ("mb_per_s", "mb_per_cpu_s", "wall_s", "cpu_s"))
            rows.append(f"| {what} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    return rows


def memory_table(results: dict[str, Any]) -> list[str]:
    memory, folder = results["memory"], results["corpus"]["bytes"] / MB
    used = [
        ("one session", memory["small_session_input_mb"], memory["small_session_rss_mb"]),
        ("one session", memory["large_session_input_mb"], memory["large_session_rss_mb"]),
        ("many files", folder, memory["folder_rss_mb"]),
    ]
    rows = ["| memory | input MB | largest RSS MB |", "|---|---|---|"]
    return rows + [f"| {what} | {size:.0f} | {rss:.0f} |" for what, size, rss in used]


def target_table(results: dict[str, Any]) -> list[str]:
    rows = ["| target | measured | wanted | met |", "|---|---|---|---|"]
    return rows + [f"| {what} | {value} | {wanted} | {met} |" for what, value, wanted, met in targets(results)]


def machine() -> dict[str, Any]:
    packages = ("orjson", "msgspec", "zstandard", "google-re2", "ahocorasick-rs")
    return {
        "cores": len(cores()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_at_start": os.getloadavg()[0],
        "packages": {name: version(name) for name in packages},
    }


def measure(megabytes: int, with_peers: bool, scratch: Path) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine()}
    corpus = scratch / "corpus"
    size = write_folder(corpus, megabytes * MB)
    results["corpus"] = {"bytes": size, "files": len(list(corpus.iterdir()))}
    results["parsers"] = compare_parsers(corpus, size)
    results["command"] = measure_command(corpus, size, scratch)
    results["memory"] = measure_memory(corpus, size, scratch)
    results["store"] = measure_store(scratch)
    if with_peers:
        results["peers"] = measure_peers(scratch, min(PEER_MEGABYTES, megabytes))
    return results | {"targets": [target._asdict() for target in targets(results)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200, help="size of the corpus")
    parser.add_argument("--peers", action="store_true", help="also measure claude-code-log and harbor's converter")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="only compare the reading with another one's")
    parser.add_argument("--repeats", type=int, default=5, help="with --against: how often each reads")
    options = parser.parse_args()
    if options.against:
        print(measure_against(options.against, options.megabytes * MB, options.repeats))
        return
    with tempfile.TemporaryDirectory() as scratch:
        results = measure(options.megabytes, options.peers, Path(scratch))
    print(report(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
