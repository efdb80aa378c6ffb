"""What `recompose train RUN` would do, without doing it: settings, steps, memory, and what can be trained on.

Reads the records of the run, and the tokenizer and config of its model where they lie on this machine. Loads no
weights, downloads nothing and writes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from composer_replication.config import Config
from composer_replication.environments.protocol import TRAIN, Environment, EnvironmentTask, EpisodeLimits
from composer_replication.objective import GrpoSettings, TrdpoSettings
from composer_replication.records import ErrorSite, Hint, PreferencePair, Trace
from composer_replication.runs import Run

from ..models.embedded import place_of
from ..models.loading import Policy
from ..models.shape import ModelShape, find_config, shape_of
from ..models.tokens import ChatTokens
from ..stored.records import TokenizedTrace
from .costs import Costs, Episodes, costs_of
from .doubts import doubts
from .layouts import LOCAL, Link, plan_layout
from .lengths import ByBytes, ByTokenizer, Item, RunLengths, find_chat_tokens
from .load import load_here
from .memory import MOST_AT_ONCE, Workload, estimate_memory, estimate_playing
from .missing import missing
from .refusals import refuse_long_episodes

CONTEXT_LENGTHS = tuple(1024 * thousands for thousands in (2, 4, 8, 16, 32, 64, 128))
OBSERVATION_TOKENS = 32
SAMPLED_TASKS = 64
MIB = 1 << 20
SECTIONS = ("model", "training", "hardware")
STAGE_OF = {"states": "ingestion", "sites": "sites", "pairs": "pairs"}


class Machine(NamedTuple):
    """Where the training would run."""

    processes: int = 1
    is_sharded: bool = False
    """Whether the processes share the weights (FSDP) or each have them all."""
    on_gpu: bool = False
    replicas: int = 1
    """Groups of processes that share the weights (HSDP)."""


def plan_training(
    run: Run,
    environment: Environment,
    rows: Sequence[TokenizedTrace],
    machine: Machine,
    held_out: Set[str] = frozenset(),
) -> dict[str, Any]:
    """`held_out` are traces that training leaves alone."""
    return TrainingPlan(run, environment, rows, held_out).on(machine)


class TrainingPlan:
    """What is the same on every machine is found out once."""

    def __init__(
        self, run: Run, environment: Environment, rows: Sequence[TokenizedTrace], held_out: Set[str] = frozenset()
    ) -> None:
        self._run, self._environment, self._rows = run, environment, rows
        folder = run.path / "policy" / "model"
        self.tokens = find_chat_tokens(run.config.model, folder, environment)
        self.shape = find_shape(run.config, folder, self.tokens)
        self._lengths, self._source = _measure(run, rows, self.tokens, held_out)
        self._held_out = held_out
        self._room = slot_room(run.config, environment, self.tokens)
        self._episodes = episodes_of(run.config, environment, rows, self.tokens)

    def on(self, machine: Machine) -> dict[str, Any]:
        run, config, shape, lengths = self._run, self._run.config, self.shape, self._lengths
        step, work = self._step_on(machine)
        own = {noun: shares(items, config.training.max_tokens, shape) for noun, items in lengths.items()}
        return {
            "run": str(run.path),
            "settings": {name: getattr(config, name).model_dump(mode="json") for name in SECTIONS},
            "channels": [channel.model_dump(mode="json") for channel in config.channels],
            "set": {
                **{name: getattr(config, name).model_dump(mode="json", exclude_defaults=True) for name in SECTIONS},
                **{
                    f"channel {channel.name}": channel.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
                    for channel in config.channels
                },
            },
            "steps": config.training.steps,
            "refused": _refused(run),
            **step.told,
            "memory": _memory(shape, config, work) if shape else None,
            "time": self.layout(machine, costs_of("h200" if machine.on_gpu else "cpu")) if shape else None,
            "load": None if machine.on_gpu else load_here(),
            "measured_time": _measured_time(run),
            "token_counts": self._source,
            "finished": [noun for noun, stage in STAGE_OF.items() if run.stage(stage).is_done],
            "funnel": _funnel(run, self._held_out),
            "contexts": [
                {"max_tokens": length, **{noun: shares(items, length, shape) for noun, items in lengths.items()}}
                for length in CONTEXT_LENGTHS
            ],
            "at_max_tokens": {"max_tokens": config.training.max_tokens, **own},
            "max_positions": shape.max_positions if shape else None,
            "doubts": list(doubts(config, own["states"]["tools_not_shown"])),
        }

    @property
    def room(self) -> int:
        """Tokens that a row of training may have."""
        most = self._run.config.training.max_tokens
        return min(most, self.shape.max_positions) if self.shape else most

    def usable(self) -> int:
        """Sites and pairs."""
        return sum(shares(self._lengths[noun], self.room, self.shape)["trainable"] for noun in ("sites", "pairs"))

    def rollouts(self) -> dict[str, Any]:
        """What a step works on, whatever the machine."""
        return self._step_on(Machine())[0].told

    def layout(self, machine: Machine, costs: Costs, link: Link = LOCAL) -> dict[str, Any]:
        """Memory, time and traffic of each process on one kind of hardware."""
        assert self.shape is not None
        step, work = self._step_on(machine)
        return plan_layout(
            self.shape, self._run.config, work, self._episodes, step.told["tokens_per_step"], costs, link
        )

    def _step_on(self, machine: Machine) -> tuple[_Step, Workload]:
        config = self._run.config
        step = _step(config, self._environment, self._rows, self._lengths, self.tokens, machine)
        return step, workload(config, step.longest_rollout, step.longest_stored, machine, self._room)


class _Step(NamedTuple):
    """What one optimiser step works on."""

    longest_rollout: int
    longest_stored: int
    told: dict[str, Any]


def _step(
    config: Config,
    environment: Environment,
    rows: Sequence[TokenizedTrace],
    lengths: dict[str, list[Item]],
    tokens: ChatTokens | None,
    machine: Machine,
) -> _Step:
    training, stored = config.training, _stored_tokens(lengths, config)
    told: dict[str, Any] = {"rollouts_per_step": 0, "processes": machine.processes, "accumulation": 1}
    if not training.rollouts:
        # Channel 1 reads whole stored rollouts.
        stored += [len(row.ids) for row in rows if len(row.ids) <= training.max_tokens]
        told["tokens_per_step"] = round(training.traces_per_step * mean(stored or [0]))
        told["rollout_tokens"] = None
        return _Step(0, max(stored, default=0), told)
    row_tokens = rollout_lengths(config, environment, rows, tokens)
    told["rollouts_per_step"] = rollouts = training.prompts_per_step * training.group_size
    told["accumulation"] = config.hardware.accumulation(rollouts, machine.processes)
    told["tokens_per_step"] = round(rollouts * mean(row_tokens))
    told["rollout_tokens"] = {
        "mean": round(mean(row_tokens)),
        "longest": max(row_tokens),
        "source": "stored rollouts" if rows else "at most: prompts of training tasks and every turn at its limit",
        "at_most": not rows,
    }
    return _Step(max(row_tokens), max(stored, default=0), told)


def _measured_time(run: Run) -> dict[str, Any] | None:
    """Of the steps that this run has taken, whatever machine it was on."""
    path = run.path / "training" / "metrics.jsonl"
    if not path.exists():
        return None
    # A crash may have torn the last line.
    lines = map(json.loads, path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines())
    taken: dict[int, float] = {line["step"]: line["wall_s"] for line in lines if "wall_s" in line and line["step"]}
    if not taken:
        return None
    last = max(taken)
    step_s = taken[last] / last
    return {"steps": last, "step_s": round(step_s, 3), "left_s": round(step_s * (run.config.training.steps - last), 1)}


def _refused(run: Run) -> str | None:
    """What can be planned here for a machine that has more installed; `recompose train` would not start on this one."""
    return "; ".join(map(str, missing(run.config, run.stage("policy").is_done))) or None


def shares(items: Sequence[Item], max_tokens: int, shape: ModelShape | None) -> dict[str, Any]:
    """How many fit whole, how many in a window, how many training takes, and why the rest cannot be used."""
    room = min(max_tokens, shape.max_positions) if shape else max_tokens
    why: Counter[str] = Counter()
    windowed = 0
    for item in items:
        fits = item.tokens <= max_tokens or item.least_tokens(max_tokens) <= max_tokens
        windowed += fits
        # What more room would not cure comes first, so that nobody makes room in vain.
        if item.blocker:
            why[item.blocker] += 1
        elif not fits:
            why["too_long"] += 1
        elif item.tokens > room and item.least_tokens(room) > room:
            why["beyond_the_model"] += 1
    return {
        "n": len(items),
        "fit": sum(item.tokens <= max_tokens for item in items),
        "fit_windowed": windowed,
        "trainable": len(items) - why.total(),
        "why_not": dict(why.most_common()),
        "tools_not_shown": sum(not item.shows_tools for item in items),
    }


def rollout_lengths(
    config: Config, environment: Environment, rows: Sequence[TokenizedTrace], tokens: ChatTokens | None
) -> list[int]:
    """Tokens of whole rollouts: those that were played, else the prompts of some tasks with every turn at its limit."""
    if rows:
        return [len(row.ids) for row in rows]
    room = _most_added(environment.limits, config.training.max_turn_tokens)
    return [prompt + room for prompt in _prompt_lengths(islice(environment.tasks(TRAIN), SAMPLED_TASKS), tokens)]


def _most_added(limits: EpisodeLimits, turn_tokens: int) -> int:
    """Few short turns do not fill what an episode may hold."""
    if limits.completion_tokens is None:
        return limits.turns * (turn_tokens + min(limits.observation_tokens, OBSERVATION_TOKENS))
    return min(limits.completion_tokens, limits.turns * (turn_tokens + limits.observation_tokens))


def episodes_of(
    config: Config, environment: Environment, rows: Sequence[TokenizedTrace], tokens: ChatTokens | None
) -> Episodes:
    """As the stored rollouts went, else every turn of every rollout at its limit."""
    if rows:
        spans = [row.turn_spans for row in rows]
        turns = max(map(len, spans))
        longest = [max(end - start for row in spans for start, end in row[turn : turn + 1]) for turn in range(turns)]
        prompt = max(row[0][0] for row in spans if row)
        return Episodes(turns, sum(longest), prompt)
    limits, turn_tokens = environment.limits, config.training.max_turn_tokens
    most = limits.turns * turn_tokens
    rounds = min(most, limits.completion_tokens or most)
    prompt = max(rollout_lengths(config, environment, rows, tokens)) - _most_added(limits, turn_tokens)
    return Episodes(-(-rounds // turn_tokens), rounds, prompt)


class SlotRoom(NamedTuple):
    """Of a sampler that gives each rollout a slot for a whole episode."""

    prompt: int
    slot: int


def slot_room(config: Config, environment: Environment, tokens: ChatTokens | None) -> SlotRoom:
    tasks = islice(environment.tasks(TRAIN), SAMPLED_TASKS)
    prompt = max(_prompt_lengths(tasks, tokens), default=0)
    return SlotRoom(prompt, prompt + environment.limits.room(config.training.max_turn_tokens))


def check_episodes(
    config: Config, environment: Environment, tokens: ChatTokens | None, shape: ModelShape | None
) -> None:
    """As training would at its first step. Without the tokenizer no prompt is measured."""
    if config.training.rollouts:
        most = shape.max_positions if shape and tokens else None
        turn_tokens, prompt = config.training.max_turn_tokens, slot_room(config, environment, tokens).prompt
        refuse_long_episodes(environment.limits, turn_tokens, prompt, most, config.model.name)


def _prompt_lengths(tasks: Iterable[EnvironmentTask], tokens: ChatTokens | None) -> list[int]:
    if tokens:
        return [len(tokens.prompt(task.messages)) for task in tasks]
    contents = [[message["content"] for message in task.messages] for task in tasks]
    return [sum(counted.tokens for counted in ByBytes().count(texts)) for texts in contents]


def workload(
    config: Config, row_tokens: int, stored_tokens: int, machine: Machine, room: SlotRoom | None = None
) -> Workload:
    training, hardware = config.training, config.hardware
    rollouts = training.prompts_per_step * training.group_size if training.rollouts else 0
    per_process = rollouts // machine.processes
    # A batch of pairs has both sides of each as rows.
    stored_rows = training.traces_per_step * (2 if config.channel(TrdpoSettings).weight else 1)
    added = [channel for channel in config.channels if not isinstance(channel, GrpoSettings)]
    reads_stored = any(channel.weight for channel in added) or not training.rollouts
    return Workload(
        rows=per_process // hardware.accumulation(rollouts, machine.processes) if rollouts else 0,
        row_tokens=row_tokens,
        sampled_rows=per_process,
        slot_tokens=room.slot if room else 0,
        prompt_tokens=room.prompt if room else 0,
        stored_rows=stored_rows if stored_tokens and reads_stored else 0,
        stored_row_tokens=stored_tokens,
        processes=machine.processes,
        is_sharded=machine.is_sharded,
        replicas=machine.replicas,
        on_gpu=machine.on_gpu,
    )


def _measure(
    run: Run, rows: Sequence[TokenizedTrace], tokens: ChatTokens | None, held_out: Set[str]
) -> tuple[dict[str, list[Item]], str]:
    def read(noun: str, kind: Any) -> list[Any] | None:
        if not run.stage(noun).is_done:
            return None
        return [one for one in run.stage(noun).read(kind) if getattr(one, "trace_id", None) not in held_out]

    counter = ByTokenizer(tokens) if tokens else ByBytes()
    fingerprint = Policy(run.config.model.name, None, tokens).tokenizer_fingerprint if tokens else None
    sites: list[ErrorSite] = read("sites", ErrorSite) or []
    lengths = RunLengths(counter, fingerprint, read("ingestion", Trace) or (), rows, sites)
    return {
        "states": lengths.states(),
        "sites": lengths.sites(sites, read("hints", Hint)),
        "pairs": lengths.pairs(read("pairs", PreferencePair) or ()),
    }, counter.source


def _funnel(run: Run, held_out: Set[str]) -> dict[str, float] | None:
    """From traces to sites that training may read; how many of these it can use, a context length decides."""
    if not all(run.stage(noun).is_done for noun in ("ingestion", "sites", "hints")):
        return None
    sites = [site for site in run.stage("sites").read(ErrorSite) if site.trace_id not in held_out]
    hinted = {hint.site_id for hint in run.stage("hints").read(Hint)}
    return {
        "traces": run.stage("ingestion").require()["records"],
        "held_out": len(held_out),
        "held_out_share": run.config.evaluation.held_out_sessions,
        "with_sites": len({site.trace_id for site in sites}),
        "sites": len(sites),
        "hinted": sum(site.site_id in hinted for site in sites),
    }


def _stored_tokens(lengths: dict[str, list[Item]], config: Config) -> list[int]:
    """Of the sites and pairs that training takes; a window is filled."""
    most = config.training.max_tokens
    usable = [item for noun in ("sites", "pairs") for item in lengths[noun] if not item.blocker]
    return [min(item.tokens, most) for item in usable if item.tokens <= most or item.least_tokens(most) <= most]


def find_shape(config: Config, folder: Path | None, tokens: ChatTokens | None) -> ModelShape | None:
    made = folder if folder and folder.is_dir() else None
    if config.model.name == "tiny" and tokens and not made:
        from ..models.tiny import build_model

        return shape_of(build_model(tokens.tokenizer, config.seed).config)
    found = find_config(made) if made else find_config(place_of(config.model.name), config.model.name)
    return shape_of(found) if found else None


def _memory(shape: ModelShape, config: Config, work: Workload) -> dict[str, Any]:
    estimate = estimate_memory(shape, config, work)
    return {
        "parameters": shape.parameters,
        "stages": _stages(shape, config, work),
        "parts": [
            {"part": part.name, "mib": mib(part.bytes), "when": part.when, "estimate": part.is_estimate}
            for part in estimate.parts
        ],
        "activations_mib": {"plain": mib(estimate.activations_bytes), "checkpointed": mib(estimate.checkpointed_bytes)},
        "peak_mib": mib(estimate.peak_bytes),
    }


def _stages(shape: ModelShape, config: Config, work: Workload) -> dict[str, Any]:
    """What the stages around training take, which play in one process and hold one model at a time."""
    measured = config.evaluation.tasks * config.evaluation.samples
    told: dict[str, Any] = {}
    for name, wanted in {"ingest": config.ingestion.rollouts, "evaluate": measured}.items():
        rows = min(wanted, config.hardware.rollouts_at_once or MOST_AT_ONCE)
        alone = replace(work, sampled_rows=rows, row_tokens=work.row_tokens or work.slot_tokens, is_sharded=False)
        peak = mib(estimate_playing(shape, config, alone).peak_bytes) if rows else 0.0
        told[name] = {"rollouts_at_once": rows, "peak_mib": peak}
    return told


def mib(size_bytes: int) -> float:
    return round(size_bytes / MIB, 1)
