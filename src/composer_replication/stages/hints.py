"""`RUN/hints`: a short reminder for each site."""

from __future__ import annotations

import time

from composer_replication.errors import RecomposeError, quoted
from composer_replication.hints import SiblingHintGenerator, write_hints
from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, Trace
from composer_replication.runs import Run, write_records


def hint(run: Run, progress: Progress) -> None:
    from composer_replication.hints.judge import open_judge

    started, inputs, config = time.monotonic(), [run.stage("ingestion"), run.stage("sites")], run.config.hints
    traces = {trace.trace_id: trace for trace in inputs[0].read(Trace)}
    siblings = SiblingHintGenerator(traces.values(), show_call=config.sibling == "call")
    refused: list[HintRefusal] = []
    with open_judge(config, run.path) as judge:
        written = write_hints(
            traces,
            inputs[1].read(ErrorSite),
            config.max_tokens,
            judge=judge,
            sibling=siblings if config.sibling != "off" else None,
            max_leak_level=config.max_leak_level,
            on_refusal=refused.append,
        )
    if judge and judge.tally.sites and judge.tally.failed.total() == judge.tally.sites:
        reason = next(iter(judge.tally.failed))
        next_command = f"check the server, then recompose hint {quoted(run.path)}"
        raise RecomposeError(f"no judge call was answered: {reason}", next_command)
    counts = written.counts() | ({"judge": judge.tally.counts()} if judge else {})
    stage = run.stage("hints")
    beside = {REFUSALS: write_records(stage.path / REFUSALS, refused)}
    stage.finish(written.hints, counts, inputs, started, beside=beside)
