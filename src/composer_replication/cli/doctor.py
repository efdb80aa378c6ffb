"""`recompose doctor [FILE | RUN]`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.config import Config, load_config
from composer_replication.runs import Run
from composer_replication.stages.readiness import Readiness, checks

from .arguments import Json
from .common import quiet_libraries, say_at_once

MARKS = {"ok": "✓", "note": "·", "problem": "✗"}


def doctor(
    source: Annotated[Path | None, Parameter(help="A settings file or a run folder: check what it needs, too.")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Look at this machine: libraries against the versions tested with, sandbox, GPU, and whether keys are there.

    Exit code 1 where there is a problem. What not everybody needs is a note, and no problem.
    """
    quiet_libraries()
    say_at_once("looking at libraries, sandbox and model …", json)
    run = Run.open(source) if source and (source / "config.json").exists() else None
    config = run.config if run else load_config(source) if source else None
    found = [*checks(config, run is not None and run.stage("policy").is_done), _sandbox(config)]
    problems = [one for one in found if one.status == "problem"]
    if json:
        print(json_module.dumps({"ok": not problems, "checks": [one._asdict() for one in found]}))
    else:
        for one in found:
            then = f"; next: {one.next}" if one.next else ""
            print(f"{MARKS[one.status]} {one.name:<20} {one.told}{then}")
        print(f"{len(problems)} problem{'s' * (len(problems) > 1)}" if problems else "no problem")
    if problems:
        raise SystemExit(1)


def _sandbox(config: Config | None) -> Readiness:
    from composer_replication.environments.code.sandbox import SandboxSpec, SandboxUnavailable, open_sandbox
    from composer_replication.environments.code.sandbox.open import available_backends

    needed = config is not None and config.environment.name in ("code", "harbor")
    chosen = config.environment.sandbox if config and needed else "auto"
    try:
        with open_sandbox(SandboxSpec(), chosen):
            pass
    except SandboxUnavailable as error:
        return Readiness("sandbox", "problem" if needed else "note", str(error.args[0]), error.next_command)
    working = [name for name, why in available_backends().items() if not why]
    return Readiness("sandbox", "ok", ", ".join(working) or chosen)
