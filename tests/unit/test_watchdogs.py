"""Alarms: raised soon when a run goes wrong, said once, and silent in runs that are only noisy."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from composer_replication.errors import RecomposeError
from composer_replication.training.alarms import AlarmWarnings, Thresholds
from composer_replication.training.stored.records import Alarm
from composer_replication.training.watchdogs import Watchdog
from tests.notes import Notes

COLLAPSE_STEP = 60
DETECTED_WITHIN_STEPS = 10
HEALTHY_HISTORIES = 1000


class Trial:
    """A trainer's side of a watchdog: it logs, and remembers what was logged as a checkpoint would."""

    def __init__(self, run, step=0, log_history=(), world_zero=True, **options):
        self.notes = Notes()
        self.args = SimpleNamespace(output_dir=str(run / "training" / "scratch"))
        self.state = SimpleNamespace(
            global_step=step, max_steps=10_000, log_history=list(log_history), is_world_process_zero=world_zero
        )
        self.control = SimpleNamespace(should_training_stop=False, should_save=True)
        self.path = run / "training" / "alarms.jsonl"
        self.watchdog = Watchdog(run, self.notes, **options)
        self.watchdog.on_train_begin(self.args, self.state, self.control)

    def log(self, **values):
        self.state.global_step += 1
        self.watchdog.on_step_end(self.args, self.state, self.control)
        self.state.log_history.append({**values, "step": self.state.global_step})
        self.watchdog.on_log(self.args, self.state, self.control, logs=values)
        return self

    def alarms(self):
        return [Alarm.model_validate_json(line) for line in self.path.read_text().splitlines()]

    def names(self):
        return [alarm.name for alarm in self.alarms()]


def healthy(rng, steps):
    """A run that learns: entropy falls, length and KL move, rates wander; with noise and single wild steps."""
    rollouts = rng.choice((64, 128, 256))
    starts = {
        "loss": 0.1,
        "grad_norm": 0.5,
        "entropy": rng.uniform(0.2, 2.0),
        "completions/mean_length": rng.uniform(20, 2000),
        "rollout/tool_calls_per_turn": rng.uniform(0.5, 1.2),
        "kl": 0.02,
        "sdpo/divergence": rng.uniform(0.02, 0.3),
    }
    ends = {key: start * rng.uniform(0.7, 1.4) for key, start in starts.items()}
    ends["entropy"] = starts["entropy"] * rng.uniform(0.5, 1.1)
    ends["kl"] = rng.uniform(0.02, 0.4)
    rates = {key: (rng.uniform(0, 0.4), rng.uniform(0.8, 1.2)) for key in ("repetition", "truncation")}
    chosen_end = rng.uniform(-0.8, 1.0)
    for step in range(steps):
        done = step / steps
        entry = {}
        for key, start in starts.items():
            wild = rng.choice((0.25, 4.0)) if rng.random() < 0.02 else 1.0
            entry[key] = (start + done * (ends[key] - start)) * math.exp(rng.gauss(0, 0.15)) * wild
        for key, (base, drift) in rates.items():
            chance = base * (1 + done * (drift - 1))
            noisy = rng.gauss(chance, math.sqrt(chance * (1 - chance) / rollouts))
            entry[f"rollout/{key}_rate"] = min(1.0, max(0.0, noisy))
        entry["replay/chosen_shift"] = done * chosen_end + rng.gauss(0, 0.5)
        if step % 5 == 0:
            entry["gradient/sdpo_factor"] = min(1.0, rng.uniform(0.3, 1.4))
        yield entry


COLLAPSES = {
    "entropy": ("entropy", 0.15),
    "length_doubled": ("completions/mean_length", 4.0),
    "length_halved": ("completions/mean_length", 0.2),
    "repetition": ("rollout/repetition_rate", 3.0),
    "truncation": ("rollout/truncation_rate", 3.0),
    "kl": ("kl", 100.0),
    "tool_use": ("rollout/tool_calls_per_turn", 0.2),
    "teacher_divergence": ("sdpo/divergence", None),
    "chosen_logprob": ("replay/chosen_shift", None),
}
PLATEAUS = {"teacher_divergence": 0.688, "chosen_logprob": -3.0}


