"""How long training on stored sessions and measuring on held-out ones take, with every row at its longest."""

from __future__ import annotations

from composer_replication.config import Config

from ..models.shape import ModelShape
from .costs import Costs, Episodes, turn_s
from .layouts import plan_layout
from .plan import Machine, workload

NONE_PLAYED = Episodes(turns=0, rounds=0, prompt_tokens=0)


def training_s(shape: ModelShape, config: Config, costs: Costs) -> float:
    """Of all steps, in one process on a CPU."""
    length, rows = config.training.max_tokens, config.training.traces_per_step
    work = workload(config, 0, length, Machine())
    return plan_layout(shape, config, work, NONE_PLAYED, length * rows, costs)["wall_clock_s"]


def measuring_s(shape: ModelShape, config: Config, costs: Costs) -> float:
    """Before and after: of each kind as many turns as `evaluation.tasks`. A good turn is read once, a correction and
    its error too, and an error turn is written again."""
    turns, read, written = config.evaluation.tasks, config.training.max_tokens, config.training.max_turn_tokens
    return 2 * turns * (3 * turn_s(shape, config, costs, read, 0) + turn_s(shape, config, costs, read, written))
