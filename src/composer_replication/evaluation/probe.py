"""Do hints help this policy at all? Error turns are written again: as before, behind the hint, and behind a sham.

The hints are those that channel 2 is set to train on: written, of a sibling, or what the environment answered.
A turn is *accepted* when the environment raises no error on it, and *right* when the environment says so: in the
toolbox, when it does what the oracle would do next.
The gap of a kind is right with the hint minus right without. Channel 2 teaches the policy to write what it would have
written behind the hint: where the gap is clearly small there is nothing to teach, and the kind should be switched off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, product
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from composer_replication.config import Config
from composer_replication.environments.protocol import FEWEST_TO_TELL, TRAIN, Environment
from composer_replication.errors import UsageError
from composer_replication.objective import SdpoSettings
from composer_replication.progress import Progress, Silent
from composer_replication.records import JsonObject, StoredRecord

from .resampling import bootstrap
from .stats import Estimate, Said, mean_interval

if TYPE_CHECKING:
    import torch

    from composer_replication.training.lessons.online_sites import HintedTurn, OnlineSite, Rolled
    from composer_replication.training.models.loading import Policy

Condition = Literal["plain", "hint", "sham"]
CONDITIONS: tuple[Condition, ...] = ("plain", "hint", "sham")
SMALLEST_USEFUL_GAP = 0.10
ROLLOUTS_AT_ONCE = 256
ROLLOUTS_PER_SITE = 16
"""At most, at once: few sites need few rollouts."""
TURNS_AT_ONCE = 512
MOST_ROLLOUTS = 8192


class Tried(StoredRecord):
    """The turns that were written again at one site, under one condition: shares of all tries."""

    site: int
    kind: str
    condition: Condition
    tries: int
    accepted: float
    right: float
    task_id: str = ""
    """Of the site; not known of what was tried before 2026-11-19."""


class KindGap(StoredRecord):
    """What hints change at errors of one kind; `all` is every kind together."""

    kind: str
    sites: int
    accepted: dict[str, Said]
    right: dict[str, Said]
    gap: Said
    """Right with the hint minus right without, paired by site; its interval draws tasks, and `n` counts them."""
    sham_gap: Said
    accepted_gap: Said
    useful: bool
    """Whether the mean of `gap` is large enough for channel 2 to teach this kind, however uncertain."""


class Site(NamedTuple):
    rolled: Rolled
    hinted: HintedTurn
    contexts: dict[Condition, list[int]]

    @property
    def tools(self) -> Sequence[JsonObject]:
        return self.rolled.trace.tools


def probe_hints(
    policy: Policy,
    config: Config,
    environment: Environment,
    sites: int = 256,
    tries: int = 4,
    progress: Progress | None = None,
) -> list[Tried]:
    """At least `sites` error turns of fresh rollouts, each written again `tries` times per condition."""
    import torch

    from composer_replication.training.rollouts.playing import mapped
    from composer_replication.training.rollouts.sampling import sample_turns

    generator = torch.Generator(device=policy.model.device).manual_seed(config.seed)
    progress = progress or Silent()
    found = _error_sites(policy, config, environment, sites, generator, progress)
    progress.stage("probe", f"write {len(found)} error turns again")
    jobs = list(product(range(len(found)), CONDITIONS, range(tries)))
    judged: dict[tuple[int, Condition], list[tuple[bool, bool]]] = defaultdict(list)
    for start in range(0, len(jobs), TURNS_AT_ONCE):
        part = jobs[start : start + TURNS_AT_ONCE]
        turns = sample_turns(
            policy.model,
            [found[number].contexts[condition] for number, condition, _ in part],
            end_of_turn_id=policy.tokens.end_of_turn_id,
            pad_id=policy.tokenizer.pad_token_id,
            max_new_tokens=config.training.max_turn_tokens,
            temperature=config.training.temperature,
            generator=generator,
        )
        said = [
            (found[number], policy.tokens.said(found[number].contexts[condition], turn.ids, found[number].tools))
            for (number, condition, _), turn in zip(part, turns, strict=True)
        ]
        verdicts = mapped(lambda one: _judge(environment, *one), said, environment.limits.concurrency)
        for (number, condition, _), verdict in zip(part, verdicts, strict=True):
            judged[number, condition].append(verdict)
        progress.step(start + len(part), len(jobs), "turns")
    return [
        Tried(
            site=number,
            kind=found[number].hinted.kind,
            condition=condition,
            tries=tries,
            accepted=fmean(accepted for accepted, _ in verdicts),
            right=fmean(right for _, right in verdicts),
            task_id=found[number].rolled.trace.task_id or "",
        )
        for (number, condition), verdicts in judged.items()
    ]


def gaps(tried: Sequence[Tried]) -> list[KindGap]:
    """Every kind with its interval, most frequent first, after all kinds together."""
    by_kind: dict[str, list[Tried]] = defaultdict(list)
    for one in tried:
        by_kind[one.kind].append(one)
    kinds = sorted(by_kind, key=lambda kind: -len(by_kind[kind]))
    return [_gap("all", tried), *(_gap(kind, by_kind[kind]) for kind in kinds)]


def kinds_without_use(found: Sequence[KindGap]) -> tuple[str, ...]:
    """What `kinds_off` of the channel `sdpo` should hold: those whose whole interval is below a useful gap."""
    small = (one for one in found if one.gap.n >= FEWEST_TO_TELL and _largest(one.gap) < SMALLEST_USEFUL_GAP)
    return tuple(sorted(one.kind for one in small if one.kind != "all"))


def _largest(gap: Estimate) -> float:
    """Where all tasks are alike, up to 3 / n of others may have any gap."""
    return gap.hi if gap.has_width else gap.mean + 3 / gap.n


def _gap(kind: str, tried: Sequence[Tried]) -> KindGap:
    columns = {
        condition: sorted((one for one in tried if one.condition == condition), key=lambda one: one.site)
        for condition in CONDITIONS
    }
    right = {condition: [one.right for one in column] for condition, column in columns.items()}
    accepted = {condition: [one.accepted for one in column] for condition, column in columns.items()}
    tasks = [one.task_id or str(one.site) for one in columns["plain"]]
    gap = _difference(right["plain"], right["hint"], tasks)
    return KindGap(
        kind=kind,
        sites=len(columns["plain"]),
        accepted={condition: mean_interval(values) for condition, values in accepted.items()},
        right={condition: mean_interval(values) for condition, values in right.items()},
        gap=gap,
        sham_gap=_difference(right["plain"], right["sham"], tasks),
        accepted_gap=_difference(accepted["plain"], accepted["hint"], tasks),
        useful=gap.mean >= SMALLEST_USEFUL_GAP,
    )


def _difference(before: Sequence[float], after: Sequence[float], tasks: Sequence[str]) -> Estimate:
    """Sites of one task are alike, so tasks are drawn."""
    return bootstrap([y - x for x, y in zip(before, after, strict=True)], tasks, expanded=True)


def _error_sites(
    policy: Policy,
    config: Config,
    environment: Environment,
    wanted: int,
    generator: torch.Generator,
    progress: Progress,
) -> list[Site]:
    from composer_replication.training.lessons.hinters import attempts_per_task, hinter_of
    from composer_replication.training.lessons.online_sites import find_online_sites
    from composer_replication.training.rollouts.playing import repeated, sample_rolled

    tasks = repeated(environment.tasks(TRAIN, "probe"))
    trained, attempts = config.channel(SdpoSettings), attempts_per_task(config)
    hinters = {sham: hinter_of(config.hints, trained.model_copy(update={"sham": sham})) for sham in (False, True)}
    every_site, room = SdpoSettings(sites_per_rollout=64), config.training.max_tokens
    sites: list[Site] = []
    at_once = min(ROLLOUTS_AT_ONCE, ROLLOUTS_PER_SITE * max(wanted, 1))
    for _ in range(0, MOST_ROLLOUTS, at_once):
        batch = [*islice(tasks, ceil(at_once / attempts))] * attempts  # so that the first sites are of many tasks
        rolled = sample_rolled(policy, environment, config, batch, generator)
        hinted, sham = (
            find_online_sites(rolled, hinters[kind], policy.tokens, every_site, max_teacher_tokens=room)[0]
            for kind in (False, True)
        )
        for row, real, false in zip(rolled, hinted, sham, strict=True):
            sites += _sites_of(row, real, {site.turn: site for site in false})
        progress.step(min(len(sites), wanted), wanted, "error turns found")
        if len(sites) >= wanted:
            return sites[:wanted]
    raise UsageError(
        f"only {len(sites)} error turns with a hint in {MOST_ROLLOUTS} rollouts", f"ask for {len(sites)} sites or fewer"
    )


def _sites_of(row: Rolled, hinted: Sequence[OnlineSite], sham: dict[int, OnlineSite]) -> list[Site]:
    from composer_replication.training.lessons.online_sites import HintedTurn

    return [
        Site(
            row,
            HintedTurn(site.turn, site.kind, site.hint),
            {
                "plain": row.prompt_ids + row.completion_ids[: site.start],
                "hint": site.teacher_context,
                "sham": sham[site.turn].teacher_context,
            },
        )
        for site in hinted
        if site.turn in sham
    ]


def _judge(environment: Environment, site: Site, text: str) -> tuple[bool, bool]:
    trace = site.rolled.trace
    assert trace.task_id is not None
    environment.task(trace.task_id)
    judged = environment.judge(trace.state(site.hinted.turn), text)
    if judged is None:
        raise UsageError(f"{environment.name} cannot judge a single turn", "probe hints in another environment")
    return judged.accepted, judged.right is True
