"""`recompose evaluate --compare`: what is read, how it is paired, and what may be said."""

import json
import re
import sys
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import zstandard

from composer_replication.cli.compare import drawing, show_comparison
from composer_replication.cli.main import main
from composer_replication.config import quickstart_config
from composer_replication.errors import UsageError
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.evaluation.contrast import compare_arms, contrast_chart
from composer_replication.evaluation.outcomes import OutcomeChoice, read_arm, read_arms
from composer_replication.runs import Run
from tests.command_line import recompose


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(zstandard.compress(text) if path.suffix == ".zst" else text)
    return path


def outcomes(rewards, **fields):
    return [{"task_id": f"t{i}", "reward": reward, **fields} for i, reward in enumerate(rewards)]


def write_arm(folder, chance, seeds, tasks=40, salt=0):
    for seed in range(seeds):
        rng = np.random.default_rng([salt, seed])
        rewards = (rng.random(tasks) < chance).astype(float).tolist()
        write_lines(folder / f"seed-{seed}.jsonl", outcomes(rewards))
    return folder


def write_run(path, before, after, seed, repositories=0, **sections):
    config = quickstart_config("tiny", seed)
    run = Run.start(path, config.model_copy(update={name: getattr(config, name).model_copy(update=own)
                                                    for name, own in sections.items()}))  # fmt: skip
    records = [
        TaskOutcome(
            task_id=f"t{i}",
            split=split,
            phase=phase,
            reward=reward,
            turns=2,
            errors=("type_error",) * (i % 2),
            labels={"repository": f"r{i % repositories}"} if repositories else {},
        )
        for split in ("heldout", "renames")
        for phase, rewards in (("before", before), ("after", after))
        for i, reward in enumerate(rewards)
    ]
    run.stage("evaluation").finish(records, {}, [], time.monotonic())
    return path


def compared(paths, metric="success", paired="auto", **choice):
    arms = read_arms([str(path) for path in paths], OutcomeChoice(metric, **choice))
    return compare_arms(arms, arms[0].name, metric, paired)


def evaluate(*arguments):
    return recompose("evaluate", *arguments)