@pytest.mark.parametrize("name", COLLAPSES)
def test_a_collapse_is_told_soon_and_once(tmp_path, name):
    key, factor = COLLAPSES[name]
    for seed in range(20):
        run = tmp_path / str(seed)
        trial, rng = Trial(run), random.Random(seed)
        for step, entry in enumerate(healthy(rng, 140)):
            if name in ("repetition", "truncation"):
                entry[key] = 0.15 + rng.gauss(0, 0.02)
            if step >= COLLAPSE_STEP:
                entry[key] = PLATEAUS[name] + rng.gauss(0, 0.002) if factor is None else entry[key] * factor
            trial.log(**entry)
        alarms = [alarm for alarm in trial.alarms() if alarm.name == name]
        assert len(alarms) == 1
        assert COLLAPSE_STEP < alarms[0].step <= COLLAPSE_STEP + DETECTED_WITHIN_STEPS
        assert f"step {alarms[0].step}: {alarms[0].sentence}; {alarms[0].resume}" in trial.notes.said
        assert len(trial.notes.said) == len(trial.alarms())


def test_healthy_runs_are_left_in_peace(tmp_path):
    alarmed = []
    for seed in range(HEALTHY_HISTORIES):
        rng = random.Random(f"healthy:{seed}")
        trial = Trial(tmp_path)
        for entry in healthy(rng, rng.randint(30, 200)):
            trial.log(**entry)
        alarmed += [(seed, trial.names())] if trial.names() else []
    assert len(alarmed) <= HEALTHY_HISTORIES // 100, alarmed


def rewarded(run, rewards, flat=1.0, **options):
    trial = Trial(run, limits=Thresholds(compared_steps=12, **options))
    for reward in rewards:
        trial.log(reward=reward, frac_reward_zero_std=flat)
    return trial


@pytest.mark.parametrize(("reward", "told"), [(0.0, "got any reward"), (0.25, "got the same reward, 0.25 on average")])
def test_first_steps_that_teach_nothing_are_told_once(tmp_path, reward, told):
    trial = rewarded(tmp_path, [reward] * 12 + [0.5, *[reward] * 40])
    (alarm,) = trial.alarms()
    assert (alarm.name, alarm.step) == ("no_advantage", 12) and told in alarm.sentence
    assert trial.notes.said == [f"step 12: {alarm.sentence}; {alarm.resume}"]
    resumed = Trial(tmp_path, step=53, log_history=trial.state.log_history, limits=trial.watchdog.limits)
    assert resumed.log(reward=0.0, frac_reward_zero_std=1.0).names() == ["no_advantage"], "not said again"


@pytest.mark.parametrize(
    ("norms", "rates", "names", "told"),
    [
        ([0.0, 0.0], [0.0, 1e-5], ["no_gradient"], ["0 in each of the 2 steps"]),
        ([0.0, 1e-4, 0.0], [1e-5] * 3, [], ["1 of 3 steps could move weights; 2 had no gradient: on stored sessions"]),
        (
            [1e-4, 0.0, 1e-4, 1e-4],
            [0.0, 1e-5, 1e-5, 1e-5],
            [],
            ["2 of 4 steps could move weights; 1 ran at a learning rate of 0 (training.rate_warmup_steps); 1 had no"],
        ),
        ([1e-4, 1e-4], [1e-5] * 2, [], []),
        ([], [], [], []),
    ],
)
def test_a_training_says_at_its_end_how_many_steps_moved_nothing(tmp_path, norms, rates, names, told):
    trial = Trial(tmp_path, reads_stored=True)
    for norm, rate in zip(norms, rates, strict=True):
        trial.log(grad_norm=norm, learning_rate=rate)
    trial.watchdog.on_train_end(trial.args, trial.state, trial.control)
    assert trial.names() == names
    assert len(trial.notes.said) == len(told)
    assert all(words in note for words, note in zip(told, trial.notes.said, strict=True))


