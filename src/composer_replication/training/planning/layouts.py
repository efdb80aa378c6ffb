"""One way to spread a training over processes: memory, seconds of a step, balance, wall clock and bytes on the wire."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from composer_replication.config import Config

from ..models.shape import ModelShape
from .costs import Costs, Episodes, sampling_work, trained_parameters, training_work, wire_bytes
from .memory import FLOAT32, Workload, estimate_memory

Kind = Literal["one process", "ddp", "fsdp2"]
SITES_PER_ROLLOUT = 1.0
"""Hinted turns that the teacher reads, where rollouts are distilled at: the first errors of those that have some."""


class Link(NamedTuple):
    """What lies between sites, of which each has all processes of the layout. With `sync_every` steps between two
    synchronisations the sites are replicas of DiLoCo; with 0 their processes are one group."""

    sites: int = 1
    sync_every: int = 0
    gbit_per_s: float = 0.0

    def seconds(self, sent_bytes: float) -> float:
        return sent_bytes * 8 / (self.gbit_per_s * 1e9)


LOCAL = Link()


def plan_layout(
    shape: ModelShape,
    config: Config,
    work: Workload,
    episodes: Episodes,
    tokens_per_step: int,
    costs: Costs,
    link: Link = LOCAL,
) -> dict[str, Any]:
    """`work` is that of one process; with DiLoCo every site does as many rollouts per step. `line_bytes` are what each
    site sends to the next one in a step: a ring of processes crosses the line once each way, and of replicas one copy
    of the weights does."""
    is_outer = link.sites > 1 and link.sync_every > 0
    per_group = work.processes
    sent = wire_bytes(shape, config, work, per_group, link.sites if is_outer else 1, link.sync_every or 1)
    inner_bytes = 0.0 if per_group == 1 else sent.fsdp2 if work.is_sharded else sent.ddp
    crosses = link.sites > 1 and not is_outer
    sampling = costs.sampling_s(sampling_work(shape, config, work, episodes)) if work.rows else 0.0
    sites = SITES_PER_ROLLOUT * work.sampled_rows
    training = training_work(shape, config, work, sites, inner_bytes)
    training_s = costs.training_s(training)
    wire_s = link.seconds(inner_bytes) if crosses else costs.wire_s(training)
    outer_s = link.seconds(sent.diloco) if is_outer else 0.0
    step_s = sampling + training_s + wire_s + outer_s
    name: Kind = "one process" if per_group == 1 else "fsdp2" if work.is_sharded else "ddp"
    is_measured = link.sites == 1 and (name, per_group) in costs.measured
    trained_tokens = tokens_per_step * (link.sites if is_outer else 1)
    line_bytes = sent.diloco if is_outer else inner_bytes if crosses else 0.0
    all_bytes = inner_bytes * per_group * (link.sites if is_outer else 1) + (
        sent.diloco * link.sites if is_outer else 0
    )
    # An outer optimiser keeps the weights of the last synchronisation and a momentum, both in float32.
    outer_held = 2 * trained_parameters(shape, config) * FLOAT32 // work.shards if is_outer else 0
    peak = estimate_memory(shape, config, work).peak_bytes + outer_held
    return {
        "layout": f"diloco of {name}" if is_outer else name,
        "processes": per_group * (link.sites if is_outer else 1),
        "sites": link.sites,
        "hardware": costs.device,
        "status": "fitted to measured runs" if is_measured else "modelled",
        "memory": {"peak_mib": round(peak / 2**20, 1), "fits": peak <= costs.memory_bytes},
        "step_s": _estimate(step_s, costs, is_measured),
        "sampling_s": round(sampling, 4),
        "training_s": round(training_s, 4),
        "wire_s": round(wire_s + outer_s, 4),
        "sampling_share": round(sampling / step_s, 3),
        "wall_clock_s": round(config.training.steps * step_s, 1),
        "tokens_per_s": round(trained_tokens / step_s, 1),
        "wire": {
            "process_bytes": round(inner_bytes),
            "line_bytes": round(line_bytes),
            "bytes_per_token": round(all_bytes / trained_tokens, 1) if trained_tokens else None,
            "line_bytes_per_token": round(line_bytes * link.sites / trained_tokens, 1) if trained_tokens else None,
        },
    }


def _estimate(seconds: float, costs: Costs, is_measured: bool) -> dict[str, Any]:
    """Only layouts that were run have an interval: nobody knows how far off the others are."""
    mean = round(seconds, 4)
    if not is_measured:
        return {"mean": mean, "lo": None, "hi": None, "n": 0}
    lo, hi = costs.interval(seconds)
    n = costs.held_out["n"] + costs.fitted["n"]
    return {"mean": mean, "lo": round(lo, 4), "hi": None if hi is None else round(hi, 4), "n": n}