def exit_code(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["recompose", "evaluate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def estimates(value):
    if isinstance(value, dict):
        if "lo" in value:
            yield value
        for item in value.values():
            yield from estimates(item)
    elif isinstance(value, list):
        for item in value:
            yield from estimates(item)


class TestReading:
    def test_files_folders_and_runs_give_the_same_arm(self, tmp_path):
        rewards = [1.0, 0.0, 1.0]
        plain = write_lines(tmp_path / "a.jsonl", outcomes(rewards, seed=3))
        packed = write_lines(tmp_path / "b.jsonl.zst", outcomes(rewards, seed=3))
        folder = write_lines(tmp_path / "c" / "seed-3.jsonl", outcomes(rewards)).parent
        run = write_run(tmp_path / "d", [0.0] * 3, rewards, seed=3)
        runs = write_run(tmp_path / "e" / "first", [0.0] * 3, rewards, seed=3).parent
        for path in (plain, packed, folder, run, runs):
            assert read_arm(path, "x", OutcomeChoice()).values == {"3": {"t0": 1.0, "t1": 0.0, "t2": 1.0}}

    def test_phase_split_and_fields_of_a_run(self, tmp_path):
        run = write_run(tmp_path / "run", [0.0, 0.0, 1.0], [1.0, 1.0, 0.5], seed=0)
        assert read_arm(run, "x", OutcomeChoice(phase="before")).by_seed() == {"0": pytest.approx(1 / 3)}
        assert read_arm(run, "x", OutcomeChoice()).by_seed() == {"0": pytest.approx(2 / 3)}
        assert read_arm(run, "x", OutcomeChoice("reward", split="renames")).by_seed() == {"0": pytest.approx(2.5 / 3)}
        assert read_arm(run, "x", OutcomeChoice("errors")).by_seed() == {"0": pytest.approx(1 / 3)}
        with pytest.raises(UsageError, match=r"no split compositions \(there: heldout, renames\)"):
            read_arm(run, "x", OutcomeChoice(split="compositions"))

    def test_all_arms_are_compared_on_the_first_split_of_the_first(self, tmp_path):
        easy, hard = outcomes([1.0] * 9, split=1), outcomes([0.0, 1.0, 0.0] * 3, split="hard")
        first = write_lines(tmp_path / "a.jsonl", hard + easy)
        second = write_lines(tmp_path / "b.jsonl", easy + hard)
        result = compared([first, second])
        assert result.split == "hard"
        assert [arm.estimate.mean for arm in result.arms] == pytest.approx([1 / 3, 1 / 3])
        assert result.notes == ("Split hard; there are also 1 (--split).",)
        with pytest.raises(UsageError, match=r"no split hard \(there: 1\)"):
            compared([first, write_lines(tmp_path / "c.jsonl", easy)])

    def test_a_file_may_hold_several_seeds(self, tmp_path):
        rows = outcomes([1.0, 0.0], seed=10) + outcomes([1.0, 1.0], seed=9)
        arm = read_arm(write_lines(tmp_path / "a.jsonl", rows), "x", OutcomeChoice())
        assert arm.seeds == ("9", "10")
        assert arm.by_seed() == {"9": 1.0, "10": 0.5}

    def test_the_same_seed_twice_is_refused(self, tmp_path):
        for name in ("a", "b"):
            write_lines(tmp_path / "arm" / f"{name}.jsonl", outcomes([1.0], seed=1))
        with pytest.raises(UsageError, match="seed 1 is in"):
            read_arm(tmp_path / "arm", "x", OutcomeChoice())

    def test_runs_with_other_tasks_under_the_same_ids_are_refused(self, tmp_path):
        first = write_run(tmp_path / "a", [0.0] * 3, [1.0] * 3, seed=0)
        with pytest.raises(UsageError, match=r"a and .*b have other tasks.*\(toolbox.rename_rate 0.2 and 0.9\)"):
            compared([first, write_run(tmp_path / "b", [0.0] * 3, [1.0] * 3, seed=0, toolbox={"rename_rate": 0.9})])
        other_name = write_run(tmp_path / "c", [0.0] * 3, [1.0] * 3, seed=0, environment={"name": "code"})
        with pytest.raises(UsageError, match=r"\(environment.name toolbox and code\)"):
            compared([first, other_name])
        no_toolbox = {"environment": {"name": "code"}, "toolbox": {"rename_rate": 0.9}}
        compared([other_name, write_run(tmp_path / "d", [0.0] * 3, [1.0] * 3, seed=0, **no_toolbox)])
        several = write_run(tmp_path / "e" / "one", [0.0] * 3, [1.0] * 3, seed=1, toolbox={"vague_rate": 0.5}).parent
        write_run(several / "two", [0.0] * 3, [1.0] * 3, seed=2)
        with pytest.raises(UsageError, match=r"one and .*two have other tasks.*toolbox.vague_rate"):
            compared([several, write_run(tmp_path / "f", [0.0] * 3, [1.0] * 3, seed=1, toolbox={"vague_rate": 0.5})])

    def test_runs_that_play_the_same_tasks_in_two_ways_are_told_so(self, tmp_path):
        def run(name, training=None, **environment):
            settings = {"environment": {"name": "code", **environment}, "training": training or {}}
            return write_run(tmp_path / name, [0.0] * 3, [1.0, 0.0, 1.0], seed=0, **settings)

        agent, block = run("agent"), run("block", answer="definition", tries=1)
        (told,) = [note for note in compared([agent, block]).notes if "in two ways" in note]
        assert "(environment.answer agent and definition), not only by two policies" in told
        more_tries = compared([block, run("thrice", answer="definition", tries=3)]).notes
        assert any("(environment.tries 1 and 3)" in note for note in more_tries)
        cut = compared([agent, run("cut", training={"max_turn_tokens": 9})]).notes
        assert any("(training.max_turn_tokens" in note for note in cut)
        busier = compared([block, run("busier", answer="definition", tries=1, max_steps=9, concurrency=2)]).notes
        assert not any("in two ways" in note for note in busier)

    def test_a_model_is_no_run(self, tmp_path):
        model = tmp_path / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
        with pytest.raises(UsageError, match="model is a model and not a run") as refused:
            read_arm(model, "x", OutcomeChoice())
        assert len(str(refused.value)) < 250

    def test_tries_are_averaged_or_become_pass_at_k(self, tmp_path):
        rows = outcomes([1.0, 0.0]) + outcomes([0.0, 0.0]) + outcomes([0.0, 1.0])
        path = write_lines(tmp_path / "a.jsonl", rows)
        assert read_arm(path, "x", OutcomeChoice()).by_task() == pytest.approx({"t0": 1 / 3, "t1": 1 / 3})
        assert read_arm(path, "x", OutcomeChoice("pass@2")).by_task() == pytest.approx({"t0": 2 / 3, "t1": 2 / 3})
        with pytest.raises(UsageError, match="pass@8 needs at least 8 tries"):
            read_arm(path, "x", OutcomeChoice("pass@8"))
        with pytest.raises(UsageError, match="k is at least 1; next: --metric pass@1"):
            read_arm(path, "x", OutcomeChoice("pass@0"))
        rows = [{"task_id": "t0", "success": share} for share in (0.4, 0.9)]
        with pytest.raises(UsageError, match=r"counts successes, and a try has 0\.4"):
            read_arm(write_lines(tmp_path / "shares.jsonl", rows), "x", OutcomeChoice("pass@2"))

    def test_the_last_step_counts_or_the_area_under_all(self, tmp_path):
        rows = [
            row for step, rewards in ((0, [0, 0]), (10, [1, 0]), (20, [1, 1])) for row in outcomes(rewards, step=step)
        ]
        path = write_lines(tmp_path / "a.jsonl", rows)
        assert read_arm(path, "x", OutcomeChoice()).by_task() == {"t0": 1, "t1": 1}
        assert read_arm(path, "x", OutcomeChoice("area")).by_task() == {"t0": 0.75, "t1": 0.25}
        short = write_lines(tmp_path / "b.jsonl", rows[:4])
        with pytest.raises(UsageError, match="different steps"):
            read_arms([str(path), str(short)], OutcomeChoice("area"))
        assert any("different steps: 10, 20" in note for note in compared([path, short]).notes)

    def test_success_is_its_own_field_where_there_is_one(self, tmp_path):
        rows = [{"task_id": "a", "reward": 0.9, "success": True}, {"task_id": "b", "reward": 0.9}]
        assert read_arm(write_lines(tmp_path / "a.jsonl", rows), "x", OutcomeChoice()).by_task() == {"a": 1, "b": 0}

    def test_a_torn_last_line_is_told_and_left_out(self, tmp_path):
        path = write_lines(tmp_path / "a.jsonl", outcomes([1.0, 0.0]))
        path.write_bytes(path.read_bytes() + b'{"task_id": "t')
        arm = read_arm(path, "x", OutcomeChoice())
        assert arm.tasks == ("t0", "t1")
        assert "torn" in arm.notes[0]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "no outcomes"),
            (b'{"task_id": 1\n{"task_id": 2, "reward": 1}\n', "line 1, is not JSON"),
            (b"[1]\n", "line 1, is not an object"),
            (b'{"task_id": "a"}\n', "no number success"),
            (b'{"task_id": "a", "reward": "1"}\n', "no number success"),
            (b'{"task_id": "a", "success": NaN}\n', "not JSON"),
            (b'{"task_id": "a", "reward": 1e999}\n', "not JSON"),
            (b'{"task_id": "a", "reward": 1, "step": "last"}\n', "step that is a number"),
            (b'{"task_id": "a", "reward": 1, "step": 1}\n{"task_id": "a", "reward": 1}\n', "others do not"),
        ],
    )
    def test_bad_files_name_what_is_wrong(self, tmp_path, content, reason):
        path = tmp_path / "a.jsonl"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=reason):
            read_arm(path, "x", OutcomeChoice())

    def test_a_damaged_archive_and_a_missing_path(self, tmp_path):
        (tmp_path / "a.jsonl.zst").write_bytes(b"not zstd")
        with pytest.raises(UsageError, match="zstd"):
            read_arm(tmp_path / "a.jsonl.zst", "x", OutcomeChoice())
        with pytest.raises(UsageError, match="does not exist"):
            read_arm(tmp_path / "nowhere", "x", OutcomeChoice())

    def test_arms_get_the_shortest_names_that_differ(self, tmp_path):
        paths = [write_lines(tmp_path / arm / "out.jsonl", outcomes([1.0, 0.0])) for arm in ("one", "two")]
        assert [arm.name for arm in read_arms(list(map(str, paths)), OutcomeChoice())] == ["one/out", "two/out"]
        named = [f"first={paths[0]}", f"second={paths[0]}"]
        assert [arm.name for arm in read_arms(named, OutcomeChoice())] == ["first", "second"]
        with pytest.raises(UsageError, match="same name"):
            read_arms([str(paths[0]), str(paths[0])], OutcomeChoice())


