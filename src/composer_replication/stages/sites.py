"""`RUN/sites`: turns where something went wrong."""

from __future__ import annotations

import time
from collections import Counter

from composer_replication.errors import RecomposeError, quoted
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, Trace
from composer_replication.runs import Run
from composer_replication.sites import find_sites


def locate(run: Run, progress: Progress) -> None:
    from composer_replication.sites.reader import open_reader

    started, traces = time.monotonic(), run.stage("ingestion").read(Trace)
    sites: list[ErrorSite] = []
    with open_reader(run.config.sites, run.path) as reader:
        for done, trace in enumerate(traces, 1):
            found = find_sites(trace)
            sites += reader.read(trace, found) if reader else found
            if reader:
                progress.step(done, len(traces), f"{reader.tally.turns} turns read")
    if reader and reader.tally.turns and reader.tally.failed.total() == reader.tally.turns:
        reason, again = next(iter(reader.tally.failed)), f"check the server, then recompose sites {quoted(run.path)}"
        raise RecomposeError(f"no reader call was answered: {reason}", again)
    kinds, faults = Counter(site.error_kind for site in sites), Counter(site.fault for site in sites)
    counts = {"sites": len(sites), "kinds": dict(kinds), "faults": dict(faults)}
    counts |= {"reader": reader.tally.counts()} if reader else {}
    run.stage("sites").finish(sites, counts, [run.stage("ingestion")], started)
