"""From a repository to a folder of certified tasks.

    DIR/manifest.json     settings, hash of the repository, and the funnel
    DIR/survey.json       the coverage map
    DIR/verdicts.jsonl    one line per candidate, written when it is decided
    DIR/tasks/NAME/       the tasks

The same settings on the same repository go on where they stopped; others are refused. Nothing is overwritten.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from composer_replication import __version__
from composer_replication.errors import UsageError
from composer_replication.progress import Progress, Silent
from composer_replication.runs import write_atomically

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
from ..tasks.task import Candidate, Rejection, TaskFolder
from ..tasks.trees import tree_hash
from .workers import Job, certify_all


@dataclass(frozen=True)
class MakeSettings:
    """What the tasks depend on, besides the repository."""

    generators: tuple[str, ...] = ("feature_deletion",)
    proposals: GeneratorSettings = field(default_factory=GeneratorSettings)
    distributions: tuple[str, ...] = ("pytest",)
    backend: str = "auto"


@dataclass(frozen=True)
class Funnel:
    """From candidates to tasks. Processor seconds are of all processes together."""

    filtered: dict[str, int]
    """Candidates that the static filter took out, by reason; they are not among `tried`."""
    tried: int
    valid: int
    across_files: int
    """Of the valid ones, those whose solution is in more than one file."""
    rejected: dict[str, int]
    cpu_s: float
    cpu_s_to_leak_gate: float
    """Of all candidates, without dropped statements and repeats."""
    passed_leak_gate: int
    wall_s: float

    @staticmethod
    def together(funnels: Sequence[Funnel]) -> Funnel:
        return Funnel(
            filtered=_summed(funnel.filtered for funnel in funnels),
            tried=sum(funnel.tried for funnel in funnels),
            valid=sum(funnel.valid for funnel in funnels),
            across_files=sum(funnel.across_files for funnel in funnels),
            rejected=_summed(funnel.rejected for funnel in funnels),
            cpu_s=round(sum(funnel.cpu_s for funnel in funnels), 2),
            cpu_s_to_leak_gate=round(sum(funnel.cpu_s_to_leak_gate for funnel in funnels), 2),
            passed_leak_gate=sum(funnel.passed_leak_gate for funnel in funnels),
            wall_s=round(sum(funnel.wall_s for funnel in funnels), 2),
        )

    @property
    def figures(self) -> dict[str, Any]:
        per_task = {
            "yield": round(self.valid / self.tried, 4) if self.tried else 0.0,
            "cpu_s_per_valid": round(self.cpu_s / self.valid, 2) if self.valid else None,
            "cpu_s_to_leak_gate_per_task": (
                round(self.cpu_s_to_leak_gate / self.passed_leak_gate, 2) if self.passed_leak_gate else None
            ),
            "valid_per_minute": round(60 * self.valid / self.wall_s, 2) if self.wall_s else None,
        }
        return {**asdict(self), **per_task}


LATE_REASONS = {"weak_tests", "not_repeatable", "duplicate"}


def make(
    source: Path, into: Path, settings: MakeSettings, jobs: int = 2, progress: Progress | None = None
) -> dict[str, Any]:
    """All of `recompose env make`; the result is also in the manifest."""
    progress = progress or Silent()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        progress.stage("load", f"reading {source.name}")
        repository = load_repository(source, Path(scratch) / "repository")
        identity = {**json.loads(json.dumps(asdict(settings))), "repository_hash": tree_hash(repository.tree)}
        refuse_missing(repository.tree, repository.name, settings.distributions)
        _claim(into, identity)
        setup = TestSetup(settings.distributions, settings.backend)
        try:
            coverage = _survey(repository, setup, into / "survey.json", progress)
        except UsageError:
            _give_up(into)
            raise
        (into / "tasks").mkdir(exist_ok=True)
        rounds = _rounds(repository, coverage, setup, settings, into, Path(scratch), progress)
        funnels: list[Funnel] = []
        survey_cpu_s = 0.0
        for job, candidates in rounds:
            survey_cpu_s += job.coverage.cpu_s
            total = settings.proposals.limit * len(settings.generators)
            progress.stage("certify", f"tasks from {job.repository.name} {job.repository.revision[:10]}".rstrip())
            funnels.append(make_tasks(job, candidates, into, jobs=jobs, total=total, progress=progress))
    funnel = Funnel.together(funnels)
    manifest = {
        **identity,
        "version": __version__,
        "repository": repository.name,
        "licence": repository.licence,
        "tests": {"passing": len(coverage.passing), "unstable": sorted(coverage.unstable)},
        "complete": True,
        "survey_cpu_s": round(survey_cpu_s, 2),
        "seconds": round(time.monotonic() - started, 2),
        "jobs": jobs,
        **funnel.figures,
    }
    write_atomically(into / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    return manifest


def make_tasks(
    job: Job,
    candidates: Iterable[Candidate | Rejection],
    into: Path,
    *,
    jobs: int = 1,
    total: int = 0,
    progress: Progress | None = None,
) -> Funnel:
    """Decide every candidate that `into` has no verdict of yet; the funnel is over all of them."""
    progress = progress or Silent()
    known = _verdicts(into)
    is_resumed = bool(known)
    names: set[str] = set()
    started = time.monotonic()
    with (into / "verdicts.jsonl").open("a", encoding="utf-8") as out:

        def not_tried(rejection: Rejection) -> None:
            known[_key(rejection)] = _record(out, rejection, Verdict(rejection, 0.0, 0.0, 0.0, was_tried=False))

        for candidate, verdict in certify_all(job, _undecided(candidates, known, names, not_tried), jobs):
            known[_key(candidate)] = _record(out, candidate, verdict)
            _tell(progress, known, total)
    decided = [line for key, line in known.items() if key in names]
    wall_s = sum(line["wall_s"] for line in decided) / jobs if is_resumed else time.monotonic() - started
    return _funnel(decided, wall_s)


def _undecided(
    candidates: Iterable[Candidate | Rejection],
    known: dict[str, dict[str, Any]],
    names: set[str],
    not_tried: Callable[[Rejection], None],
) -> Iterator[Candidate]:
    for candidate in candidates:
        key = _key(candidate)
        if key in names:
            continue
        names.add(key)
        if key in known:
            continue
        if isinstance(candidate, Rejection):
            not_tried(candidate)
        else:
            yield candidate


def _key(candidate: Candidate | Rejection) -> str:
    if isinstance(candidate, Rejection):
        return f"{candidate.reason}/{candidate.candidate}"
    return f"{candidate.generator}/{candidate.mode}/{candidate.grain}/{candidate.name}"


def _rounds(
    repository: Repository,
    coverage: CoverageMap,
    setup: TestSetup,
    settings: MakeSettings,
    into: Path,
    scratch: Path,
    progress: Progress,
) -> Iterator[tuple[Job, Iterator[Candidate | Rejection]]]:
    """The repository as it is; then, for commits, its earlier states until there are enough candidates."""
    proposals, proposed = settings.proposals, Counter[str]()

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


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))


def _claim(into: Path, identity: dict[str, Any]) -> None:
    """A new folder, or one that was begun with the same settings on the same repository."""
    path = into / "manifest.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for key, value in identity.items():
            if found.get(key) != value:
                was = str(found.get(key))[:80]
                raise UsageError(f"{into} was made with another {key} ({was})", "choose another -o folder")
        return
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UsageError(f"{into} exists and holds no tasks of ours", "choose another -o folder")
    write_atomically(path, json.dumps({**identity, "complete": False}, indent=2) + "\n")


def _survey(repository: Repository, setup: TestSetup, path: Path, progress: Progress) -> CoverageMap:
    if path.is_file():
        return read_survey(path)
    progress.stage("survey", f"running the tests of {repository.name} {repository.revision[:10]}".rstrip())
    if told := tell_missing(repository, missing_imports(repository, setup)):
        progress.note(told)
    red = red_for_agents(repository, setup)
    coverage = replace(survey(repository, setup, progress), red_for_agents=red)
    write_survey(path, coverage)
    return coverage


def _give_up(into: Path) -> None:
    """A folder in which nothing was made is not left behind."""
    (into / "manifest.json").unlink()
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


def _record(out: TextIO, candidate: Candidate | Rejection, verdict: Verdict) -> dict[str, Any]:
    is_valid = isinstance(verdict.result, TaskFolder)
    entry: dict[str, Any] = {
        "key": _key(candidate),
        **_named(candidate),
        "tried": verdict.was_tried,
        "valid": is_valid,
        "task": verdict.result.folder.name if isinstance(verdict.result, TaskFolder) else None,
        "reason": None if isinstance(verdict.result, TaskFolder) else verdict.result.reason,
        "detail": None if isinstance(verdict.result, TaskFolder) else verdict.result.detail,
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


def _funnel(decided: list[dict[str, Any]], wall_s: float) -> Funnel:
    reasons = Counter(str(line["reason"]) for line in decided if line["tried"] and not line["valid"])
    taken_out = Counter(str(line["reason"]) for line in decided if not line["tried"])
    return Funnel(
        filtered=dict(sorted(taken_out.items())),
        tried=sum(line["tried"] for line in decided),
        valid=sum(line["valid"] for line in decided),
        across_files=sum(line["valid"] and line.get("files", 1) > 1 for line in decided),
        rejected=dict(sorted(reasons.items())),
        cpu_s=round(sum(line["cpu_s"] for line in decided), 2),
        cpu_s_to_leak_gate=round(sum(line["cpu_s_to_leak_gate"] for line in decided), 2),
        passed_leak_gate=sum(line["valid"] or line["reason"] in LATE_REASONS for line in decided),
        wall_s=round(wall_s, 2),
    )


def _tell(progress: Progress, known: dict[str, dict[str, Any]], total: int) -> None:
    funnel = _funnel(list(known.values()), 0.0)
    reasons = ", ".join(f"{reason} {count}" for reason, count in funnel.rejected.items())
    cost = f"{funnel.cpu_s / funnel.valid:.1f} CPU-s per valid task" if funnel.valid else "no valid task yet"
    progress.figures([cost, f"rejected: {reasons or 'none'}"])
    done = funnel.tried + sum(funnel.filtered.values())
    progress.step(done, max(total, done), f"{funnel.valid} valid")