class TestPairedSeeds:
    def arms(self, tmp_path, seeds, chances=(0.2, 0.8)):
        return [
            write_arm(tmp_path / name, c, seeds, salt=i) for i, (name, c) in enumerate(zip("ab", chances, strict=True))
        ]

    def test_eight_seeds_can_tell(self, tmp_path):
        [row] = compared(self.arms(tmp_path, 8)).comparisons
        assert (row.paired, row.unit, row.verdict) == ("seed", "seed", "higher")
        assert (row.test.p, row.test.floor, row.test.n) == (0.0078125, 0.0078125, 8)
        assert row.difference.n == 8
        assert row.difference.lo > 0.4
        assert row.clustered_by == "seed and task"
        assert row.difference.mean == pytest.approx(np.mean(list(row.by_seed.values())))

    def test_five_seeds_are_no_test_whatever_the_effect(self, tmp_path):
        [row] = compared(self.arms(tmp_path, 5, (0.0, 1.0))).comparisons
        assert row.verdict == "cannot be tested"
        assert row.minimum_detectable_effect is None
        assert any("cannot come below p = 0.0625 with 5 seeds" in note for note in row.notes)

    @pytest.mark.parametrize("seeds", [2, 3])
    def test_the_interval_of_few_seeds_is_wide_enough(self, tmp_path, seeds):
        """Runs with gains of their own, whose mean is 0."""
        rng, holds_zero = np.random.default_rng(0), 0
        for _ in range(100):
            gains = rng.normal(size=seeds)
            for name, arm in (("a", 0 * gains), ("b", gains)):
                for seed, gain in enumerate(arm):
                    rewards = (gain + 0.3 * rng.normal(size=8)).tolist()
                    write_lines(tmp_path / name / f"seed-{seed}.jsonl", outcomes(rewards))
            [row] = compared([tmp_path / "a", tmp_path / "b"], metric="reward").comparisons
            holds_zero += row.difference.lo <= 0 <= row.difference.hi
        assert holds_zero >= 88  # 95 expected; the hierarchical bootstrap over two had 72
        assert (row.interval, row.difference.n) == ("t over seeds and tasks", seeds)

    def test_swapping_the_arms_mirrors_everything(self, tmp_path):
        paths = self.arms(tmp_path, 8, (0.4, 0.6))
        [forth], [back] = compared(paths).comparisons, compared(paths[::-1]).comparisons
        for one, other in ((forth.difference, back.difference), (forth.clustered, back.clustered)):
            assert (one.mean, one.lo, one.hi) == pytest.approx((-other.mean, -other.hi, -other.lo))
        assert (forth.test, forth.minimum_detectable_effect) == (
            back.test,
            pytest.approx(back.minimum_detectable_effect),
        )
        assert {forth.verdict, back.verdict} in ({"higher", "lower"}, {"no clear difference"})

    def test_the_order_of_lines_and_of_files_does_not_matter(self, tmp_path):
        paths = self.arms(tmp_path, 6, (0.4, 0.6))
        rows = [
            {**json.loads(line), "seed": seed}
            for seed in reversed(range(6))
            for line in reversed((paths[1] / f"seed-{seed}.jsonl").read_text().splitlines())
        ]
        other = write_lines(tmp_path / "other" / "b.jsonl", rows)
        assert compared([paths[0], other]) == compared(paths)

    def test_holm_counts_the_arms(self, tmp_path):
        paths = [*self.arms(tmp_path, 7), *(write_arm(tmp_path / f"c{i}", 0.2, 7, salt=5 + i) for i in range(3))]
        result = compared(paths)
        first = result.comparisons[0]
        assert first.test.p == 0.015625
        assert first.p_holm == pytest.approx(4 * 0.015625)
        assert first.verdict == "no clear difference"
        assert first.minimum_detectable_effect is None
        assert any("above 0.0125, where Holm starts with 4 arms" in note for note in first.notes)

    def numbers(self, tmp_path, **by_arm):
        """One number for each run."""
        for arm, values in by_arm.items():
            write_lines(tmp_path / f"{arm}.jsonl", [{"seed": seed, "score": at} for seed, at in enumerate(values)])
        return [tmp_path / f"{arm}.jsonl" for arm in by_arm]

    def test_an_interval_without_0_and_a_verdict_that_is_not_clear_are_explained(self, tmp_path):
        gained = [1.0, 1.1, 0.9, 1.2, 0.8, 1.0, 1.3, -0.1]
        paths = self.numbers(tmp_path, a=[0.0] * 8, b=gained, c=[0.3, -0.2] * 4, d=[0.1, -0.3] * 4, e=[0.2, -0.1] * 4)
        row, *others = compared(paths, metric="score").comparisons
        assert row.difference.lo > 0 and row.test.p == 0.015625 and row.verdict == "no clear difference"
        [note] = [note for note in row.notes if "interval" in note]
        assert note == (
            "The interval leaves out 0, but is of this arm alone. The verdict counts all 4 arms: p = 0.0156, and "
            "0.0625 after Holm."
        )
        assert not any("leaves out 0" in note for other in others for note in other.notes)
        [alone] = compared(paths[:2], metric="score").comparisons
        assert alone.verdict == "higher" and alone.notes == ()

    def test_an_interval_and_a_test_of_one_arm_that_disagree_are_explained(self, tmp_path):
        [row] = compared(self.numbers(tmp_path, a=[0.0] * 6, b=[1, 1, 1, 1, 1, -0.2]), metric="score").comparisons
        assert row.difference.lo > 0 and row.verdict == "no clear difference"
        assert row.notes == (
            "The interval leaves out 0, but the test does not: p = 0.0625. The verdict is the test's.",
        )

    def test_a_clear_verdict_beside_an_interval_with_0_is_explained(self, tmp_path):
        noisy = [[0.0, 1.0] * 2, [1.0, 0.0] * 2]
        for arm, shift in (("a", 0.0), ("b", 0.05)):
            for seed in range(8):
                rewards = [value + shift for value in noisy[(seed + (arm == "b")) % 2]]
                write_lines(tmp_path / arm / f"seed-{seed}.jsonl", outcomes(rewards))
        [row] = compared([tmp_path / "a", tmp_path / "b"], metric="reward").comparisons
        assert row.difference.lo < 0 and row.verdict == "higher"
        assert (
            "The interval holds 0, but the test tells the difference from 0: p = 0.00781. The verdict is the test's."
            in row.notes
        )

    def test_seeds_that_are_tied_and_what_they_cost_are_told(self, tmp_path):
        paths = self.numbers(tmp_path, a=[0.5] * 8, b=[0.7, 0.8, 0.9, 0.6, 0.7, 0.8, 0.9, 0.5])
        [row] = compared(paths, metric="score").comparisons
        assert row.test.floor == 2 ** (1 - 7) and row.verdict == "higher"
        assert row.notes == ("1 of 8 seeds is tied and says nothing: the smallest possible p is that of 7 seeds.",)

    def test_missing_seeds_are_named_not_dropped(self, tmp_path):
        paths = [write_arm(tmp_path / "a", 0.2, 8), write_arm(tmp_path / "b", 0.8, 6, salt=1)]
        with pytest.raises(UsageError, match="b lacks seed 6, 7"):
            compared(paths, paired="seed")
        [row] = compared(paths).comparisons
        assert (row.paired, row.unit, row.difference.n) == ("no", "seed", 14)
        assert "b lacks seed 6, 7" in row.notes[0]

    def test_tasks_without_partner_are_counted(self, tmp_path):
        paths = [write_arm(tmp_path / "a", 0.2, 6, tasks=40), write_arm(tmp_path / "b", 0.8, 6, tasks=42, salt=1)]
        [row] = compared(paths).comparisons
        assert "12 outcomes have no partner" in row.notes[0]

    def test_numbers_of_whole_runs(self, tmp_path):
        for name, shift in (("a", 0.0), ("b", 1.0)):
            rows = [{"seed": seed, "kl": shift + 0.01 * (seed + 1) ** (1 + shift)} for seed in range(6)]
            write_lines(tmp_path / f"{name}.jsonl", rows)
        [row] = compared([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], metric="kl").comparisons
        assert (row.test.p, row.clustered_by, row.verdict) == (0.03125, "seed", "higher")


