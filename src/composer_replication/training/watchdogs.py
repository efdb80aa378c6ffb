"""The alarms of a run with a folder: kept on disk, with how to go on; and a run that is ended where it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from composer_replication.errors import RecomposeError, quoted
from composer_replication.progress import Progress

from .alarms import MEASURE, RUN, AlarmWarnings, Reading, Thresholds, not_finite
from .backends.trl.checkpoints import latest
from .metrics import StepLines
from .stored.records import Alarm

OVER = "this was the last step, and training is over"


class Watchdog(AlarmWarnings):
    """Raises alarms into `RUN/training/alarms.jsonl` and on the screen; ends the run where a number is not finite.

    `empty_hint_divergence` compares the teacher's weights behind an empty hint with the same weights without any hint,
    on every process; what is not 0 there comes from splicing, masks or the head, and spoils every real hint.
    """

    def __init__(
        self,
        run: Path,
        progress: Progress,
        *,
        limits: Thresholds | None = None,
        jsd_beta: float = 0.5,
        reads_stored: bool = False,
        empty_hint_divergence: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(limits, jsd_beta)
        self.stopped: Alarm | None = None
        self._run, self._progress, self._empty_hint_divergence = run, progress, empty_hint_divergence
        self._reads_stored = reads_stored
        self._lines = StepLines(run / "training" / "alarms.jsonl")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._lines.begin(state.global_step)
        self.stopped = None
        super().on_train_begin(args, state, control)
        self._try_teacher(args, state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.limits.teacher_every_steps == 0:
            self._try_teacher(args, state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().on_log(args, state, control, logs)
        entry = logs or {}
        if key := not_finite(entry):
            value = math.nan if entry[key] is None else float(entry[key])
            reading = Reading(value, math.inf, True, False, f"{key} is not a finite number, so the run ends here")
            self.stopped = self._say(args, state, "not_finite", reading, stopped=True)
            control.should_training_stop, control.should_save = True, False

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        steps = [entry for entry in state.log_history if "grad_norm" in entry]
        norms, at_no_rate = (
            [entry["grad_norm"] for entry in steps],
            [entry.get("learning_rate") == 0 for entry in steps],
        )
        moved = sum(bool(norm) and not idle for norm, idle in zip(norms, at_no_rate, strict=True))
        if norms and not any(norms):
            sentence = (
                f"the gradient was 0 in each of the {len(norms)} steps, so nothing was learnt. The gates of channel 2 "
                "may have left all sites out: a larger training.max_tokens, more steps or require_disfavour = false "
                "may help"
            )
            self._say(args, state, "no_gradient", Reading(0.0, 0.0, True, False, sentence))
        elif state.is_world_process_zero and moved < len(norms):
            told = [f"{moved} of {len(norms)} steps could move weights"]
            if still := sum(at_no_rate):
                told.append(f"{still} ran at a learning rate of 0 (training.rate_warmup_steps)")
            if empty := len(norms) - sum(map(bool, norms)):
                more = (
                    ": on stored sessions a larger training.traces_per_step, or require_disfavour = false of channel "
                    "sdpo, gives more"
                )
                told.append(f"{empty} had no gradient{more * self._reads_stored}")
            self._progress.note("; ".join(told))

    def raise_if_stopped(self) -> None:
        """After `train`: the weights of a run that was ended must not be taken for its result."""
        if self.stopped:
            message = f"step {self.stopped.step}: {self.stopped.sentence}; {self.stopped.resume}"
            raise RecomposeError(message, f"recompose train {quoted(self._run)}")

    def _try_teacher(self, args: Any, state: Any) -> None:
        if self._empty_hint_divergence is None:
            return
        value, threshold = self._empty_hint_divergence(), self.limits.empty_hint_nats
        sentence = f"an empty hint changes the teacher by {value:.2g} nats, where nothing should: the teacher is broken"
        reading = Reading(value, threshold, not value <= threshold, value <= threshold, sentence)
        if self._is_new("teacher_empty_hint", reading):
            self._say(args, state, "teacher_empty_hint", reading)

    def _say(self, args: Any, state: Any, name: str, reading: Reading, stopped: bool = False) -> Alarm:
        is_over = not stopped and state.global_step >= state.max_steps
        checkpoint = None if is_over else latest(Path(args.output_dir))
        sentence = reading.sentence if checkpoint else reading.sentence.replace(MEASURE, "")
        alarm = Alarm(
            name=name,
            step=state.global_step,
            value=reading.value,
            threshold=reading.threshold,
            sentence=sentence.replace(RUN, quoted(self._run)),
            resume=OVER if is_over else self._how_to_go_on(checkpoint),
            stopped=stopped,
        )
        if state.is_world_process_zero:
            self._lines.append(alarm.model_dump())
            self._progress.note(f"step {alarm.step}: {alarm.sentence}; {alarm.resume}")
        return alarm

    def _how_to_go_on(self, checkpoint: Path | None) -> str:
        if checkpoint is None:
            return f"there is no checkpoint: `recompose train {quoted(self._run)}` starts again from step 0"
        step = checkpoint.name.partition("-")[2]
        return f"`recompose train {quoted(self._run)}` goes on from the checkpoint of step {step}"
