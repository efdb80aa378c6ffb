"""Error turns of fresh rollouts, each behind its hinted context. A rollout comes as a `Trace` and as the sampled ids.

    G1 only turns with an error     G2 the earliest few of a rollout     G5 no kind whose hints do not help
    G6 (opt-in) only where the environment accepts a turn that was sampled with the hint

G3, whether the hint makes the sampled turn less likely, needs the model and is decided with the loss. All are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

from composer_replication.errors import UsageError
from composer_replication.hints import SiblingHintGenerator, write_hints
from composer_replication.hints.templates import LeakLevel
from composer_replication.objective import SdpoSettings
from composer_replication.records import Trace
from composer_replication.sites import find_sites

from ..models.tokens import ChatTokens

MAX_TEACHER_TOKENS = 8192


class HintedTurn(NamedTuple):
    """What a hinter says of a trace: `turn`, its place in `trace.turns`, which count from 0; `kind`, the kind of error;
    `hint`, the text that is put before the turn when the policy reads it as its own teacher."""

    turn: int
    kind: str
    """Of error: one of `ErrorKind`, which `kinds_off` can leave out, or a word of your own. Metrics use it."""
    hint: str


class OnlineSite(NamedTuple):
    """Tokens `start` to `end` of a completion, and the same turn behind the hinted context."""

    start: int
    end: int
    kind: str
    """Of error."""
    teacher_context: list[int]
    """Ids of the conversation with the hint, up to the turn."""
    turn_ids: list[int]
    """Ids of the turn itself."""
    turn: int = 0
    """Its place in `trace.turns`, from 0."""
    hint: str = ""
    """Its text."""
    logprobs: tuple[float, ...] = ()
    """That whoever sampled the turn gave its tokens, where it is known."""

    @property
    def teacher_ids(self) -> list[int]:
        """Hinted context and turn."""
        return self.teacher_context + self.turn_ids


class Rolled(NamedTuple):
    """One rollout: what happened, and the ids that were sampled or read."""

    trace: Trace
    prompt_ids: list[int]
    """What stood there before the first turn."""
    completion_ids: list[int]
    """Sampled turns, and what the environment answered between them."""
    sampled_mask: list[int]
    """1 where the policy sampled the token of `completion_ids`, 0 where the environment wrote it."""
    model_versions: tuple[int, ...] = ()
    """Of the weights that wrote each turn, where a sampler counts them."""
    logprobs: tuple[float, ...] = ()
    """That whoever sampled a token gave it, where it is known; others are 0."""
    broken: bool = False
    """Whether the environment itself broke at the last turn, which is no error of the policy."""


Hinter = Callable[[Sequence[Trace]], list[list[HintedTurn]]]
"""The traces of a step -> for each the turns that went wrong, none or several."""
Accepts = Callable[[Sequence[tuple[Rolled, HintedTurn, OnlineSite]]], list[bool]]
"""Does the environment accept a turn that the policy samples behind the hinted context?"""


class TraceHinter:
    """The detectors and hint layers of the pipeline, at run time.

    Args:
        sham: Hints of the same form that do not help, as a control.
        sibling: Answer an error with the success of another trace at the same task: tell only that there is one, or
            show its call too.
    """

    def __init__(
        self,
        max_tokens: int = 96,
        max_leak_level: LeakLevel = "L1",
        sham: bool = False,
        sibling: Literal["off", "outcome", "call"] = "off",
    ) -> None:
        self._max_tokens, self._sham, self._sibling = max_tokens, sham, sibling
        self.follows = {"sham": sham, "sibling_hints": sibling}
        self._max_leak_level: LeakLevel = max_leak_level

    def __call__(self, traces: Sequence[Trace]) -> list[list[HintedTurn]]:
        """The hinted turns of each trace."""
        siblings = None
        if self._sibling != "off":
            siblings = SiblingHintGenerator(traces, show_call=self._sibling == "call")
        return [self._hinted_turns(trace, siblings) for trace in traces]

    def _hinted_turns(self, trace: Trace, siblings: SiblingHintGenerator | None) -> list[HintedTurn]:
        sites = {site.site_id: site for site in find_sites(trace)}
        written = write_hints(
            {trace.trace_id: trace},
            sites.values(),
            self._max_tokens,
            sibling=siblings,
            max_leak_level=self._max_leak_level,
        )
        return [
            HintedTurn(
                sites[hint.site_id].turn, sites[hint.site_id].error_kind, hint.sham_text if self._sham else hint.text
            )
            for hint in written.hints
        ]


def refuse_idle_settings(settings: SdpoSettings, hinter: Hinter, accepts: Accepts | None) -> None:
    """A control that trains on the true hints unseen would be reported as a control. `hinter.follows` names the
    settings that a hinter was made with."""
    follows = getattr(hinter, "follows", {})
    for name in ("sham", "hint", "sibling_hints"):
        value = getattr(settings, name)
        if value not in (SdpoSettings.model_fields[name].default, follows.get(name)):
            raise UsageError(
                f"SdpoSettings({name}={value!r}) does nothing with this hinter",
                "take it out; what a hint says is the hinter's work, also a sham: return a text without help, "
                "or make TraceHinter with this option",
            )
    if settings.require_acceptance and accepts is None:
        raise UsageError(
            "SdpoSettings(require_acceptance=True) does nothing without accepts",
            "pass accepts=rollouts.accepts, where rollouts are the EnvironmentRollouts",
        )


def find_online_sites(
    rollouts: Sequence[Rolled],
    hinter: Hinter,
    tokens: ChatTokens,
    settings: SdpoSettings,
    accepts: Accepts | None = None,
    max_teacher_tokens: int = MAX_TEACHER_TOKENS,
) -> tuple[list[list[OnlineSite]], Counter[str]]:
    """The sites of each rollout, and how many turns were left out, by reason. A hinted context that is longer than
    `max_teacher_tokens` is one of these."""
    counts: Counter[str] = Counter()
    found: list[list[tuple[Rolled, HintedTurn, OnlineSite]]] = []
    told = hinter([rolled.trace for rolled in rollouts])
    _check_told(told, len(rollouts))
    for rolled, hinted in zip(rollouts, told, strict=True):
        found.append(_sites_of(rolled, hinted, tokens, settings, max_teacher_tokens, counts))
    if accepts:
        candidates = [candidate for row in found for candidate in row]
        verdicts = dict(zip(map(id, candidates), accepts(candidates), strict=True))
        counts["not_accepted"] += sum(not verdict for verdict in verdicts.values())
        found = [[candidate for candidate in row if verdicts[id(candidate)]] for row in found]
    return [[site for _, _, site in row] for row in found], counts


def _check_told(told: Any, rollouts: int) -> None:
    wanted = "return one list for each, empty or not, of HintedTurn(turn, kind, hint)"
    if not isinstance(told, list | tuple):
        raise UsageError(f"the hinter gave {type(told).__name__} for {rollouts} rollouts", wanted)
    rows = cast(Sequence[Any], told)
    if len(rows) != rollouts:
        raise UsageError(f"the hinter gave {len(rows)} lists for {rollouts} rollouts", wanted)
    for row, hinted in enumerate(rows):
        # A HintedTurn is a tuple too, and must not be read as a list of three.
        if isinstance(hinted, HintedTurn) or not isinstance(hinted, list | tuple):
            raise UsageError(f"the hinter gave {type(hinted).__name__} for rollout {row}", wanted)
        for one in cast(Sequence[Any], hinted):
            if not isinstance(one, HintedTurn):
                raise UsageError(f"the hinter gave {type(one).__name__} in the list for rollout {row}", wanted)
            if not isinstance(cast(Any, one.hint), str):
                raise UsageError(f"a hint of rollout {row} is {type(one.hint).__name__}, not a text", wanted)


def _sites_of(
    rolled: Rolled,
    hinted: Sequence[HintedTurn],
    tokens: ChatTokens,
    settings: SdpoSettings,
    max_teacher_tokens: int,
    counts: Counter[str],
) -> list[tuple[Rolled, HintedTurn, OnlineSite]]:
    spans = turn_spans(rolled.sampled_mask)
    if hinted and len(spans) != len(rolled.trace.turns):
        counts["turns_do_not_match"] += len(hinted)
        return []
    if outside := [one.turn for one in hinted if one.turn not in range(len(spans))]:
        raise UsageError(
            f"the hinter names turn {outside[0]} of {rolled.trace.trace_id}, which has {len(spans)}",
            "HintedTurn.turn is the place in trace.turns, from 0",
        )
    sites: dict[int, tuple[Rolled, HintedTurn, OnlineSite]] = {}
    for one in sorted(hinted, key=lambda hinted_turn: hinted_turn.turn):
        if one.kind in settings.kinds_off:
            counts["kind_off"] += 1
        elif rolled.broken and one.turn == len(spans) - 1:
            counts["environment_broke"] += 1
        elif not one.hint.strip():
            counts["empty_hint"] += 1
        elif one.turn in sites:
            counts["second_of_its_turn"] += 1
        elif len(sites) == settings.sites_per_rollout:
            counts["later_turn"] += 1
        else:
            site = _splice(rolled, one, spans[one.turn], tokens)
            if len(site.teacher_ids) > max_teacher_tokens:
                counts["too_long"] += 1
            else:
                sites[one.turn] = (rolled, one, site)
    return list(sites.values())


def _splice(rolled: Rolled, hinted: HintedTurn, span: tuple[int, int], tokens: ChatTokens) -> OnlineSite:
    start, end = span
    try:
        context = tokens.splice_hint(rolled.prompt_ids + rolled.completion_ids[:start], hinted.hint)
    except ValueError as error:
        # A rollout under another template or other settings than the policy's would lose every one of its sites.
        raise UsageError(
            f"no hint can be told before turn {hinted.turn} of {rolled.trace.trace_id}: {error}",
            "render prompts and rollouts under the same chat template and model.chat_template_kwargs",
        ) from error
    turn_ids, logprobs = rolled.completion_ids[start:end], rolled.logprobs[start:end]
    return OnlineSite(start, end, hinted.kind, context, turn_ids, hinted.turn, hinted.hint, logprobs)


def turn_spans(mask: Sequence[int]) -> list[tuple[int, int]]:
    """The maximal runs of 1: the turns that the policy sampled, in order."""
    edges = [place for place, (before, after) in enumerate(pairwise([0, *mask, 0])) if before != after]
    return list(zip(edges[::2], edges[1::2], strict=True))