class TestPairedTasks:
    def test_one_run_each_is_mcnemar_and_says_what_it_is_about(self, tmp_path):
        first, second = [1, 1, 1] + [0] * 12 + [1] * 15, [0, 0, 0] + [1] * 12 + [1] * 15
        paths = [write_lines(tmp_path / f"{n}.jsonl", outcomes(r)) for n, r in (("a", first), ("b", second))]
        result = compared(paths)
        [row] = result.comparisons
        assert (row.paired, row.unit) == ("task", "task")
        assert row.test.name == "McNemar (12 gained, 3 lost)"
        assert row.test.p == pytest.approx(0.03515625)
        assert row.difference.mean == pytest.approx(0.3)
        assert row.verdict == "higher"
        assert any("not about new runs" in note for note in row.notes)
        with pytest.raises(UsageError, match="one run each"):
            compared(paths, paired="seed")

    def test_too_few_tasks_differ(self, tmp_path):
        paths = [write_lines(tmp_path / f"{n}.jsonl", outcomes([0] * 30 + [x] * 3)) for n, x in (("a", 0), ("b", 1))]
        [row] = compared(paths).comparisons
        assert row.verdict == "cannot be tested"
        assert any("too few tasks differ" in note for note in row.notes)

    def test_no_task_differs_is_no_certainty(self, tmp_path, capsys):
        paths = [write_lines(tmp_path / f"{n}.jsonl", outcomes([0, 1] * 30)) for n in "ab"]
        result = compared(paths)
        [row] = result.comparisons
        told = row.model_dump(mode="json")
        assert told["difference"] == {"mean": 0.0, "lo": None, "hi": None, "n": 60}
        assert (told["clustered"]["lo"], told["clustered"]["hi"]) == (None, None)
        assert result.arms[0].model_dump()["estimate"]["lo"] > 0, "half of 60 tasks has an interval"
        show_comparison(result, None)
        assert "+0.000 [all alike]" in capsys.readouterr().out
        assert ">all alike<" in contrast_chart(result)
        assert any("up to 5%" in note for note in row.notes)

    def test_few_tasks_that_are_alike_tell_nothing(self, tmp_path, capsys):
        paths = [write_lines(tmp_path / f"{n}.jsonl", outcomes([0, 1, 1])) for n in "ab"]
        show_comparison(compared(paths), None)
        assert "+0.000 [too few to tell]" in capsys.readouterr().out

    def test_several_tries_are_flipped_by_task(self, tmp_path):
        tries = [outcomes([0.0] * 8) + outcomes([0.0] * 8), outcomes([1.0] * 8) + outcomes([0.0] * 8)]
        paths = [write_lines(tmp_path / f"{n}.jsonl", r) for n, r in zip("ab", tries, strict=True)]
        [row] = compared(paths).comparisons
        assert (row.test.name, row.test.p) == ("sign-flip over tasks", 2 / 2**8)
        assert row.difference.mean == 0.5


