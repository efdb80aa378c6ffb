"""`recompose evaluate RUN`"""

from __future__ import annotations

import json as json_module
from pathlib import Path

from composer_replication.pipeline import run_stage
from composer_replication.runs import Run

from .common import Json, working_on
from .result import show_result


def evaluate(run: Path, /, *, json: Json = False) -> None:
    """Compare the policy of RUN before and after training on held-out tasks, and write RUN/report.html."""
    from composer_replication.evaluation.summary import conclude

    opened = Run.open(run)
    with working_on(opened) as progress:
        run_stage(opened, "evaluation", progress)
    result = conclude(opened)
    if json:
        print(json_module.dumps(result))
    else:
        show_result(result)
