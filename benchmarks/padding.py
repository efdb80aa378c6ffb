"""How much of the batches of stored rows is padding, and how many tokens rows save that several sites share.

    python benchmarks/padding.py RUN [--max-tokens 8192] [--rows 8] [--json PATH]

RUN has traces, sites and hints. Its sites become the rows that training would read, with the tokenizer of its model;
one pass over them is cut into batches in a random order, as before, and by like length, as training does now.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from composer_replication.environments.opening import open_environment
from composer_replication.records import ErrorSite, Hint, Trace
from composer_replication.runs import Run
from composer_replication.stages.ingestion import rollout_tokens
from composer_replication.training.models.loading import Policy
from composer_replication.training.planning.lengths import find_chat_tokens
from composer_replication.training.stored.batches import batches_of_like_length
from composer_replication.training.stored.examples import TraceExample, build_examples
from composer_replication.training.stored.sessions import RenderedSessions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    examples = examples_of(Run.open(options.run), options.max_tokens)
    result = {"max_tokens": options.max_tokens, "rows": options.rows, **measure(examples, options.rows)}
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def examples_of(run: Run, max_tokens: int) -> list[TraceExample]:
    with open_environment(run.config) as environment:
        tokens = find_chat_tokens(run.config.model.name, run.path / "policy" / "model", environment)
    if tokens is None:
        raise SystemExit("the tokenizer of the run's model is not on this machine")
    sites = {site.site_id: site for site in run.stage("sites").read(ErrorSite)}
    traces, hints = run.stage("ingestion").read(Trace), run.stage("hints").read(Hint)
    sessions = RenderedSessions(Policy(run.config.model.name, None, tokens), max_tokens)
    rows = rollout_tokens(run)
    return build_examples(tokens, rows, sites, hints, [], max_tokens, traces=traces, sessions=sessions)[0]


def measure(examples: Sequence[TraceExample], rows: int) -> dict[str, float]:
    order = random.Random(0).sample(examples, len(examples))
    plain = [order[start : start + rows] for start in range(0, len(order), rows)]
    apart = sum(site.end for example in examples for site in example.sites)
    return {
        "examples": len(examples),
        "sites": sum(len(example.sites) for example in examples),
        "tokens": sum(len(example.ids) for example in examples),
        "tokens_with_a_row_for_each_site": apart,
        "padding_in_random_order": round(padding(plain), 4),
        "padding_by_like_length": round(padding(batches_of_like_length(order, rows, random.Random(0))), 4),
    }


def padding(batches: Sequence[Sequence[TraceExample]]) -> float:
    """Share of the cells of all matrices of policy and teacher rows."""
    real = cells = 0
    for batch in batches:
        teachers = [len(site.teacher_context) + site.end - site.start for one in batch for site in one.sites]
        for lengths in ([len(one.ids) for one in batch], teachers):
            real += sum(lengths)
            cells += len(lengths) * max(lengths, default=0)
    return 1 - real / cells


if __name__ == "__main__":
    main()