class TestUnpaired:
    def test_no_common_tasks(self, tmp_path):
        first = write_lines(tmp_path / "a.jsonl", outcomes([0.0, 1.0] * 20))
        second = write_lines(
            tmp_path / "b.jsonl", [{**r, "task_id": f"u{i}"} for i, r in enumerate(outcomes([1.0] * 40))]
        )
        with pytest.raises(UsageError, match="no common tasks"):
            compared([first, second], paired="task")
        [row] = compared([first, second]).comparisons
        assert (row.paired, row.interval, row.difference.mean) == ("no", "Welch over tasks", 0.5)
        assert row.verdict == "higher"
        assert "may come from the tasks" in row.notes[0]

    def test_pairing_makes_equal_difficulty_count(self, tmp_path):
        hard = np.random.default_rng(0).normal(size=60)
        paths = [
            write_lines(tmp_path / f"{n}.jsonl", outcomes((hard + shift + 0.01 * np.sin(np.arange(60))).tolist()))
            for n, shift in (("a", 0.0), ("b", 0.1))
        ]
        [together] = compared(paths, metric="reward").comparisons
        [apart] = compared(paths, metric="reward", paired="no").comparisons
        assert together.difference.mean == pytest.approx(apart.difference.mean)
        assert together.verdict == "higher"
        assert apart.verdict == "no clear difference"

    def test_clusters_widen_unpaired_intervals(self, tmp_path):
        rng = np.random.default_rng(4)
        level = {f"{n}{i}": rng.normal() for n in "ab" for i in range(10)}
        for name in "ab":
            rows = [
                {"task_id": f"{name}{i}", "reward": level[f"{name}{i % 10}"], "repository": f"r{i % 10}"}
                for i in range(80)
            ]
            write_lines(tmp_path / f"{name}.jsonl", rows)
        paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        [grouped] = compared(paths, metric="reward").comparisons
        [alone] = compared(paths, metric="reward", cluster="none").comparisons
        assert grouped.test.name == "t with clustered errors"
        assert grouped.difference.n == 20
        assert grouped.difference.hi - grouped.difference.lo > 2 * (alone.difference.hi - alone.difference.lo)

    def test_one_number_per_arm_is_refused(self, tmp_path):
        paths = [write_lines(tmp_path / f"{n}.jsonl", [{"kl": v}]) for n, v in (("a", 1), ("b", 2))]
        with pytest.raises(UsageError, match="one common task"):
            compared(paths, metric="kl")


