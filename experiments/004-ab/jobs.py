"""The jobs of a plan, and what each of them needs. Loads no torch: the runner that starts the workers needs none."""

from fnmatch import fnmatch
from pathlib import Path

from plan import TEACHERS, Plan

from composer_replication.objective import TrdpoSettings
from shared.queue import Job


def jobs_of(plan: Plan, work: Path, results: Path) -> list[Job]:
    """Seed by seed, so that whatever is finished can be compared."""
    expected = plan.raw["seconds"]
    jobs: dict[str, Job] = {}

    def add(name: str, result: Path, kind: str, *needs: str) -> None:
        jobs.setdefault(name, Job(name, result, expected.get(kind, expected["arm"]), needs))

    for regime in plan.regimes:
        owner = plan.teachers_of(regime)
        teachers = [f"{owner}/teacher-{teacher}" for teacher in TEACHERS] if plan.needs_pairs(regime) else []
        for name in teachers:
            add(name, work / name / "done", "teacher")
        for seed in plan.raw["regimes"][regime]["seeds"]:
            start, data = f"{regime}/start-{seed}", f"{regime}/data-{seed}"
            add(start, results / f"{start}.jsonl.zst", "start")
            if teachers:
                add(data, results / f"{data}.jsonl.zst", "data", start, *teachers)
            for arm in plan.arms(regime):
                if seed in plan.seeds(regime, arm):
                    name = f"{regime}/{arm}-{seed}"
                    needed = data if plan.config(regime, arm, seed).channel(TrdpoSettings).weight else start
                    add(name, results / f"{name}.jsonl.zst", arm, needed)
    return list(jobs.values())


def chosen(jobs: list[Job], patterns: list[str]) -> list[Job]:
    """The jobs whose names fit a pattern, and what they need."""
    by_name, wanted = {job.name: job for job in jobs}, set[str]()
    todo = [job.name for job in jobs if any(fnmatch(job.name, pattern) for pattern in patterns)]
    while todo:
        wanted.add(name := todo.pop())
        todo += by_name[name].needs
    return [job for job in jobs if job.name in wanted]
