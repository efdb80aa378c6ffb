"""What a training step adds up: the entries of `[[channels]]`, each with its weight, schedule and own settings.

`CHANNELS` says which class computes an entry. A channel of your own is one class, and either one line there or its
`package.module:Class` as the name; its class validates the entry, when training is planned or begun. Settings of
before (`training.alpha_sdpo` and the like) are read as entries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from .records import ErrorKind
from .sections import AboveZero, Flag, Fraction, Positive, Section, Weight, nearest

CHANNELS = {
    "grpo": "composer_replication.training.stored.policy_gradient:StoredPolicy",
    "sdpo": "composer_replication.training.channels:SelfDistillation",
    "trdpo": "composer_replication.training.channels:ReplayPreference",
}


class Schedule(Section):
    """How the weight comes and goes, in shares of all steps."""

    warmup_share: Fraction = 0.0
    """Over which it rises from 0."""
    decay_share: Fraction = 0.0
    """At the end, over which it falls back to 0."""

    @model_validator(mode="after")
    def _fits(self) -> Schedule:
        if self.warmup_share + self.decay_share > 1:
            raise ValueError("warmup_share and decay_share must fit into one run")
        return self


class ChannelSettings(Section):
    """What every channel has. A channel of your own adds its settings to these."""

    name: str
    """A key of `CHANNELS`, or `package.module:Class`."""
    weight: Weight
    """Factor of its loss in the sum; 0 turns it off."""
    schedule: Schedule = Schedule()
    """How the weight comes and goes."""

    @property
    def label(self) -> str:
        return self.name.rpartition(":")[2]


class GrpoSettings(ChannelSettings):
    """Channel 1, the policy gradient: of each step's rollouts, or without rollouts of stored traces."""

    TAG: ClassVar = "grpo"

    name: str = "grpo"
    """Always this."""
    weight: Weight = 1.0
    """Factor of its loss in the sum; 0 turns it off."""
    clip_low: Fraction = 0.2
    """How far below 1 the ratio to the sampling policy counts."""
    clip_high: AboveZero = 0.28
    """How far above 1 it counts."""
    importance_clip: AboveZero | None = None
    """`--backend trl_async`: the most that the ratio counts where `clip_high` does not hold, which is where a token
    did worse than the others. None: without bound."""
    advantage: Literal["group", "accepted"] = Field(default="group", exclude_if=lambda name: name == "group")
    """Compare the rewards of a group, or imitate the rollouts with the full reward and leave the others alone."""

    @property
    def label(self) -> str:
        return "GRPO"


class SdpoSettings(ChannelSettings):
    """Channel 2, hint-conditioned self-distillation at error turns."""

    TAG: ClassVar = "sdpo"

    name: str = "sdpo"
    """Always this."""
    weight: Weight = 0.1
    """Factor of its loss in the sum, before `gradient_ratio_cap`; 0 turns it off."""
    source: Literal["stored", "rollouts"] = "stored"
    """Where error turns are found: in the traces of the run, or in each step's own rollouts as they happen."""
    jsd_beta: Fraction = 0.5
    """0 is KL(teacher‖student), 1 is KL(student‖teacher), in between the generalised Jensen-Shannon divergence."""
    temperature: AboveZero = 1.0
    """Of both distributions."""
    top_k: Positive | None = None
    """Compare the union of both top-k sets and one bucket for the rest, not the whole vocabulary."""
    token_clip: AboveZero | None = None
    """Scale tokens whose divergence is above this down to it. JSD is bounded already."""
    teacher: Literal["ema", "frozen", "live", "trust_region"] = "ema"
    """Who sees the hint: a slow average of the policy, its start, itself, or a mixture of the logits of its start and
    itself."""
    ema_rate: Fraction = 0.01
    """`ema`: the share of the way to the policy that the average goes after each step."""
    trust_region_rate: Fraction = 0.01
    """`trust_region`: the policy's share in the teacher's logits."""
    importance_clip: AboveZero | None = None
    """Weigh each token by how much likelier the policy finds it than whoever sampled it, up to this. None: all alike;
    with trl_async, 2."""
    hint: Literal["written", "feedback"] = Field(default="written", exclude_if=lambda name: name == "written")
    """In rollouts: a reminder that is written for the error, or what the environment answered, up to
    `hints.max_tokens`."""
    sibling_hints: Literal["off", "outcome", "call"] = "off"
    """In rollouts: tell that another attempt of the same step succeeded (L1), or show its call (L2)."""
    sites_per_rollout: Positive = 2
    """The earliest ones: later turns stand on a history that is spoiled already."""
    require_disfavour: Flag = True
    """Drop a site where the hint does not make the sampled turn less likely."""
    require_acceptance: Flag = False
    """Drop a site where the environment refuses a turn that was sampled with the hint. Costs a decoding pass."""
    kinds_off: tuple[ErrorKind, ...] = ()
    """Error kinds that are left alone."""
    sham: Flag = False
    """Control: hints of the same form and length that do not help; of `feedback`, that of another task."""

    @property
    def label(self) -> str:
        return "SDPO"