class TestShowing:
    def test_the_chart_is_well_formed_and_escapes_names(self, tmp_path):
        arms = [f"<b>&={write_arm(tmp_path / 'a', 0.3, 6)}", f"other={write_arm(tmp_path / 'b', 0.6, 6, salt=1)}"]
        read = read_arms(arms, OutcomeChoice())
        svg = contrast_chart(compare_arms(read, "<b>&", "success"))
        root = ElementTree.fromstring(svg)
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"<b>&", "other", "6 runs · 40 tasks", "success, %"} <= set(texts)
        seeds = [c for c in root.iter("{http://www.w3.org/2000/svg}circle") if "seed" in c.get("class")]
        assert len(seeds) == 3 * 6

    def test_the_drawing_marks_mean_interval_and_zero(self, tmp_path):
        paths = [
            write_arm(tmp_path / n, c, 8, salt=i)
            for i, (n, c) in enumerate((("base", 0.3), ("up", 0.9), ("same", 0.3)))
        ]
        up, same, axis = drawing(compared(paths).comparisons)
        zero = up.index("┊")
        assert up.index("─") > zero
        assert up.count("●") == same.count("●") == 1
        assert same.index("─") < zero
        assert axis[zero] == "0"


class TestCommand:
    def test_json_and_chart(self, tmp_path):
        paths = [write_arm(tmp_path / n, c, 8, salt=i) for i, (n, c) in enumerate((("a", 0.3), ("b", 0.6), ("c", 0.5)))]
        chart = tmp_path / "out" / "chart.svg"
        done = evaluate("--compare", *paths, "--baseline", "b", "--chart", chart, "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["baseline"] == "b"
        assert [row["arm"] for row in result["comparisons"]] == ["a", "c"]
        found = list(estimates(result))
        assert len(found) == 3 + 2 * 2
        assert all(set(estimate) == {"mean", "lo", "hi", "n"} for estimate in found)
        assert chart.read_text().startswith("<svg")

    def test_one_run_is_compared_with_itself_before_training(self, tmp_path):
        run = write_run(tmp_path / "run", [0.0] * 9 + [1.0], [1.0] * 9 + [0.0], seed=0)
        told = json.loads(evaluate("--compare", run, "--json").stdout)
        assert [(arm["name"], arm["estimate"]["mean"]) for arm in told["arms"]] == [
            ("run before", 0.1),
            ("run after", 0.9),
        ]
        [row] = told["comparisons"]
        assert told["baseline"] == "run before" and row["difference"]["mean"] == pytest.approx(0.8)
        assert row["test"]["name"] == "McNemar (9 gained, 1 lost)"
        several = [write_run(tmp_path / "runs" / str(n), [0.0] * 9, [1.0, 0.0, 1.0] * 3, seed=n) for n in range(6)]
        told = json.loads(evaluate("--compare", f"mine={several[0].parent}", "--json").stdout)
        assert [arm["name"] for arm in told["arms"]] == ["mine before", "mine after"]
        assert told["comparisons"][0]["paired"] == "seed" and told["comparisons"][0]["difference"]["n"] == 6

    def test_text_says_the_difference_the_test_and_the_verdict(self, tmp_path, monkeypatch, capsys):
        paths = [write_arm(tmp_path / n, c, 8, salt=i) for i, (n, c) in enumerate((("a", 0.2), ("b", 0.8)))]
        assert exit_code(monkeypatch, "--compare", *map(str, paths)) == 0
        told = capsys.readouterr().out
        assert "sign-flip over seeds p = 0.008 (smallest possible 0.008)" in told
        assert re.search(r"│ b\s+│ \+0\.\d+ \[\+0\.\d+, \+0\.\d+\] │ 0\.008\s+│ 0\.\d+\s+│ higher", told)

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (("--compare", "a"), "a needs a phase, before or after"),
            (("--compare",), "two arms, or one run"),
            (("--compare", "a", "--phase", "before"), "--phase chooses one of both"),
            (("--compare", "a", "b", "--chart", "x.png"), "not an .svg"),
            (("--compare", "a", "nowhere"), "does not exist"),
            (("--compare", "a", "b", "--baseline", "z"), "no arm is called z (there: a, b)"),
            (("--compare", "a", "b", "--metric", "speed"), "has no number speed (there: reward, success)"),
            (("a", "--compare", "a", "b"), "before --compare"),
            (("a", "--metric", "turns"), "belong to --compare"),
            ((), "no run is named"),
        ],
    )
    def test_wrong_use_is_one_line(self, tmp_path, monkeypatch, capsys, arguments, reason):
        for name in "ab":
            write_lines(tmp_path / name / "seed-0.jsonl", outcomes([1.0, 0.0]))
        monkeypatch.chdir(tmp_path)
        assert exit_code(monkeypatch, *arguments) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        [line] = printed.err.strip().splitlines()
        assert line.startswith("error: ")
        assert reason in line
        assert "next: " in line
