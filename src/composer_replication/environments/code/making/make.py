"""From a repository to a folder of certified tasks.

    DIR/manifest.json     settings of each call, hash of the repository, and the funnel of all calls
    DIR/survey.json       the coverage map
    DIR/verdicts.jsonl    one line per candidate, written when it is decided
    DIR/tasks/NAME/       the tasks

A call decides the candidates that no earlier call has decided: the same one goes on where it was stopped, and one with
other generators or proposals adds to the folder. Another repository, or another state of it, is refused. Nothing is
overwritten.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from composer_replication import __version__
from composer_replication.errors import UsageError
from composer_replication.progress import Progress, Silent
from composer_replication.records import content_id
from composer_replication.runs import LOCK, locked, write_atomically

from ..certificates.agents_tests import red_for_agents
from ..certificates.certify import Verdict
from ..generators.commits.generate import NAME as COMMITS
from ..generators.commits.history import earlier_states, repository_at
from ..generators.kinds import GeneratorSettings, find_generator
from ..running.coverage import missing_imports, read_survey, survey, tell_missing, write_survey
from ..running.warm import TestSetup
from ..tasks.loading import load_repository
from ..tasks.pytest_settings import refuse_missing
from ..tasks.repository import CoverageMap, Repository
from ..tasks.task import Candidate, Level, Rejection, TaskFolder
from ..tasks.trees import tree_hash
from .workers import Job, certify_all


@dataclass(frozen=True)
class MakeSettings:
    """What the tasks depend on, besides the repository."""

    generators: tuple[str, ...] = ("feature_deletion",)
    proposals: GeneratorSettings = field(default_factory=GeneratorSettings)
    distributions: tuple[str, ...] = ("pytest",)
    backend: str = "auto"


LATE_REASONS = {"weak_tests", "not_repeatable", "duplicate"}


def make(
    source: Path, into: Path, settings: MakeSettings, jobs: int = 2, progress: Progress | None = None
) -> dict[str, Any]:
    """All of `recompose env make`; the result is also in the manifest."""
    progress = progress or Silent()
    started = time.monotonic()
    with ExitStack() as held:
        scratch = held.enter_context(tempfile.TemporaryDirectory(prefix="recompose-"))
        progress.stage("load", f"reading {source.name}")
        repository = load_repository(source, Path(scratch) / "repository")
        _tell_left_out(repository, progress)
        call = json.loads(json.dumps(asdict(settings)))
        identity = {
            "repository": repository.name,
            "repository_hash": tree_hash(repository.tree),
            **{key: call.pop(key) for key in ("distributions", "backend")},
        }
        refuse_missing(repository.tree, repository.name, settings.distributions)
        begun = held.enter_context(_claimed(into, identity, call))
        setup = TestSetup(settings.distributions, settings.backend)
        try:
            coverage = _survey(repository, setup, into / "survey.json", progress)
        except UsageError:
            _give_up(into)
            raise
        (into / "tasks").mkdir(exist_ok=True)
        for left_behind in (into / "tasks").glob(".staging-*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        earlier, wall_s, proposed = list(_verdicts(into).values()), 0.0, Counter[str]()
        if earlier:
            progress.note(f"{into} has {sum(line['valid'] for line in earlier)} tasks already, which stay as they are")
        for job, candidates in _rounds(repository, coverage, setup, settings, into, Path(scratch), progress, proposed):
            progress.stage("certify", f"tasks from {job.repository.name} {job.repository.revision[:10]}".rstrip())
            wall_s += make_tasks(job, candidates, into, jobs=jobs, progress=progress)
        decided = list(_verdicts(into).values())
        funnel = _funnel(decided, sum(line["wall_s"] for line in decided) / jobs if earlier else wall_s)
        manifest = {
            **begun,
            "version": __version__,
            "licence": repository.licence,
            "tests": {"passing": len(coverage.passing), "unstable": sorted(coverage.unstable)},
            "complete": True,
            "survey_cpu_s": round(sum(read_survey(path).cpu_s for path in into.glob("survey*.json")), 2),
            "seconds": round(time.monotonic() - started, 2),
            "jobs": jobs,
            "proposed": proposed.total(),
            "decided_now": len(decided) - len(earlier),
            "new": funnel["valid"] - sum(line["valid"] for line in earlier),
            **funnel,
        }
        write_atomically(into / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def make_tasks(
    job: Job,
    candidates: Iterable[Candidate | Rejection],
    into: Path,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> float:
    """Decide every candidate that `into` has no verdict of yet. Tells the seconds that it took."""
    progress = progress or Silent()
    known = _verdicts(into)
    keys: set[str] = set()

    def decided() -> list[dict[str, Any]]:
        return [line for key, line in known.items() if key in keys]

    def tell(now: str = "") -> None:
        _tell(progress, decided(), len(keys), now)

    def stopping(interrupt: KeyboardInterrupt) -> None:
        kept = f"{len(decided())} of {len(keys)} candidates are decided and kept"
        progress.note(f"stopping, and the sandboxes end: {kept}")
        interrupt.args = (kept,)

    started = time.monotonic()
    with (into / "verdicts.jsonl").open("a", encoding="utf-8") as out:
        undecided: dict[str, Candidate] = {}
        # All are drawn first: their number is what a person waits for.
        for candidate in candidates:
            key = _key(candidate, job.level)
            keys.add(key)
            if key in known or key in undecided:
                continue
            if isinstance(candidate, Rejection):
                known[key] = _record(out, candidate, Verdict(candidate, 0.0, 0.0, 0.0, was_tried=False), job.level)
            else:
                undecided[key] = candidate
        for candidate, verdict in certify_all(job, undecided.values(), jobs, tell, stopping):
            # A task without a line was written when the call before was stopped.
            if isinstance(verdict.result, TaskFolder) and any(
                line["task"] == verdict.result.folder.name for line in known.values()
            ):
                rejection = Rejection(candidate.name, "duplicate", verdict.result.folder.name)
                verdict = verdict._replace(result=rejection)
            entry = _record(out, candidate, verdict, job.level)
            known[entry["key"]] = entry
            tell()
    return time.monotonic() - started


def _key(candidate: Candidate | Rejection, level: Level) -> str:
    """What is asked, whatever it is called: the names of communities and namesakes depend on the seed."""
    if isinstance(candidate, Rejection):
        return f"{candidate.reason}/{candidate.candidate}"
    symbols = [(symbol.file, symbol.name) for symbol in candidate.symbols]
    return f"{candidate.generator}/{candidate.mode}/{candidate.grain}/{content_id(level, symbols, candidate.edits)}"


def _rounds(
    repository: Repository,
    coverage: CoverageMap,
    setup: TestSetup,
    settings: MakeSettings,
    into: Path,
    scratch: Path,
    progress: Progress,
    proposed: Counter[str],
) -> Iterator[tuple[Job, Iterator[Candidate | Rejection]]]:
    """The repository as it is; then, for commits, its earlier states until there are enough candidates."""
    proposals = settings.proposals

    def job(state: Repository, known: CoverageMap) -> Job:
        return Job(state, known, setup, into / "tasks", proposals.level, proposals.seed)

    yield job(repository, coverage), _proposals(repository, coverage, settings.generators, proposals, proposed)
    for revision in earlier_states(repository) if COMMITS in settings.generators else ():
        left = proposals.limit - proposed[COMMITS]
        if left <= 0:
            return
        folder = scratch / f"at-{revision[:10]}"
        try:
            state = repository_at(repository, revision, folder)
            known = _survey(state, setup, into / f"survey-{revision[:10]}.json", progress)
        except UsageError as error:
            progress.note(f"left out {revision[:10]}: {error}")
            continue
        yield job(state, known), _proposals(state, known, (COMMITS,), replace(proposals, limit=left), proposed)
        shutil.rmtree(folder, ignore_errors=True)


def _proposals(
    repository: Repository,
    coverage: CoverageMap,
    generators: Sequence[str],
    settings: GeneratorSettings,
    proposed: Counter[str],
) -> Iterator[Candidate | Rejection]:
    for name in generators:
        limit = proposed[name] + settings.limit
        for proposal in find_generator(name)(repository, coverage, settings):
            yield proposal
            proposed[name] += isinstance(proposal, Candidate)
            if proposed[name] == limit:
                break


@contextmanager
def _claimed(into: Path, identity: dict[str, Any], call: dict[str, Any]) -> Generator[dict[str, Any]]:
    """A folder that is new, or ours and of the same repository, for this call alone; its manifest knows of it then."""
    path, found = into / "manifest.json", dict[str, Any]()
    if not path.is_file() and into.exists() and (not into.is_dir() or {*os.listdir(into)} - {LOCK}):
        raise UsageError(f"{into} exists and holds no tasks of ours", "choose another -o folder")
    into.mkdir(parents=True, exist_ok=True)
    with locked(into):
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            for key, value in identity.items():
                if found.get(key) != value:
                    raise UsageError(
                        f"{into} was made with another {key} ({str(found.get(key))[:80]})",
                        "choose another -o folder; [environment] tasks takes several",
                    )
            if "calls" not in found:
                raise UsageError(f"{into} was made by an earlier version", "choose another -o folder")
        calls = found.get("calls", [])
        begun = {**found, **identity, "calls": calls if call in calls else [*calls, call], "complete": False}
        write_atomically(path, json.dumps(begun, indent=2) + "\n")
        yield begun


def _survey(repository: Repository, setup: TestSetup, path: Path, progress: Progress) -> CoverageMap:
    if path.is_file():
        return read_survey(path)
    progress.stage("survey", f"running the tests of {repository.name} {repository.revision[:10]}".rstrip())
    if told := tell_missing(repository, missing_imports(repository, setup)):
        progress.note(told)
    if red := red_for_agents(repository, setup):
        progress.note(f"left out, being red before anything is changed: {len(red)}, first {min(red)}")
    coverage = replace(survey(repository, setup, progress), red_for_agents=red)
    write_survey(path, coverage)
    return coverage


def _tell_left_out(repository: Repository, progress: Progress) -> None:
    for paths, what in (
        (repository.unknown_to_git, "files that git does not know (`git add` takes them in)"),
        (repository.links, "symbolic links"),
    ):
        if paths:
            progress.note(f"left out, {what}: {len(paths)}, first {paths[0]}")


def _give_up(into: Path) -> None:
    """A folder in which nothing was made is not left behind."""
    for name in ("manifest.json", LOCK):
        (into / name).unlink()
    if not any(into.iterdir()):
        into.rmdir()


def _verdicts(into: Path) -> dict[str, dict[str, Any]]:
    """A torn last line is a candidate to decide again."""
    path, found = into / "verdicts.jsonl", dict[str, dict[str, Any]]()
    if not path.is_file():
        return found
    text = path.read_text(encoding="utf-8")
    whole, _, torn = text.rpartition("\n")
    if torn:
        write_atomically(path, whole + "\n" if whole else "")
    for line in whole.splitlines():
        entry = json.loads(line)
        found[entry["key"]] = entry
    return found


def _record(out: TextIO, candidate: Candidate | Rejection, verdict: Verdict, level: Level) -> dict[str, Any]:
    task, rejection = (verdict.result, None) if isinstance(verdict.result, TaskFolder) else (None, verdict.result)
    entry: dict[str, Any] = {
        "key": _key(candidate, level),
        **_named(candidate),
        "tried": verdict.was_tried,
        "valid": task is not None,
        "task": task and task.folder.name,
        "reason": rejection and rejection.reason,
        "detail": rejection and rejection.detail,
        "cpu_s": verdict.cpu_s,
        "cpu_s_to_leak_gate": verdict.cpu_to_leak_gate_s,
        "wall_s": verdict.wall_s,
    }
    out.write(json.dumps(entry) + "\n")
    out.flush()
    os.fsync(out.fileno())
    return entry


def _named(candidate: Candidate | Rejection) -> dict[str, str | int]:
    if isinstance(candidate, Rejection):
        return {"candidate": candidate.candidate}
    return {
        "candidate": candidate.name,
        "generator": candidate.generator,
        "mode": candidate.mode,
        "grain": candidate.grain,
        "files": len(candidate.edits),
    }


def _funnel(decided: Collection[dict[str, Any]], wall_s: float) -> dict[str, Any]:
    """From candidates to tasks. Processor seconds are of all processes together; those to the leak gate are of all
    candidates, without dropped statements and repeats. What the static filter took out is not among `tried`."""
    reasons = Counter(str(line["reason"]) for line in decided if line["tried"] and not line["valid"])
    taken_out = Counter(str(line["reason"]) for line in decided if not line["tried"])
    tried, valid = sum(line["tried"] for line in decided), sum(line["valid"] for line in decided)
    passed_leak_gate = sum(line["valid"] or line["reason"] in LATE_REASONS for line in decided)
    cpu_s, early_cpu_s = (round(sum(line[key] for line in decided), 2) for key in ("cpu_s", "cpu_s_to_leak_gate"))
    wall_s = round(wall_s, 2)
    return {
        "filtered": dict(sorted(taken_out.items())),
        "tried": tried,
        "valid": valid,
        "across_files": sum(line["valid"] and line.get("files", 1) > 1 for line in decided),
        "rejected": dict(sorted(reasons.items())),
        "cpu_s": cpu_s,
        "cpu_s_to_leak_gate": early_cpu_s,
        "passed_leak_gate": passed_leak_gate,
        "wall_s": wall_s,
        "yield": round(valid / tried, 4) if tried else 0.0,
        "cpu_s_per_valid": round(cpu_s / valid, 2) if valid else None,
        "cpu_s_to_leak_gate_per_task": round(early_cpu_s / passed_leak_gate, 2) if passed_leak_gate else None,
        "valid_per_minute": round(60 * valid / wall_s, 2) if wall_s else None,
    }


def _tell(progress: Progress, decided: Collection[dict[str, Any]], total: int, now: str) -> None:
    valid, cpu_s = sum(line["valid"] for line in decided), sum(line["cpu_s"] for line in decided)
    rejected = sum(line["tried"] and not line["valid"] for line in decided)
    cost = f"{cpu_s / valid:.1f} CPU-s per valid task" if valid else "no valid task yet"
    progress.figures([f"{cost}, {rejected} rejected", *([f"now {now}"] if now else [])])
    progress.step(len(decided), total, f"{valid} valid")