@pytest.mark.parametrize("stored", [True, False])
def test_only_who_reads_stored_sessions_is_told_to_read_more(tmp_path, stored):
    trial = Trial(tmp_path, reads_stored=stored)
    trial.log(grad_norm=0.0).log(grad_norm=1e-4)
    trial.watchdog.on_train_end(trial.args, trial.state, trial.control)
    assert ["traces_per_step" in note for note in trial.notes.said] == [stored]


def test_one_rollout_that_does_better_is_enough(tmp_path):
    assert rewarded(tmp_path, [0.0] * 11 + [0.1] + [0.0] * 40, flat=0.9).names() == []
    assert rewarded(tmp_path, [0.0] * 11).names() == [], "too early"
    assert rewarded(tmp_path, [0.5] * 60, imitates=True).names() == [], "full rewards are imitated"
    assert rewarded(tmp_path, [0.0] * 60, imitates=True).names() == ["no_advantage"]


def test_a_reward_that_collapses_is_told_and_one_that_is_full_is_not(tmp_path):
    trial = rewarded(tmp_path / "lost", [0.4] * 12, flat=0.5)
    for _ in range(20):
        trial.log(reward=0.0, frac_reward_zero_std=1.0)
    fell, lost = trial.alarms()
    assert (fell.name, fell.step, lost.name, lost.step) == ("reward_fell", 15, "advantage_lost", 19)
    assert "the reward fell from 0.40 to 0.00, and in the last 7 logged steps" in lost.sentence
    solved = rewarded(tmp_path / "solved", [0.4] * 12, flat=0.5)
    for _ in range(20):
        solved.log(reward=1.0, frac_reward_zero_std=1.0)
    assert solved.names() == []


def test_turns_that_are_unlearnt_are_told_once_until_they_come_back(tmp_path):
    trial = Trial(tmp_path)
    for shift in (0.0, -0.1, -0.29, -0.31, -2.0, -0.25, -0.5, -0.1, -0.5):
        trial.log(**{"reread/shift": shift})
        trial.log(loss=1.0)
    first, again = trial.alarms()
    assert (first.name, first.step, again.step) == ("unlearning", 7, 17)
    assert "lost 0.31 nats per token since the start" in first.sentence


def test_flat_groups_are_told_where_the_reward_fell_only_a_little(tmp_path):
    trial = rewarded(tmp_path, [0.4] * 12, flat=0.5)
    for _ in range(20):
        trial.log(reward=0.3, frac_reward_zero_std=1.0)
    assert trial.names() == ["advantage_lost"]


def played(rng, chances, rollouts):
    """Mean rewards of steps in which each rollout is solved with the step's chance."""
    return [sum(rng.random() < chance for _ in range(rollouts)) / rollouts for chance in chances]


LEARNT = [0.2 + 0.55 * min(1, step / 20) for step in range(60)]


@pytest.mark.parametrize("rollouts", [16, 128])
@pytest.mark.parametrize("left", [0.0, 0.2])
def test_what_was_learnt_and_lost_again_is_told_once(tmp_path, rollouts, left):
    for seed in range(20):
        trial = Trial(tmp_path / str(seed))
        for reward in played(random.Random(seed), [*LEARNT, *[left] * 60], rollouts):
            trial.log(reward=reward)
        (alarm,) = trial.alarms()
        assert alarm.name == "reward_fell" and COLLAPSE_STEP < alarm.step <= COLLAPSE_STEP + DETECTED_WITHIN_STEPS
        assert alarm.value < alarm.threshold < 0.75


@pytest.mark.parametrize(("chance", "rollouts"), [(0.05, 32), (0.2, 16), (0.5, 4), (0.5, 128), (0.9, 8)])
def test_a_reward_that_only_wanders_is_left_in_peace(tmp_path, chance, rollouts):
    alarmed = 0
    for seed in range(50):
        trial = Trial(tmp_path / str(seed))
        for reward in played(random.Random(f"wanders:{seed}"), [chance] * 150, rollouts):
            trial.log(reward=reward)
        alarmed += bool(trial.names())
    assert alarmed <= 1


