"""Who hints in channel 2, by its settings. Training, the probe and the self-check ask here, so that what is measured
beforehand is what is trained on.
"""

from __future__ import annotations

from composer_replication.config import Config, HintsConfig
from composer_replication.objective import SdpoSettings

from .feedback import FeedbackHinter
from .online_sites import Hinter, TraceHinter


def attempts_per_task(config: Config) -> int:
    """That hints of these settings need: a sibling's success is one at the same task."""
    return 1 if config.channel(SdpoSettings).sibling_hints == "off" else config.training.group_size


def hinter_of(hints: HintsConfig, sdpo: SdpoSettings) -> Hinter:
    if sdpo.hint == "feedback":
        return FeedbackHinter(hints.max_tokens, sham=sdpo.sham)
    return TraceHinter(hints.max_tokens, hints.max_leak_level, sham=sdpo.sham, sibling=sdpo.sibling_hints)
