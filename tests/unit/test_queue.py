"""A queue of jobs: order, needs, slices of time, several processes, and going on after a crash."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest

from composer_replication.errors import UsageError
from shared.queue import Job, Queue
from shared.runner import load, run
from shared.runner.load import Load


class Bench:
    """Jobs that write their names; time passes only by working."""

    def __init__(self, folder):
        self.folder, self.now, self.order = folder, 0.0, []

    def job(self, name, *needs, seconds=1.0):
        return Job(name, self.folder / f"{name}.done", seconds, needs)

    def do(self, job):
        self.order.append(job.name)
        self.now += job.seconds
        job.result.write_text("done")

    def work(self, jobs, until=100.0):
        return Queue(jobs, self.folder / "claims").work(self.do, until, clock=lambda: self.now)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_jobs_run_in_order_after_what_they_need(bench):
    jobs = [bench.job("b", "a"), bench.job("a"), bench.job("c", "b")]
    assert bench.work(jobs) == ["a", "b", "c"]


def test_nothing_is_begun_that_would_not_end_within_the_slice_and_the_next_slice_goes_on(bench):
    jobs = [bench.job("long", seconds=8), bench.job("longer", seconds=9), bench.job("short", seconds=2)]
    assert bench.work(jobs, until=10) == ["long", "short"]
    assert bench.work(jobs, until=20) == ["longer"]
    assert bench.order == ["long", "short", "longer"]


def test_what_a_done_job_once_needed_may_be_gone_and_what_an_open_one_needs_may_not(bench):
    done, waiting = bench.job("done", "gone"), bench.job("open", "done")
    done.result.write_text("done")
    assert bench.work([done, waiting]) == ["open"]
    with pytest.raises(UsageError, match="gone"):
        bench.work([bench.job("another", "gone")])


def test_a_claim_of_a_living_process_is_respected_and_one_of_a_dead_process_is_not(bench, tmp_path):
    ended = multiprocessing.get_context("spawn").Process(target=int)
    ended.start()
    ended.join()
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "dead").write_text(str(ended.pid))
    (tmp_path / "claims" / "alive").write_text(str(os.getpid()))
    jobs = [bench.job("alive", seconds=60), bench.job("dead")]
    queue = Queue(jobs, tmp_path / "claims")
    assert queue.work(bench.do, 1.5, clock=lambda: bench.now + (2.0 if bench.order else 0.0)) == ["dead"]
    assert [job.name for job in queue.left] == ["alive"]


def test_a_job_that_fails_frees_its_claim_and_keeps_no_other_from_being_done(bench, tmp_path):
    def fail(job):
        if job.name == "a":
            raise ValueError("broken")
        bench.do(job)

    jobs = [bench.job("a"), bench.job("after", "a"), bench.job("b")]
    with pytest.raises(RuntimeError, match=r"a: ValueError.*broken"):
        Queue(jobs, tmp_path / "claims").work(fail, 100.0, clock=lambda: 0.0)
    assert bench.order == ["b"]
    assert bench.work(jobs) == ["a", "after"]


def test_a_job_without_a_result_is_not_taken_for_done(bench, tmp_path):
    queue = Queue([bench.job("a")], tmp_path / "claims")
    with pytest.raises(RuntimeError, match="without its result"):
        queue.work(lambda job: None, 100.0, clock=lambda: 0.0)


def test_a_need_that_nobody_makes_is_refused(bench, tmp_path):
    with pytest.raises(UsageError, match="never given"):
        Queue([bench.job("a", "b")], tmp_path)


def work_and_count(folder):
    bench = Bench(folder)

    def do(job):
        with (folder / "log").open("a") as log:
            log.write(f"{job.name}\n")
        job.result.write_text("done")

    Queue([bench.job(f"j{number}") for number in range(40)], folder / "claims").work(do, 100.0, clock=lambda: 0.0)


def test_several_processes_share_the_work_and_nothing_is_done_twice(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work_and_count, args=(tmp_path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert sorted((tmp_path / "log").read_text().split()) == sorted(f"j{number}" for number in range(40))


def test_whoever_waits_is_told_of_each_job_that_ends(bench, monkeypatch, capsys):
    monkeypatch.setattr(run, "LOOK_EVERY_S", 0.0)
    first, second, third = jobs = [bench.job("a"), bench.job("b"), bench.job("c")]
    bench.do(first)
    looks = iter([third, None, second])

    class Process:
        def poll(self):
            if job := next(looks):
                bench.do(job)
            return 3 if second.result.exists() else None

    assert run.exit_codes([Process()], jobs, Load(bench.folder / "load.jsonl")) == [3]
    assert capsys.readouterr().out == "2 of 3 jobs done: c\n3 of 3 jobs done: b\n", "and nothing of what was there"


def test_how_busy_the_machine_was_is_told_at_the_end(tmp_path, monkeypatch):
    cores, gpu = iter([0.0, 50.0, 25.0]), iter([{"gpu_percent": 90.0, "gpu_mib": 2_000.0}, {}])
    monkeypatch.setattr(load.psutil, "cpu_percent", lambda: next(cores))
    monkeypatch.setattr(load.psutil, "cpu_count", lambda: 16)
    monkeypatch.setattr(load, "_gpu", lambda: next(gpu))
    now = iter([0.0, 9.0, 10.0, 15.0, 25.0])
    (tmp_path / "load.jsonl").write_text("of an earlier slice\n")
    watched = Load(tmp_path / "load.jsonl", clock=lambda: next(now))
    assert watched.told() == ""
    for _ in range(4):
        watched.look()
    assert watched.told() == "6.0 of 16 cores busy, GPU 90 %, at most 2,000 MiB of it"
    lines = [json.loads(line) for line in (tmp_path / "load.jsonl").read_text().splitlines()]
    assert [line["busy_cores"] for line in lines] == [8.0, 4.0], "at 10 and at 25 s"
    assert "gpu_percent" not in lines[1]


def test_the_real_machine_has_between_none_and_all_of_its_cores_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "EVERY_S", 0.0)
    watched = Load(tmp_path / "load.jsonl")
    sum(range(3_000_000))
    watched.look()
    (line,) = map(json.loads, (tmp_path / "load.jsonl").read_text().splitlines())
    assert 0 < line["busy_cores"] <= os.cpu_count()
