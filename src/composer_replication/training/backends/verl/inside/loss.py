"""verl's own policy loss, plus channels 2 and 3 where the batch has columns for them.

Micro-batches are summed and ranks averaged, so the columns carry denominators over the whole step, and a rank's share
counts as often as there are ranks. A batch without columns gives verl's loss and nothing else, to the last bit.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from composer_replication.losses.sampled import sampled_terms

COLUMNS = ("composer_teacher", "composer_weight", "composer_slope")
"""One value per response token: log-probability behind the hinted context, weight of channel 2, slope of channel 3."""


def composer_loss(config: Any, model_output: dict[str, Any], data: Any, dp_group: Any = None) -> tuple[Any, dict]:
    loss, metrics = ppo_loss(config, model_output, data, dp_group)
    if COLUMNS[0] not in data:
        return loss, metrics
    logprobs = no_padding_2_padding(model_output["log_probs"], data)
    columns = data.select(*COLUMNS).to_padded_tensor()
    terms = sampled_terms(logprobs, *(columns[name].to(logprobs.device) for name in COLUMNS))
    for name, term in zip(("sdpo", "replay"), terms, strict=True):
        metrics[f"actor/composer_{name}"] = Metric(
            value=term.detach() * data["dp_size"], aggregation=AggregationType.SUM
        )
    return loss + data["dp_size"] * (terms.distilled + terms.preferred), metrics
