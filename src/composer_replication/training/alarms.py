"""Alarms over the log of a training run: collapse, degeneration and broken teachers, said once.

Most alarms compare the median of the last few logged values with that of the first few, so that one noisy step says
nothing. A reward is compared with its best, since a run can learn first and lose it later. An alarm that was raised is
quiet until its value has come back by a margin. Values are read from the log that the trainer keeps in its checkpoints,
so a resumed run knows what it has said.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from transformers import TrainerCallback

COMPARED_STEPS = 5
"""Or a tenth of a run, if that is later: from then on training in which no rollout did better than another is told."""


@dataclass(frozen=True)
class Thresholds:
    start_window: int = 10
    """Logged values behind the median that stands for the start."""
    window: int = 7
    """Logged values behind the median that stands for now."""
    entropy_share: float = 0.3
    length_factor: float = 2.0
    rate_factor: float = 2.0
    rate_floor: float = 0.2
    """A repetition or truncation rate below this is never an alarm, whatever it was at the start."""
    kl_nats: float = 1.0
    chosen_drop_nats: float = 2.0
    unlearnt_nats: float = 0.3
    """Per token."""
    tool_use_share: float = 0.5
    capped_measurements: int = 20
    empty_hint_nats: float = 1e-4
    teacher_every_steps: int = 50
    divergence_share: float = 0.9
    """Of the largest value that the divergence can have: ln 2 for the Jensen-Shannon divergence at beta 0.5."""
    canary_rate: float | None = None
    """Share of rollouts that may hit a canary; None where no rollout is watched."""
    canary_window: int = 10
    """Logged values behind the mean that is held against it: hits are rare, so a median would hide them."""
    compared_steps: int | None = None
    """First steps in which some rollout must do better than another of its task; None where no channel compares."""
    imitates: bool = False
    """Whether a rollout with the full reward is learnt from whatever the others got."""
    reward_window: int = 5
    """Logged rewards behind a mean, at least 2; the last such mean is held against the highest."""
    reward_fall_share: float = 0.4
    """Of the highest mean, by which the last one must be lower."""
    reward_fall_noise: float = 5.0
    """Standard errors of a difference of two means, by which it must be lower too."""
    rearm_margin: float = 0.25
    """How far, relative to the threshold, a value must come back before its alarm can be raised again; of a reward, how
    much of the fall may be left."""


class Reading(NamedTuple):
    value: float
    threshold: float
    raised: bool
    cleared: bool
    sentence: str


class Peak:
    """The mean of the last few values and the highest such mean so far; `now` is None while there are fewer."""

    def __init__(self, window: int) -> None:
        self.now: float | None = None
        self.best: float = -math.inf
        self._last: deque[float] = deque(maxlen=window)
        self._squares, self._differences = 0.0, 0

    def add(self, value: float) -> None:
        if self._last:
            difference = value - self._last[-1]
            self._squares += difference * difference
            self._differences += 1
        self._last.append(value)
        if len(self._last) == self._last.maxlen:
            self.now = fmean(self._last)
            self.best = max(self.best, self.now)

    @property
    def noise(self) -> float:
        """The standard error of a difference of two means. Half the mean squared difference of neighbours estimates
        the variance of one value, and what was learnt hardly adds to it."""
        return math.sqrt(self._squares / self._differences / len(self._last))


class History:
    """The first and the last finite values of every metric, in the order of the log."""

    def __init__(self, limits: Thresholds) -> None:
        self.reward = Peak(limits.reward_window)
        self._limits = limits
        self._first: dict[str, list[float]] = {}
        self._starts: dict[str, float] = {}
        self._last: dict[str, deque[float]] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        kept = max(self._limits.window, self._limits.capped_measurements, self._limits.canary_window)
        for key, value in entry.items():
            if isinstance(value, int | float) and math.isfinite(value):
                first = self._first.setdefault(key, [])
                if len(first) < max(self._limits.start_window, self._limits.compared_steps or 0):
                    first.append(value)
                    if len(first) == self._limits.start_window:
                        self._starts[key] = median(first)
                self._last.setdefault(key, deque(maxlen=kept)).append(value)
                if key == "reward":
                    self.reward.add(value)

    def first(self, key: str, number: int) -> list[float] | None:
        """The first values; None while there are fewer."""
        values = self._first.get(key, ())
        return list(values)[:number] if len(values) >= number else None

    def last(self, key: str, number: int) -> list[float] | None:
        """The last values; None while there are fewer."""
        values = self._last.get(key, ())
        return list(values)[-number:] if len(values) >= number else None

    def now(self, key: str) -> float | None:
        values = self.last(key, self._limits.window)
        return median(values) if values else None

    def start(self, key: str) -> float | None:
        return self._starts.get(key)

    def both(self, key: str) -> tuple[float, float] | None:
        start, now = self.start(key), self.now(key)
        return None if start is None or now is None else (start, now)

    def capped_channels(self) -> Iterator[str]:
        for key in self._last:
            if key.startswith("gradient/") and key.endswith("_factor"):
                yield key.removeprefix("gradient/").removesuffix("_factor")


Check = Callable[[History, Thresholds], Reading | None]
Compare = Callable[[float, float, Thresholds, str], Reading]


def _below(value: float, threshold: float, limits: Thresholds, sentence: str) -> Reading:
    return Reading(value, threshold, value < threshold, value > threshold * (1 + limits.rearm_margin), sentence)


def _above(value: float, threshold: float, limits: Thresholds, sentence: str) -> Reading:
    return Reading(value, threshold, value > threshold, value < threshold * (1 - limits.rearm_margin), sentence)


def _since_start(key: str, compare: Compare, threshold: Callable[[Thresholds, float], float], sentence: str) -> Check:
    """`sentence` is a format of `start` and `now`."""

    def check(history: History, limits: Thresholds) -> Reading | None:
        if (both := history.both(key)) is None:
            return None
        start, now = both
        return compare(now, threshold(limits, start), limits, sentence.format(start=start, now=now))

    return check


def _risen_rate(key: str, what: str) -> Check:
    sentence = f"the share of {what} rose from {{start:.0%}} to {{now:.0%}}"
    return _since_start(key, _above, lambda limits, start: max(limits.rate_floor, limits.rate_factor * start), sentence)


def kl(history: History, limits: Thresholds) -> Reading | None:
    if (now := history.now("kl")) is None:
        return None
    sentence = f"the policy is {now:.2f} nats per token away from the starting policy"
    return _above(now, limits.kl_nats, limits, sentence)


def chosen_logprob(history: History, limits: Thresholds) -> Reading | None:
    if (shift := history.now("replay/chosen_shift")) is None:
        return None
    sentence = f"the chosen actions of the pairs lost {-shift:.2f} nats: preferences push both sides down"
    return _above(-shift, limits.chosen_drop_nats, limits, sentence)


def unlearning(history: History, limits: Thresholds) -> Reading | None:
    if (shift := history.last("reread/shift", 1)) is None:
        return None
    sentence = (
        f"turns that nothing teaches lost {-shift[0]:.2f} nats per token since the start: the policy unlearns what it "
        "could. Fewer steps, a smaller learning rate or, where the teacher is live, another one may help" + MEASURE
    )
    return _above(-shift[0], limits.unlearnt_nats, limits, sentence)


RUN = "<RUN>"
"""Stands in a sentence for the run's folder."""
SHOW = f"; `recompose show {RUN}` shows rollouts"
MEASURE = f"; `recompose evaluate {RUN} --checkpoint STEP` measures one that is kept"
"""A script has no run to show or to measure."""


