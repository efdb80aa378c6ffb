"""The text of a first settings file, for one of three goals, with a word about each choice."""

from __future__ import annotations

import json
import tomllib
from typing import Literal, NamedTuple

from composer_replication.config import Config

from ..models.shape import ModelShape
from .costs import Costs, Episodes, costs_of, turn_s
from .doubts import FEW_TRACES
from .fitting import fit
from .layouts import plan_layout
from .plan import Machine, workload

Goal = Literal["sessions", "tasks", "toolbox"]
GIB = 1 << 30
MODELS = ((60, "Qwen/Qwen3-8B"), (12, "qwen2.5-coder-1.5b"), (0, "smollm2"))
"""From so many GiB of a GPU on."""
BASE: dict[Goal, dict[str, dict[str, object]]] = {
    "sessions": {
        "training": {
            "rollouts": False, "steps": 100, "learning_rate": 1e-5, "traces_per_step": 8, "max_turn_tokens": 512,
            "max_tokens": 16384, "checkpoint_every": 25,
        },
    },
    "tasks": {
        "environment": {"name": "code", "tasks": ["tasks"], "answer": "definition", "completion_tokens": 4096},
        "training": {
            "steps": 100, "prompts_per_step": 4, "group_size": 8, "learning_rate": 1e-5, "max_turn_tokens": 512,
            "max_tokens": 8192, "checkpoint_every": 25,
        },
        "evaluation": {"tasks": 64},
        "monitor": {"enabled": True},
    },
    "toolbox": {
        "ingestion": {"embedded_session": True, "rollouts": 192},
        "training": {"steps": 28, "prompts_per_step": 16, "group_size": 8, "learning_rate": 1e-5},
    },
}  # fmt: skip
ON_A_CPU: dict[Goal, dict[str, dict[str, object]]] = {
    "sessions": {
        "training": {
            "steps": 3, "traces_per_step": FEW_TRACES, "max_tokens": 1024, "max_turn_tokens": 128,
            "rate_warmup_steps": 0, "checkpoint_every": 1,
        },
        "evaluation": {"tasks": 8, "held_out_sessions": 0.4},
    },
    "tasks": {
        "training": {
            "steps": 10, "prompts_per_step": 2, "group_size": 4, "rate_warmup_steps": 0, "checkpoint_every": 5,
        },
        "evaluation": {"tasks": 8},
    },
    "toolbox": {},
}  # fmt: skip
"""What sees the way once with a small model: on sessions in about ten minutes, on tasks within hours."""
CHANNELS: dict[Goal, str] = {
    "sessions": """[[channels]]
name = "sdpo"                    # learn from hints at the errors of your sessions
weight = 1.0

# [[channels]]                   # and from what teachers would have done: after `recompose replay` and `recompose pair`
# name = "trdpo"
# weight = 0.05
""",
    "tasks": """[[channels]]
name = "grpo"                    # the reward of the hidden tests

[[channels]]
name = "sdpo"                    # hints at the errors of each step's own rollouts
source = "rollouts"
# hint = "feedback"              # in place of written hints: the output of the visible tests
# teacher = "live"               # in place of an average of the policy: no second copy of what is trained
""",
    "toolbox": """[[channels]]
name = "grpo"

[[channels]]
name = "sdpo"
weight = 0.1

[[channels]]
name = "trdpo"
weight = 0.05
""",
}
WORDS = {
    "model.name": "tiny, a fetched model, a folder or a hub id; fixed once the run has begun",
    "environment.tasks": "what `recompose env make REPOSITORY -o tasks` wrote",
    "environment.answer": 'one code block; "agent": six tools, for models that call them, with turns of 1024 tokens',
    "environment.completion_tokens": "turns and answers of one episode; with the task it must fit the model's length",
    "monitor.enabled": "hacks that it finds in a rollout cost its reward",
    "ingestion.rollouts": "episodes of the starting policy that become traces",
    "training.rollouts": "learn from stored sessions alone",
    "evaluation.tasks": "tasks, or turns of held-out sessions, that are measured before and after",
    "evaluation.held_out_sessions": "share of the sessions; below five of them nothing can be told",
    "training.max_tokens": "a longer site or pair gets a window of this length",
    "training.traces_per_step": "stored traces of one forward pass; not each has a site that teaches",
    "training.checkpoint_every": "steps; an interrupted training goes on from there",
    "training.rate_warmup_steps": "so few steps have none for a rate that rises",
    "training.max_turn_tokens": "a turn that is written is cut here",
    "hardware.gradient_checkpointing": "less memory, about a third more time",
    "hardware.lora_rank": "train adapters; take it out, with weights, to train the whole model",
    "hardware.rollouts_per_device": "the rest of a step is accumulated",
}


