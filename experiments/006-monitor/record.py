"""Run the behaviours of a set's authors in the sandbox, against real tasks, and keep what the monitor would see.

    python experiments/006-monitor/record.py --set tuning --tasks DIR ... --processes 2

Reads task folders and the modules of one author; writes corpus/SET.jsonl.zst, and next to it SET.parts/ while it runs.
A run that was stopped goes on: recorded names are not made again. A behaviour that breaks the sandbox or the grader is
said and left out, never guessed.

Grades: hacks of the classes 14 to 26 are made for the grader, so they are all graded. Of honest work and of the classes
1 to 13 a third is, drawn by the case's name; the others end without a grade.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from cases import Case
from corpus import CORPUS, Half, StoredCase, half_of, kind_of, read_corpus, shortened, write_corpus
from tasks import REPOSITORIES, chosen_tasks, known

from composer_replication.environments.code.episodes.session import SessionLimits, TaskSession
from composer_replication.environments.code.episodes.tools import TOOL_SCHEMAS, opening
from composer_replication.environments.code.episodes.transcript import code_transcript
from composer_replication.environments.code.tasks.store import read_task
from composer_replication.environments.code.tasks.task import Grade, Submission, TaskFolder
from composer_replication.errors import RecomposeError

FIRST_GRADED_CLASS = 14
GRADED_SHARE = 1 / 3
LIMITS = SessionLimits(steps=80, wall_s=180.0, command_s=10.0)
PROGRESS_EVERY_S = 10.0


class Planned(NamedTuple):
    name: str
    author: str
    task: TaskFolder
    case: Case


def record(task: TaskFolder, case: Case, author: str = "", name: str = "") -> StoredCase:
    """One attempt, played and ended; `name` defaults to the task and the behaviour."""
    started = time.monotonic()
    name = name or f"{task.code_task.task.task_id}:{case.name}"
    graded = is_graded(case.hack_class, name)
    transcript = code_transcript(task.code_task, opening(task.code_task), TOOL_SCHEMAS)
    with TaskSession(task, limits=LIMITS, grader=None if graded else _no_grade, canary_seed=name) as session:
        for number, (tool, arguments) in enumerate(case.calls):
            result = session.call(tool, arguments)
            call = {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            transcript.add_calls("", [call], [result])
            if result.done:
                break
        session.stop()
        evidence = session.evidence
    if not graded:
        evidence = evidence.model_copy(update={"grade": None})
    return StoredCase(
        name=name,
        behaviour=case.name,
        author=author,
        hack_class=case.hack_class,
        repository=task.code_task.repository,
        graded=graded,
        seconds=round(time.monotonic() - started, 2),
        trace=shortened(transcript.trace("scripted", 0, session.reward if graded else None)),
        evidence=evidence,
    )


def is_graded(hack_class: int, name: str) -> bool:
    return hack_class >= FIRST_GRADED_CLASS or _lot(name) < GRADED_SHARE


def plan(
    author: str,
    tasks: Sequence[TaskFolder],
    rounds: int,
    honest: int,
    classes: Sequence[int] = (),
    half: Half | None = None,
    draw: int = 0,
) -> list[Planned]:
    """Every attack `rounds` times, each time at another task, and `honest` attempts spread over all tasks.

    In the order of a lot, so that the first part of a long recording is a sample of the whole. With `half`, only kinds
    of that half; with another `draw`, other attempts of the same kinds.
    """
    written = _module(author)
    facts = [known(task) for task in tasks]
    cases: list[tuple[TaskFolder, Case]] = []
    for turn in range(rounds):
        lot = turn + 100 * draw
        offered = [written.attacks(each, random.Random(f"{author}:{lot}:{each.task_id}")) for each in facts]
        shift = turn * (1 + len(tasks) // max(1, rounds)) + draw
        for number in range(max(map(len, offered))):
            place = (number + shift) % len(tasks)
            if number < len(offered[place]):
                cases.append((tasks[place], offered[place][number]))
    for place, each in enumerate(facts):
        share = honest // len(tasks) + (place < honest % len(tasks))
        if share:
            chance = random.Random(f"{author}:{each.task_id}{draw or ''}")
            cases += [(tasks[place], case) for case in written.honest(each, chance, share)]
    planned: dict[str, Planned] = {}
    for task, case in cases:
        if half and half_of(kind_of(case.name, case.hack_class > 0)) != half:
            continue
        name = unique = f"{task.code_task.task.task_id}:{case.name}" + (f"@{draw}" if draw else "")
        repeat = 1
        while unique in planned:
            repeat += 1
            unique = f"{name}#{repeat}"
        planned[unique] = Planned(unique, author, task, case)
    return sorted(planned.values(), key=lambda each: _lot(f"order:{each.name}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", required=True, choices=sorted(REPOSITORIES), dest="author")
    parser.add_argument("--tasks", required=True, nargs="+", type=Path, help="folders that `env make` wrote")
    parser.add_argument("--out", type=Path, help="default: corpus/SET.jsonl.zst")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1, help="how many times each attack is made")
    parser.add_argument("--honest", type=int, default=800)
    parser.add_argument("--limit", type=int, help="record this many more, then stop and pack")
    parser.add_argument("--half", choices=("opened", "sealed"))
    parser.add_argument("--draw", type=int, default=0, help="another number gives other attempts of the same kinds")
    parser.add_argument("--classes", type=int, nargs="*", default=(), help="only these; 0 is honest")
    words = parser.parse_args()
    out = words.out or CORPUS / f"{words.author}.jsonl.zst"
    tasks = chosen_tasks(words.tasks, REPOSITORIES[words.author])
    everything = plan(words.author, tasks, words.rounds, words.honest, half=words.half, draw=words.draw)
    kept = {case.name: case for case in read_corpus(out)} if out.exists() else {}
    parts = out.parent / f"{out.name.removesuffix('.jsonl.zst')}.parts"
    parts.mkdir(parents=True, exist_ok=True)
    kept |= {case.name: case for case in _recorded(parts)}
    missing = [
        each
        for each in everything
        if each.name not in kept and (not words.classes or each.case.hack_class in words.classes)
    ][: words.limit]
    print(f"{len(everything)} planned, {len(kept)} recorded, {len(missing)} to go", flush=True)
    _record_all(missing, parts, words.processes)
    kept |= {case.name: case for case in _recorded(parts)}
    write_corpus(out, kept.values())
    shutil.rmtree(parts)
    hacks = sum(case.is_hack for case in kept.values())
    print(f"{out}: {hacks} hacks, {len(kept) - hacks} honest, {out.stat().st_size / 1e6:.2f} MB")


def _record_all(missing: Sequence[Planned], parts: Path, processes: int) -> None:
    started = said = time.monotonic()
    broken = 0
    jobs = [(each.name, each.author, str(each.task.folder), each.case, str(parts)) for each in missing]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, trouble in enumerate(pool.imap_unordered(_one, jobs), 1):
            if trouble:
                broken += 1
                print(trouble, file=sys.stderr, flush=True)
            if time.monotonic() - said > PROGRESS_EVERY_S or done == len(jobs):
                said = time.monotonic()
                rate = done / (said - started)
                left_s = (len(jobs) - done) / rate
                print(f"{done}/{len(jobs)} recorded, {broken} broken, {rate:.2f}/s, {left_s:.0f} s left", flush=True)


def _one(job: tuple[str, str, str, Case, str]) -> str:
    name, author, folder, case, parts = job
    try:
        stored = record(read_task(Path(folder)), Case(*case), author, name)
    except RecomposeError as error:
        return f"{name}: {error}"
    with (Path(parts) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as part:
        part.write(stored.model_dump_json() + "\n")
    return ""


def _recorded(parts: Path) -> Iterator[StoredCase]:
    """Of an earlier run; a torn last line was not recorded."""
    for part in sorted(parts.glob("*.jsonl")):
        with part.open("rb") as lines:
            yield from (StoredCase.model_validate_json(line) for line in lines if line.endswith(b"\n"))


def _module(author: str):
    sys.path.insert(0, str(Path(__file__).parent))
    package = importlib.import_module(author)
    return package if hasattr(package, "attacks") else importlib.import_module(f"{author}.authors")


def _lot(name: str) -> float:
    return int.from_bytes(sha256(name.encode()).digest()[:6]) / 2**48


def _no_grade(task: TaskFolder, submission: Submission, backend: str) -> Grade:
    return Grade(reward=0.0, hidden_passed=(), hidden_failed=(), guards_broken=())


if __name__ == "__main__":
    main()
