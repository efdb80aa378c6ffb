"""`recompose evaluate RUN --probe`"""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from composer_replication.environments.opening import open_environment
from composer_replication.pipeline import ensure_policy
from composer_replication.runs import Run, write_records
from composer_replication.stages.policy import load_own

from .common import quiet_libraries, working_on
from .progress import open_progress

if TYPE_CHECKING:
    from composer_replication.evaluation.probe import KindGap

TRIED = "evaluation/probe.jsonl.zst"


def probe(run: Run, sites: int, as_json: bool) -> None:
    """What hints change for the starting policy of RUN at its own errors, by kind; the tries go to RUN/evaluation."""
    quiet_libraries()
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    import torch

    from composer_replication.evaluation.probe import gaps, kinds_without_use, probe_hints

    if not run.stage("policy").is_done:
        with working_on(run) as progress:
            ensure_policy(run, progress)
    policy = load_own(run)
    device = policy.model.device.type
    half = torch.autocast(device, torch.bfloat16, enabled=run.config.hardware.autocasts(device == "cuda"))
    with half, open_environment(run.config) as environment, closing(open_progress()) as progress:
        progress.stage("probe", "find error turns in fresh rollouts")
        tried = probe_hints(policy, run.config, environment, sites, progress=progress)
    write_records(run.path / TRIED, tried)
    found, off = gaps(tried), kinds_without_use(gaps(tried))
    if as_json:
        print(json_module.dumps({"gaps": [one.model_dump() for one in found], "sdpo_kinds_off": off}))
    else:
        _show(found, off)


def _show(found: Sequence[KindGap], off: Sequence[str]) -> None:
    print(f"{'right, by kind of error':<24} {'sites':>5}  {'as it was':>9}  {'hint':>5}  {'sham':>5}  gap, 95 %")
    for one in found:
        right, gap = one.right, one.gap
        print(
            f"{one.kind:<24} {one.sites:>5}  {right['plain'].mean:>9.2f}  {right['hint'].mean:>5.2f}  "
            f"{right['sham'].mean:>5.2f}  {gap.told('+.2f')}"
        )
    print(f"kinds_off = {json_module.dumps(list(off))}  # of the channel sdpo")