def test_a_slow_learner_is_left_in_peace(tmp_path):
    for seed in range(20):
        trial = Trial(tmp_path / str(seed))
        for reward in played(random.Random(seed), [0.05 + 0.9 * step / 300 for step in range(300)], 16):
            trial.log(reward=reward)
        assert trial.names() == [], seed


@pytest.mark.parametrize("lift", [0.0, -1.0])
def test_a_reward_that_came_back_and_falls_again_is_told_again(tmp_path, lift):
    trial, rng = Trial(tmp_path), random.Random(0)
    for reward in played(rng, [*LEARNT, *[0.1] * 60, *[0.75] * 60, *[0.1] * 60], 64):
        trial.log(reward=reward + lift)
    assert trial.names() == ["reward_fell"] * 2
    assert [alarm.step // 60 for alarm in trial.alarms()] == [1, 3]


def test_a_reward_that_hovers_where_it_is_told_is_not_told_over_and_over(tmp_path):
    raised = 0
    for seed in range(20):
        trial = Trial(tmp_path / str(seed))
        for reward in played(random.Random(seed), [*LEARNT, *[0.4] * 240], 8):
            trial.log(reward=reward)
        raised += len(trial.names())
    assert raised <= 22, "with a margin over the threshold, as other alarms have it, it is 161"


def test_a_resume_says_a_fallen_reward_neither_twice_nor_never(tmp_path):
    rewards = played(random.Random(0), [*LEARNT[:30], *[0.1] * 20, *[0.75] * 20, *[0.1] * 20], 32)
    whole = Trial(tmp_path / "whole")
    for reward in rewards:
        whole.log(reward=reward).log(loss=0.1)
    assert len(whole.alarms()) == 2
    for cut in range(0, 2 * len(rewards), 7):
        first = Trial(tmp_path / str(cut))
        for entry in whole.state.log_history[:cut]:
            first.log(**entry)
        again = Trial(tmp_path / str(cut), step=cut, log_history=first.state.log_history)
        for entry in whole.state.log_history[cut:]:
            again.log(**entry)
        assert [(a.step, a.value) for a in again.alarms()] == [(a.step, a.value) for a in whole.alarms()]
        assert len(first.notes.said) + len(again.notes.said) == 2


def test_a_fallen_reward_says_what_may_help_and_names_a_checkpoint_only_where_one_is(tmp_path):
    def sentence(run, max_steps=100):
        trial = Trial(run)
        trial.state.max_steps = max_steps
        for reward in [0.75] * 10 + [0.0] * 5:
            trial.log(reward=reward)
        return trial.alarms()[0].sentence

    kept = tmp_path / "kept"
    (kept / "training" / "scratch" / "checkpoint-5").mkdir(parents=True)
    (kept / "training" / "scratch" / "checkpoint-5" / "composer-0.safetensors").touch()
    assert "the reward fell from 0.75 to 0.15" in sentence(kept) and "schedule" in sentence(kept)
    assert f"`recompose evaluate {kept} --checkpoint STEP`" in sentence(kept)
    assert "recompose" not in sentence(kept, max_steps=14), "training is over, and its checkpoints are gone"
    assert "recompose" not in sentence(tmp_path / "none")
    script = AlarmWarnings()
    state = SimpleNamespace(global_step=1, is_world_process_zero=True)
    with pytest.warns(UserWarning, match="the reward fell from 0.75") as told:
        for reward in [0.75] * 10 + [0.0] * 5:
            script.on_log(None, state, None, {"reward": reward})
    assert len(told) == 1 and "recompose" not in str(told[0].message)


def test_stored_runs_that_unlearnt_are_told_and_their_sound_neighbours_are_not(tmp_path):
    stored = Path(__file__).parents[2] / "experiments" / "012-competitors" / "results" / "half"
    raised = {"alone": 0, "grpo": 0}
    for arm in raised:
        paths = sorted(stored.glob(f"{arm}-*.jsonl.zst"))
        assert len(paths) == 16
        for path in paths:
            lines = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()).splitlines()
            trial = Trial(tmp_path / path.name)
            for entry in map(json.loads, lines):
                if entry["line"] == "step":
                    trial.log(reward=entry["reward"])
            raised[arm] += len(trial.names())
    assert raised == {"alone": 16, "grpo": 0}


