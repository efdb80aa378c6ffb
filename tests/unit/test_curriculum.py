"""The curriculum: draws where a group of rollouts teaches, retires what is solved, and remembers."""

import json
import random
from collections import Counter

import pytest

from composer_replication.errors import UsageError
from composer_replication.training.rollouts.curriculum import Curriculum, CurriculumSettings, TaskStanding, entries_of


def entry(task_id, family="f", rung="0", **more):
    return TaskStanding(task_id=task_id, family=family, rung=rung, **more)


def flat(*rates):
    """Tasks of their own families, with a hundred results at the given rates."""
    curriculum = Curriculum([entry(f"t{place}", family=f"f{place}") for place in range(len(rates))])
    for place, rate in enumerate(rates):
        curriculum.record(f"t{place}", round(100 * rate), 100)
    return curriculum


def test_draws_follow_p_times_one_minus_p():
    curriculum = flat(0.5, 0.1, 0.99, 0.0)
    curriculum.settings = CurriculumSettings(explore=0.0)
    drawn = Counter(task for _ in range(2000) for task in curriculum.sample(1))
    assert drawn["t2"] == drawn["t3"] == 0
    assert curriculum.weight("t0") / curriculum.weight("t1") == pytest.approx(drawn["t0"] / drawn["t1"], rel=0.25)


def test_exploration_comes_back_to_what_looked_hopeless():
    curriculum = flat(0.5, 0.0)
    drawn = Counter(task for _ in range(500) for task in curriculum.sample(1))
    assert 5 < drawn["t1"] < 60


def test_an_untried_task_counts_as_open():
    curriculum = Curriculum([entry("new", family="a"), entry("solved", family="b")])
    curriculum.record("solved", 8, 8)
    assert curriculum.weight("new") == 0.25
    assert curriculum.weight("solved") == 0.0


def test_a_sample_has_no_repeats_while_there_are_enough():
    curriculum = flat(*[0.5] * 6)
    assert len(set(curriculum.sample(6))) == 6
    assert len(curriculum.sample(9)) == 9


def test_the_same_seed_draws_the_same_and_survives_a_stop():
    one, other = flat(0.2, 0.5, 0.7, 0.9), flat(0.2, 0.5, 0.7, 0.9)
    assert [one.sample(2) for _ in range(5)] == [other.sample(2) for _ in range(5)]
    resumed = flat(0.9, 0.9, 0.9, 0.9)
    resumed.load(json.loads(json.dumps(one.state())))
    assert [resumed.sample(2) for _ in range(5)] == [other.sample(2) for _ in range(5)]
    assert resumed.state() == other.state()
    with pytest.raises(UsageError, match="other tasks"):
        flat(0.5).load(one.state())
    seeded = Curriculum(one.entries.values(), seed=1)
    assert [seeded.sample(2) for _ in range(5)] != [flat(0.2, 0.5, 0.7, 0.9).sample(2) for _ in range(5)]


def ladder():
    return Curriculum.laddered(
        [
            entry("cluster-L0", rung="1"),
            entry("symbol-L1", rung="0 1"),
            entry("symbol-L0", rung="0 0"),
            entry("alone", family="other"),
        ]
    )


def test_a_ladder_starts_with_the_easiest_of_each_family():
    curriculum = ladder()
    assert set(curriculum.sample(2)) == {"symbol-L0", "alone"}
    assert curriculum.entries["symbol-L1"].standing == "waiting"


def test_a_task_is_retired_after_two_epochs_above_and_a_harder_one_opens():
    curriculum = ladder()
    curriculum.record("symbol-L0", 20, 20)
    assert curriculum.end_epoch() == []
    curriculum.record("symbol-L0", 20, 20)
    assert curriculum.end_epoch() == ["symbol-L1"]
    assert curriculum.entries["symbol-L0"].standing == "retired"
    assert "symbol-L0" not in curriculum.sample(50)
    for _ in range(2):
        curriculum.record("symbol-L1", 20, 20)
        opened = curriculum.end_epoch()
    assert opened == ["cluster-L0"]