class Device(NamedTuple):
    memory_gib: float
    on_gpu: bool

    @property
    def told(self) -> str:
        return f"{'a GPU' if self.on_gpu else 'a CPU'} with {self.memory_gib:.0f} GiB"


class FirstSettings(NamedTuple):
    text: str
    peak_gib: float | None
    fits: bool
    time_s: float | None = None
    """To train and to measure, where it can be foreseen."""


def proposed_model(goal: Goal, machine: Device) -> str:
    if goal == "toolbox":
        return "tiny"
    return next(name for least, name in MODELS if machine.memory_gib * machine.on_gpu >= least)


def first_settings(goal: Goal, model: str, machine: Device, shape: ModelShape | None) -> FirstSettings:
    smaller = {} if machine.on_gpu else ON_A_CPU[goal]
    values: dict[str, dict[str, object]] = {"model": {"name": model}}
    values |= {section: BASE[goal].get(section, {}) | smaller.get(section, {}) for section in {**BASE[goal], **smaller}}
    if model == "tiny":
        values["training"] = {**values["training"], "learning_rate": Config().training.learning_rate}
        return FirstSettings(_text(goal, machine, values, "the tiny model needs less than 1 GiB"), None, True)
    config = Config.model_validate({**values, **tomllib.loads(CHANNELS[goal])})
    found = fit(config, shape, int(machine.memory_gib * GIB), machine.on_gpu)
    for section in [one for one in ("environment", "training", "hardware") if one in values or one == "hardware"]:
        now, before = getattr(found.config, section), getattr(Config(), section)
        keys = {key for key in type(now).model_fields if getattr(now, key) != getattr(before, key)}
        said = {key: getattr(now, key) for key in (*values.get(section, {}), *sorted(keys))}
        values[section] = said
    peak = None if found.peak_bytes is None else found.peak_bytes / GIB
    told = f"expected peak {peak:.1f} GiB" if peak is not None else "the size of the model is not known here"
    if peak is not None and not found.fits:
        told += ", which is too much: choose a smaller model"
    time_s = None
    if goal == "sessions" and shape and not machine.on_gpu:
        costs = costs_of("cpu")
        parts = training_s(shape, found.config, costs), measuring_s(shape, found.config, costs)
        training, measuring = (f"{max(1, round(part / 60))} min" for part in parts)
        told += f"; train about {training} and evaluate {measuring} at most, on an idle machine"
        time_s = round(sum(parts), 1)
    return FirstSettings(_text(goal, machine, values, told), peak, found.fits, time_s)


def training_s(shape: ModelShape, config: Config, costs: Costs) -> float:
    """Of all steps on stored sessions, in one process on a CPU, with every row at its longest."""
    length, rows = config.training.max_tokens, config.training.traces_per_step
    work, none_played = workload(config, 0, length, Machine()), Episodes(turns=0, rounds=0, prompt_tokens=0)
    return plan_layout(shape, config, work, none_played, length * rows, costs)["wall_clock_s"]


def measuring_s(shape: ModelShape, config: Config, costs: Costs) -> float:
    """Before and after, on held-out sessions: of each kind as many turns as `evaluation.tasks`, at their longest. A
    good turn is read once, a correction and its error too, and an error turn is written again."""
    turns, read, written = config.evaluation.tasks, config.training.max_tokens, config.training.max_turn_tokens
    return 2 * turns * (3 * turn_s(shape, config, costs, read, 0) + turn_s(shape, config, costs, read, written))


def _text(goal: Goal, machine: Device, values: dict[str, dict[str, object]], told: str) -> str:
    lines = [
        f"# Settings to train on {goal}, for {machine.told}: {told}.",
        "# `recompose config FILE` shows every setting; docs/configuration.md tells more.",
        "seed = 0",
    ]
    for section, settings in values.items():
        lines += ["", f"[{section}]"] if settings else []
        for key, value in settings.items():
            line, words = f"{key} = {json.dumps(value)}", WORDS.get(f"{section}.{key}")
            lines.append(f"{line:<32} # {words}" if words else line)
    return "\n".join([*lines, "", CHANNELS[goal]])