def test_one_wild_step_says_nothing(tmp_path):
    trial = Trial(tmp_path)
    for step in range(60):
        wild = 50.0 if step in (0, 30, 31) else 1.0
        trial.log(entropy=1 / wild, kl=0.1 * wild, **{"completions/mean_length": 40 * wild})
    assert trial.names() == []


def test_a_rate_that_doubles_within_its_bounds_is_no_alarm(tmp_path):
    trial = Trial(tmp_path)
    for step in range(60):
        trial.log(
            **{"rollout/truncation_rate": 0.04 if step < 30 else 0.19, "rollout/repetition_rate": 0.3 + step / 250}
        )
    assert trial.names() == []


def test_an_alarm_comes_again_only_after_the_value_came_back(tmp_path):
    trial = Trial(tmp_path)
    at_the_edge, recovered = (0.29, 0.31), (0.9,)
    for values in ((1.0,), at_the_edge, recovered, at_the_edge):
        for step in range(40):
            trial.log(entropy=values[step % len(values)])
    assert trial.names() == ["entropy", "entropy"]
    assert [40 < alarm.step <= 80 for alarm in trial.alarms()] == [True, False]


def test_a_value_that_hovers_at_its_threshold_is_not_told_over_and_over(tmp_path):
    limit, raised = Thresholds().entropy_share, 0
    for seed in range(20):
        trial, rng = Trial(tmp_path / str(seed)), random.Random(seed)
        for step in range(300):
            trial.log(entropy=(1.0 if step < 30 else limit) * math.exp(rng.gauss(0, 0.15)))
        raised += len(trial.names())
    assert raised <= 22, "with a margin of 0.1 it is 134, without any 373"