def test_where_all_tasks_are_retired_they_are_drawn_again():
    """A step without a task would end the run."""
    curriculum = Curriculum([entry(f"t{place}", family=f"f{place}") for place in range(3)])
    for _ in range(20):
        drawn = curriculum.sample(2)
        assert len(drawn) == 2
        for task_id in drawn:
            curriculum.record(task_id, 8, 8)
    assert {one.standing for one in curriculum.entries.values()} == {"retired"}


def test_one_bad_epoch_starts_the_count_again():
    curriculum = ladder()
    for passed in (20, 0, 20):
        curriculum.record("symbol-L0", passed, 20)
        assert curriculum.end_epoch() == []
    assert curriculum.entries["symbol-L0"].standing == "open"


def test_a_task_that_is_never_solved_hands_over_to_an_easier_one():
    entries = [entry("easy", standing="waiting"), entry("hard", rung="1")]
    curriculum = Curriculum(entries)
    curriculum.record("hard", 0, 20)
    assert curriculum.end_epoch() == ["easy"]
    assert set(curriculum.sample(2)) == {"easy", "hard"}


def test_few_results_settle_nothing():
    curriculum = ladder()
    for _ in range(3):
        curriculum.record("symbol-L0", 1, 1)
        assert curriculum.weight("symbol-L0") > 0
        assert curriculum.end_epoch() == []


def test_wrong_counts_and_unknown_tasks_are_refused():
    curriculum = ladder()
    with pytest.raises(UsageError, match="cannot have passed"):
        curriculum.record("symbol-L0", 3, 2)
    with pytest.raises(UsageError, match="does not know"):
        curriculum.record("nobody", 1, 1)
    with pytest.raises(UsageError, match="at least one task"):
        Curriculum([])


def simulate(curriculum, skill_of, rounds=20, batch=8, group=8, seed=0):
    """A policy that gets better at each family the more it is trained on rates away from 0 and 1."""
    draw, skill, informative = random.Random(seed), Counter(), 0
    for _ in range(rounds):
        for task in curriculum.sample(batch):
            rate = skill_of(task, skill)
            passed = sum(draw.random() < rate for _ in range(group))
            informative += 0 < passed < group
            skill[curriculum.entries[task].family] += 0.04 * rate * (1 - rate) * 4
            curriculum.record(task, passed, group)
        curriculum.end_epoch()
    return informative / (rounds * batch), skill


def test_a_simulated_policy_sees_more_informative_groups_and_climbs():
    levels = ["L0", "L1", "L2", "L3"]
    tasks = [entry(f"{family}-{level}", family=family, rung=level) for family in "abcdefghijklmnop" for level in levels]
    start = {family: 0.15 * place for place, family in enumerate("abcdefghijklmnop")}

    def skill_of(task, skill):
        family, level = task.split("-")
        return min(0.99, max(0.01, start[family] + skill[family] - 0.4 * levels.index(level)))

    climbing = Curriculum.laddered(tasks)
    uniform = Curriculum(tasks, settings=CurriculumSettings(explore=0.999))
    shares = simulate(climbing, skill_of)[0], simulate(uniform, skill_of)[0]
    assert shares[0] > shares[1] + 0.15
    assert Counter(each.standing for each in climbing.entries.values())["retired"] >= 8
    assert any(each.rung == "L3" and each.total_tried for each in climbing.entries.values())


def test_entries_come_from_labels():
    class Task:
        def __init__(self, task_id, **labels):
            self.task_id, self.labels, self.messages = task_id, labels, ()

    plain, labelled = entries_of([Task("a"), Task("b", family="f", rung="0 1", mode="stub")])
    assert (plain.family, plain.rung) == ("a", "") and (labelled.family, labelled.rung) == ("f", "0 1")


def test_an_epoch_is_over_when_all_open_tasks_have_results():
    curriculum = flat(0.5, 0.5, 0.5)
    assert (curriculum.epoch, len(curriculum.sample(2))) == (0, 2) and curriculum.epoch == 1
    curriculum.record("t0", 1, 2)
    curriculum.record("t1", 1, 2)
    curriculum.sample(1)
    assert curriculum.epoch == 1, "two of three"
    curriculum.record("t0", 1, 2)
    curriculum.sample(1)
    assert curriculum.epoch == 2
