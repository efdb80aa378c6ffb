"""`recompose fork RUN NEW --set KEY=VALUE`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import UsageError, quoted
from composer_replication.pipeline import STAGES, touched
from composer_replication.runs import Run
from composer_replication.settings import differences, with_changes

from .arguments import Json, RunFolder, Set


def fork(
    run: RunFolder,
    new: Annotated[Path, Parameter(help="Folder of the new run.")],
    /,
    *,
    changes: Set = (),
    json: Json = False,
) -> None:
    """Begin a new run with other settings, and keep the stages of RUN that the change does not touch.

    Answers of teachers are kept too and cost nothing; `recompose cost NEW` counts them as inherited. Both runs are then
    apart: deleting one, or going on with it, does nothing to the other.
    """
    from composer_replication.stages.forking import fork as fork_run
    from composer_replication.stages.forking import measured_passes
    from composer_replication.stages.rollouts import SETTINGS

    opened = Run.open(run)
    config = with_changes(opened.config, changes)
    keys = differences(opened.config, config)
    if not keys:
        what = "--set says what is there already" if changes else "nothing is to be changed"
        raise UsageError(what, f"recompose fork {quoted(run)} {quoted(new)} --set KEY=VALUE")
    dropped = touched(opened, keys)
    if "ingestion" in dropped and SETTINGS in opened.stage("ingestion").require()["inputs"]:
        raise UsageError(
            f"the attempts of {run} depend on {dropped['ingestion']}, and `env rollout` made them",
            f"recompose env rollout TASKS --run {quoted(new)}",
        )
    kept = [stage.noun for stage in STAGES if opened.stage(stage.noun).is_done and stage.noun not in dropped]
    answers, useless = fork_run(opened, new, config, kept, changes)
    then = Run(new, config).next_command(kept)
    then = then and then.replace("ingest PATH ", "ingest ")
    passes, passes_kept = measured_passes(opened), measured_passes(Run(new, config))
    if json:
        told = {"run": str(new), "changed": keys, "kept": kept, "dropped": dropped, "inherited_answers": answers}
        print(json_module.dumps({**told, "kept_passes": passes_kept, "next": then}))
        return
    print(f"{new}: {run} with another {', '.join(keys)}")
    print(f"  {'kept':<10} {', '.join(kept) or 'nothing'}")
    for noun, why in dropped.items():
        print(f"  {'dropped':<10} {noun} (depends on {why})")
    if passes:
        what = "kept" if passes_kept else "dropped"
        print(
            f"  {what:<10} {passes} passes over turns of sessions{'' if passes_kept else ', which are measured again'}"
        )
    if answers or useless:
        more = f", and {useless} useless, not bought again" if useless else ""
        print(f"  {'inherited':<10} {answers} answers of teachers, at no cost{more}")
    if then:
        print(f"next: {then}")