def no_advantage(history: History, limits: Thresholds) -> Reading | None:
    if (steps := limits.compared_steps) is None:
        return None
    rewards, flat = history.first("reward", steps), history.first("frac_reward_zero_std", steps)
    if rewards is None or flat is None:
        return None
    sentence = (
        f"no rollout of the first {steps} steps got any reward, so the policy gradient learns nothing{SHOW}; easier "
        "tasks, a larger training.max_turn_tokens or another model may help"
    )
    if any(rewards):
        sentence = (
            f"in each of the first {steps} steps all rollouts of a task got the same reward, {fmean(rewards):.2f} on "
            "average, so the policy gradient learns nothing. A larger training.group_size, "
            "training.dynamic_sampling_rounds or tasks that are solved now and then may help"
        )
    is_flat = min(flat) == 1 and not (limits.imitates and any(rewards))
    return Reading(min(flat), 1.0, is_flat, not is_flat, sentence)


def advantage_lost(history: History, limits: Thresholds) -> Reading | None:
    if (steps := limits.compared_steps) is None:
        return None
    before, rewards = history.first("reward", steps), history.last("reward", limits.window)
    flat_before = history.first("frac_reward_zero_std", steps)
    flat = history.last("frac_reward_zero_std", limits.window)
    # What never was there is `no_advantage`.
    if not before or not rewards or not flat or not flat_before or min(flat_before) == 1:
        return None
    start, now = fmean(before), fmean(rewards)
    sentence = (
        f"the reward fell from {start:.2f} to {now:.2f}, and in the last {limits.window} logged steps all rollouts of "
        "a task got the same, so the policy gradient learns nothing any more; a smaller learning rate may help"
    )
    # A policy that solves everything has flat groups too.
    is_lost = min(flat) == 1 and now < start and not (limits.imitates and any(rewards))
    return Reading(min(flat), 1.0, is_lost, not is_lost, sentence)


def reward_fell(history: History, limits: Thresholds) -> Reading | None:
    reward = history.reward
    if reward.now is None:
        return None
    sentence = (
        f"the reward fell from {reward.best:.2f} to {reward.now:.2f}, means of {limits.reward_window} logged steps. "
        "Where a curriculum or harder tasks do not explain it, a smaller learning rate, a channel that fades out "
        f"(decay_share of its schedule) or an earlier checkpoint may help{MEASURE}"
    )
    fall = max(limits.reward_fall_share * abs(reward.best), limits.reward_fall_noise * reward.noise)
    # A margin over the threshold would be within the noise of few rollouts, and the alarm told over and over.
    is_back = reward.now > reward.best - limits.rearm_margin * fall
    return Reading(reward.now, reward.best - fall, reward.now < reward.best - fall, is_back, sentence)