@pytest.mark.parametrize("key", ["loss", "grad_norm", "channel/sdpo", "gradient/policy"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_a_number_that_is_not_finite_ends_the_run(tmp_path, key, value):
    trial = Trial(tmp_path).log(loss=0.1, grad_norm=1.0)
    assert not trial.control.should_training_stop
    trial.watchdog.raise_if_stopped()
    trial.log(**{"loss": 0.1, "grad_norm": 1.0, key: value})
    assert trial.control.should_training_stop
    assert not trial.control.should_save, "weights that may be broken must not become a checkpoint"
    (alarm,) = trial.alarms()
    assert (alarm.name, alarm.step, alarm.stopped) == ("not_finite", 2, True)
    assert not math.isfinite(alarm.value)
    assert key in alarm.sentence
    with pytest.raises(RecomposeError, match=r"step 2: .*; next: recompose train"):
        trial.watchdog.raise_if_stopped()


def test_a_metric_that_is_missing_or_not_finite_does_not_end_the_run(tmp_path):
    trial = Trial(tmp_path)
    for _ in range(30):
        trial.log(loss=0.1, entropy=math.nan, kl=None, note="text")
    assert not trial.control.should_training_stop
    assert trial.names() == []


@pytest.mark.parametrize("world_zero", [True, False])
def test_every_process_stops_and_one_writes(tmp_path, world_zero):
    trial = Trial(tmp_path, world_zero=world_zero).log(loss=math.nan)
    assert trial.control.should_training_stop
    assert trial.path.exists() == world_zero
    assert bool(trial.notes.said) == world_zero


def test_the_alarm_names_the_checkpoint_to_go_on_from(tmp_path):
    trial = Trial(tmp_path).log(loss=math.nan)
    assert "no checkpoint" in trial.alarms()[0].resume
    for step in (9, 20, 100, 200):
        checkpoint = tmp_path / "training" / "scratch" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        if step < 200:
            (checkpoint / "composer-0.safetensors").touch()
    trial.log(loss=math.nan)
    assert trial.alarms()[1].resume == f"`recompose train {tmp_path}` goes on from the checkpoint of step 100"
    trial.state.max_steps = 3
    assert trial.log(loss=math.nan).alarms()[2].resume == trial.alarms()[1].resume, "a run that was stopped is not over"


def test_an_alarm_of_the_last_step_names_the_run_and_sends_nobody_back_to_a_checkpoint(tmp_path):
    trial = Trial(tmp_path, limits=Thresholds(compared_steps=3))
    trial.state.max_steps = 3
    for _ in range(3):
        trial.log(reward=0.0, frac_reward_zero_std=1.0)
    (alarm,) = trial.alarms()
    assert f"`recompose show {tmp_path}` shows rollouts" in alarm.sentence
    assert alarm.resume == "this was the last step, and training is over"


def test_a_channel_that_never_leaves_its_cap_is_told(tmp_path):
    trial = Trial(tmp_path)
    for measurement in range(60):
        factors = {"gradient/sdpo_factor": 0.4, "gradient/replay_factor": 1.0 if measurement % 15 == 14 else 0.4}
        trial.log(**factors).log(loss=0.0)
    (alarm,) = trial.alarms()
    assert (alarm.name, alarm.step) == ("capped_sdpo", 39), "the twentieth measurement is in step 39"


def test_the_teacher_is_tried_at_the_start_and_every_few_steps(tmp_path):
    answers = iter([0.0, 1e-7, 3e-3, 2e-3, 0.0, math.nan])
    asked = []

    def divergence():
        asked.append(trial.state.global_step if trial else 0)
        return next(answers)

    trial = None
    trial = Trial(tmp_path, empty_hint_divergence=divergence, limits=Thresholds(teacher_every_steps=4))
    for _ in range(20):
        trial.log(loss=0.1)
    assert asked == [0, 4, 8, 12, 16, 20]
    assert [(alarm.name, alarm.step) for alarm in trial.alarms()] == [
        ("teacher_empty_hint", 8),
        ("teacher_empty_hint", 20),
    ]
    assert not trial.control.should_training_stop


def test_a_broken_teacher_is_told_at_step_0(tmp_path):
    trial = Trial(tmp_path, empty_hint_divergence=lambda: 0.688)
    assert [(alarm.step, alarm.value) for alarm in trial.alarms()] == [(0, 0.688)]


@pytest.mark.parametrize(("jsd_beta", "raised"), [(0.5, False), (0.1, True), (0.0, False), (1.0, False)])
def test_the_divergence_is_held_against_the_largest_it_can_be(tmp_path, jsd_beta, raised):
    trial = Trial(tmp_path, jsd_beta=jsd_beta)
    for _ in range(20):
        trial.log(**{"sdpo/divergence": 0.32})
    assert bool(trial.names()) == raised, "the bound is 0.693 at 0.5, 0.325 at 0.1, and there is none for KL"


def test_a_resumed_run_knows_how_it_began_and_what_was_said(tmp_path):
    def entry(step):
        calls_per_turn = 1.0 if step < 40 else 0.7 if step < 75 else 0.4
        return {
            "entropy": 1.0 if step < 30 else 0.1,
            "kl": 0.0 if step < 70 else 2.0,
            "rollout/tool_calls_per_turn": calls_per_turn,
        }

    whole, first, checkpoint = Trial(tmp_path / "whole"), Trial(tmp_path / "cut"), 60
    for step in range(100):
        whole.log(**entry(step))
    for step in range(90):
        first.log(**entry(step))
    assert first.names() == ["entropy", "kl", "tool_use"]
    again = Trial(tmp_path / "cut", step=checkpoint, log_history=first.state.log_history[:checkpoint])
    assert again.names() == ["entropy"], "what comes after the checkpoint is forgotten"
    for step in range(checkpoint, 100):
        again.log(**entry(step))
    assert [(a.name, a.step) for a in again.alarms()] == [(a.name, a.step) for a in whole.alarms()]
    assert len(again.notes.said) == 2


def test_lines_are_strict_json(tmp_path):
    trial = Trial(tmp_path).log(loss=math.nan)

    def refuse(name):
        raise ValueError(name)

    assert json.loads(trial.path.read_text(), parse_constant=refuse)["value"] == "NaN"