class TrdpoSettings(ChannelSettings):
    """Channel 3, preferences from teacher replay."""

    TAG: ClassVar = "trdpo"

    name: str = "trdpo"
    """Always this."""
    weight: Weight = 0.05
    """Factor of its loss in the sum, before `gradient_ratio_cap`; 0 turns it off."""
    beta: AboveZero = 0.1
    """DPO's: how far the policy may go from the reference."""
    nll_weight: Weight = 0.0
    """Weight of the likelihood of the chosen action next to the preference."""
    dpop_weight: Weight = 0.0
    """Weight of the penalty where the chosen action gets less likely than at the start."""
    length_normalised: Flag | Literal["auto"] = False
    """Bring both sides to the length of the shorter one; "auto" only where one is more than 1.5 times as long."""
    sft_only: Flag = False
    """Imitate the chosen actions and prefer nothing: a control by design, and the faster one in experiment 013."""

    @property
    def likelihood_weight(self) -> float:
        """Of the chosen action; imitation has 1 where `nll_weight` is 0."""
        return self.nll_weight or float(self.sft_only)

    @property
    def label(self) -> str:
        return "TR-DPO"


class OwnSettings(ChannelSettings):
    """A channel of your own. What else its entry holds is kept as it is, for its class to validate."""

    model_config = ConfigDict(extra="allow")
    TAG: ClassVar = "own"

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        module, colon, kind = name.partition(":")
        if name not in CHANNELS and not (module and colon and kind):
            raise ValueError(f"no channel {name}, {nearest(name, CHANNELS)} Or give package.module:Class")
        return name


class OfEntry:
    """A channel whose weight and schedule are those of its entry."""

    settings: Any

    @property
    def weight(self) -> float:
        return self.settings.weight

    @property
    def schedule(self) -> Schedule:
        return self.settings.schedule


DEFAULT_CHANNELS = (GrpoSettings(), SdpoSettings(), TrdpoSettings())


def _tag(value: Any) -> str:
    name = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    return next((kind.TAG for kind in DEFAULT_CHANNELS if name == kind.TAG), OwnSettings.TAG)


AnyChannel = Annotated[
    Annotated[GrpoSettings, Tag("grpo")]
    | Annotated[SdpoSettings, Tag("sdpo")]
    | Annotated[TrdpoSettings, Tag("trdpo")]
    | Annotated[OwnSettings, Tag("own")],
    Discriminator(_tag),
]

OLD_KEYS: dict[str, tuple[str, str]] = {
    "alpha_sdpo": ("sdpo", "weight"),
    "beta_replay": ("trdpo", "weight"),
    "sdpo_from": ("sdpo", "source"),
    **{
        f"sdpo_{key}": ("sdpo", key)
        for key in (
            "jsd_beta", "top_k", "token_clip", "teacher", "ema_rate", "sites_per_rollout", "require_disfavour",
            "require_acceptance", "kinds_off", "sham",
        )
    },
    **{
        f"dpo_{key}": ("trdpo", key)
        for key in ("beta", "nll_weight", "dpop_weight", "length_normalised", "sft_only")
    },
}  # fmt: skip
"""Of `[training]` in a file of before: the channel, and the key of its entry."""
OLD_SCHEDULE = {"channel_warmup_share": "warmup_share", "channel_decay_share": "decay_share"}
"""Was one for both added channels."""


def in_new_form(values: Any) -> Any:
    """Settings with an entry of `[[channels]]` for each channel that keys of before in `[training]` speak of."""
    training = values.get("training") if isinstance(values, dict) else None
    if not isinstance(training, dict) or "channels" in values:
        return values
    rest, entries = _channels_of_before(training)
    return {**values, "training": rest, "channels": entries} if entries else values


def told_twice(values: Any) -> dict[str, str]:
    """What is wrong with keys of before beside `[[channels]]`."""
    training = values.get("training") if isinstance(values, dict) and "channels" in values else None
    old = [key for key in training if key in OLD_KEYS or key in OLD_SCHEDULE] if isinstance(training, dict) else []
    return {f"training.{key}": f"training.{key} is the old form of what [[channels]] says; take it out" for key in old}


def _channels_of_before(training: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is left of `[training]`, and the entries that its old keys stand for; none where there are no such keys."""
    rest = {key: value for key, value in training.items() if key not in OLD_KEYS and key not in OLD_SCHEDULE}
    if len(rest) == len(training):
        return rest, []
    entries: dict[str, dict[str, Any]] = {kind.name: {"name": kind.name} for kind in DEFAULT_CHANNELS}
    for key, (name, own) in OLD_KEYS.items():
        if key in training:
            entries[name][own] = training[key]
    schedule = {own: training[key] for key, own in OLD_SCHEDULE.items() if key in training}
    if schedule:
        entries["sdpo"]["schedule"] = entries["trdpo"]["schedule"] = schedule
    return rest, list(entries.values())


def in_old_words(written: str) -> str:
    """Of a key in an entry that an old key stands for, that key."""
    for key, (name, own) in OLD_KEYS.items():
        written = re.sub(rf"^channels\.{name}\.{own}\b", f"training.{key}", written)
    for key, own in OLD_SCHEDULE.items():
        written = re.sub(rf"^channels\.\w+\.schedule\.{own}$", f"training.{key}", written)
    return written


def need_pairs(channels: Sequence[ChannelSettings]) -> bool:
    """Whether one learns from what teachers voted for; one of one's own may."""
    return any(channel.weight for channel in channels if not isinstance(channel, GrpoSettings | SdpoSettings))


def repeated(channels: Sequence[ChannelSettings]) -> str | None:
    """A channel that stands there twice."""
    names = [channel.name for channel in channels]
    return next((name for name in names if names.count(name) > 1), None)