def capped(history: History, limits: Thresholds, channel: str) -> Reading | None:
    factors = history.last(f"gradient/{channel}_factor", limits.capped_measurements)
    if factors is None:
        return None
    always = max(factors) < 1
    sentence = (
        f"the gradient of channel {channel} was over its cap in each of {len(factors)} measurements, "
        f"its weight now shrunk to {factors[-1]:.0%}: a smaller weight says the same"
    )
    return Reading(max(factors), 1.0, always, not always, sentence)


def divergence_at_its_limit(jsd_beta: float) -> Check:
    """A teacher that knows nothing differs from the policy as much as two distributions can."""
    mixed = 0 < jsd_beta < 1
    largest = -jsd_beta * math.log(jsd_beta) - (1 - jsd_beta) * math.log(1 - jsd_beta) if mixed else math.inf

    def check(history: History, limits: Thresholds) -> Reading | None:
        now = history.now("sdpo/divergence")
        if now is None or not mixed:
            return None
        sentence = f"policy and hinted teacher differ by {now:.3f} of at most {largest:.3f} nats: the teacher is broken"
        return _above(now, limits.divergence_share * largest, limits, sentence)

    return check


def canary_hits(history: History, limits: Thresholds) -> Reading | None:
    rates = history.last("monitor/canary_hit_rate", limits.canary_window)
    if rates is None or limits.canary_rate is None:
        return None
    now = sum(rates) / len(rates)
    sentence = f"{now:.1%} of the last rollouts hit a canary: the policy looks for answers where none may be found"
    return _above(now, limits.canary_rate, limits, sentence)


def not_finite(entry: Mapping[str, Any]) -> str | None:
    """The first loss or gradient norm without a finite value. TRL logs None where all it had was NaN."""
    for key, value in entry.items():
        watched = key in ("loss", "grad_norm", "policy_loss") or key.startswith(("channel/", "gradient/"))
        if watched and (value is None or not math.isfinite(value)):
            return key
    return None


LENGTH = "completions/mean_length"
CHECKS: dict[str, Check] = {
    "entropy": _since_start(
        "entropy", _below, lambda limits, start: limits.entropy_share * start,
        "entropy fell from {start:.3g} to {now:.3g} nats: the policy stops exploring",
    ),
    "length_doubled": _since_start(
        LENGTH, _above, lambda limits, start: limits.length_factor * start,
        "rollouts grew from {start:.0f} to {now:.0f} tokens",
    ),
    "length_halved": _since_start(
        LENGTH, _below, lambda limits, start: start / limits.length_factor,
        "rollouts shrank from {start:.0f} to {now:.0f} tokens",
    ),
    "repetition": _risen_rate("rollout/repetition_rate", "repeated 4-grams within a turn"),
    "truncation": _risen_rate("rollout/truncation_rate", "rollouts with a turn that was cut off"),
    "kl": kl,
    "chosen_logprob": chosen_logprob,
    "tool_use": _since_start(
        "rollout/tool_calls_per_turn", _below, lambda limits, start: limits.tool_use_share * start,
        "tool calls per turn fell from {start:.2f} to {now:.2f}: the policy stops acting",
    ),
    "no_advantage": no_advantage,
    "advantage_lost": advantage_lost,
    "reward_fell": reward_fell,
    "unlearning": unlearning,
}  # fmt: skip


class AlarmWarnings(TrainerCallback):
    """Raises alarms as Python warnings, for a script that has no run folder."""

    def __init__(self, limits: Thresholds | None = None, jsd_beta: float = 0.5) -> None:
        self.limits = limits or Thresholds()
        self._checks = CHECKS | {"teacher_divergence": divergence_at_its_limit(jsd_beta)}
        if self.limits.canary_rate is not None:
            self._checks["canary_hits"] = canary_hits
        self._history = History(self.limits)
        self._raised: set[str] = set()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._history, self._raised = History(self.limits), set()
        for entry in state.log_history:
            self._newly_raised(entry)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        for name, reading in self._newly_raised(logs or {}):
            self._say(args, state, name, reading)

    def _newly_raised(self, entry: Mapping[str, Any]) -> list[tuple[str, Reading]]:
        self._history.add(entry)
        found = [(name, check(self._history, self.limits)) for name, check in self._checks.items()]
        found += [
            (f"capped_{channel}", capped(self._history, self.limits, channel))
            for channel in self._history.capped_channels()
        ]
        return [(name, reading) for name, reading in found if reading and self._is_new(name, reading)]

    def _is_new(self, name: str, reading: Reading) -> bool:
        if reading.raised and name not in self._raised:
            self._raised.add(name)
            return True
        if reading.cleared:
            self._raised.discard(name)
        return False

    def _say(self, args: Any, state: Any, name: str, reading: Reading, stopped: bool = False) -> Any:
        if state.is_world_process_zero:
            sentence = reading.sentence.replace(SHOW, "").replace(MEASURE, "")
            warnings.warn(f"step {state.global_step}: {sentence}", stacklevel=2)
