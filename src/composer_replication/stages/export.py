"""`RUN/pairs/export/FORMAT`: the pairs of a run as a dataset with its card, for other trainers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from composer_replication.config import ModelConfig
from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.pairs.card import dataset_card
from composer_replication.pairs.export import Format, export_pairs
from composer_replication.pairs.rendering import ByCharacters
from composer_replication.records import ErrorSite, PreferencePair, TeacherReply
from composer_replication.runs import Run, write_atomically
from composer_replication.sites.marking import failed_calls

from .pairs import asked_traces
from .policy import model_folder

if TYPE_CHECKING:
    from composer_replication.training.planning.lengths import TemplateLengths

TRL_MAX_LENGTH = 1024
"""Of `DPOConfig`, `KTOConfig` and `SFTConfig` in TRL 1.16: longer rows are cut at their end, or dropped."""


def export(
    run: Run,
    format: Format,
    max_tokens: int | None,
    calls_as_text: bool,
    tokenizer: str | None,
    into: Path | None = None,
) -> dict[str, Any]:
    """`tokenizer` names the model that counts; without one it is the run's own. `into` is for the datasets of a run
    that may not be written."""
    pairs = run.stage("pairs").read(PreferencePair)
    traces = asked_traces(run, pairs)
    counts = _lengths(run, tokenizer, pairs)
    lengths = counts or ByCharacters()
    folder = (into or run.path / "pairs" / "export") / format
    failed = failed_calls(run.stage("sites").stream(ErrorSite))
    done = export_pairs(pairs, traces, format, folder, calls_as_text, max_tokens, failed, lengths)
    card = dataset_card(
        format,
        pairs,
        traces,
        run.stage("replay").read(TeacherReply),
        run.stage("pairs").counts["verdicts"],
        run.stage("ingestion").counts.get("redactions", {}),
        done,
    )
    write_atomically(folder / "README.md", card)
    return {
        "folder": str(folder),
        "pairs": len(pairs),
        "kept": len(done.tokens),
        "lost": dict(done.left_out),
        "rows": done.rows,
        "windowed": done.windowed,
        "malformed_histories": done.malformed_histories,
        "tokens": {"median": round(median(done.tokens)), "longest": max(done.tokens)},
        "over_trl_default": sum(tokens > TRL_MAX_LENGTH for tokens in done.tokens),
        "counted_by": lengths.source,
        "calls_are_unseen": counts is not None and not counts.writes_calls and not calls_as_text,
    }


def _lengths(run: Run, tokenizer: str | None, pairs: Sequence[PreferencePair]) -> TemplateLengths | None:
    """None where the run's own model is not on this machine, or has no words for its sessions."""
    from composer_replication.training.planning.lengths import TemplateLengths, find_chat_tokens

    model, folder = run.config.model, model_folder(run)
    if tokenizer is not None:
        model, folder = ModelConfig(name=tokenizer), Path(tokenizer)
    with open_environment(run.config) as environment:
        tokens = find_chat_tokens(model, folder, environment)
    if tokens is None:
        if tokenizer is not None:
            raise UsageError(f"the tokenizer of {tokenizer} is not on this machine", "give --tokenizer a folder")
        return None
    found = TemplateLengths(tokens, model.name)
    sides = (side for pair in pairs for side in (pair.chosen, pair.rejected))
    return found if tokenizer is not None or all(map(found.knows, sides)) else None
