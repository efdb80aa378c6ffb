"""Pairs at the lengths of real sessions: what their store takes, what exports keep and TRL reads, how sides differ.

    python benchmarks/pair_export.py [--sessions FOLDER] [--tokenizer smollm2] [--json PATH]

About a minute of one core. Two SIMULATED teachers answer at every state where the actor erred with the next single
call that the actor itself made later in the session. Tokens are counted with the vocabulary of `--tokenizer` under the
chat template of Qwen3 as TRL ships it. "With the history" is what a pair was until it referred to its trace.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import trl
from transformers import AutoTokenizer
from trl import DPOConfig, SFTConfig

from composer_replication.errors import UsageError
from composer_replication.ingestion import read_traces
from composer_replication.pairs import extract_dpo_pairs
from composer_replication.pairs.card import style_gap
from composer_replication.pairs.export import export_pairs
from composer_replication.records import PreferencePair, TeacherReply, Trace, Usage, canonical_tool_call
from composer_replication.runs import read_records, write_lines
from composer_replication.sites import find_sites
from composer_replication.sites.marking import failed_calls
from composer_replication.training.models.embedded import place_of
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.planning.lengths import TemplateLengths

SAMPLES = Path(__file__).parents[1] / "tests" / "samples"
LIMITS = (None, 1024, 2048, 4096, 8192, 32768)
TRL_DEFAULT = 1024
assert DPOConfig.max_length == SFTConfig.max_length == TRL_DEFAULT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=Path, default=SAMPLES)
    parser.add_argument("--tokenizer", default="smollm2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.sessions, options.tokenizer)
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def measure(sessions: Path, model: str) -> dict[str, Any]:
    traces = list(sample_traces(sessions))
    sites = [site for trace in traces for site in find_sites(trace)]
    wrong = dict.fromkeys((site.trace_id, site.turn) for site in sites if site.fault == "policy")
    known = {trace.trace_id: trace for trace in traces}
    replies = [reply for trace_id, turn in wrong for reply in simulated_replies(known[trace_id], turn)]
    failed = failed_calls(sites)
    found = extract_dpo_pairs(traces, replies, failed_calls=failed)
    lengths = lengths_of(model)
    with tempfile.TemporaryDirectory() as folder:
        store = stored_sizes(found.pairs, known, Path(folder))
        exports = [exported(found.pairs, traces, failed, lengths, limit, Path(folder) / str(limit)) for limit in LIMITS]
    return {
        "simulated": True,
        "tokenizer": model,
        "traces": len(traces),
        "pairs": len(found.pairs),
        "verdicts": dict(found.verdicts),
        "store": store,
        "exports": exports,
        "style": {
            "as_written": style_gap(list(as_written(found.pairs, known))),
            "in_one_style": style_gap(found.pairs),
        },
    }


def sample_traces(sessions: Path) -> Iterator[Trace]:
    for path in sorted(path for path in sessions.rglob("*") if path.is_file()):
        try:
            yield from read_traces(path)
        except UsageError:
            continue


def simulated_replies(trace: Trace, turn: int) -> Iterator[TeacherReply]:
    later = (trace.messages[one.start].get("tool_calls", []) for one in trace.turns[turn + 1 :])
    action = next((canonical_tool_call(calls[0]) for calls in later if len(calls) == 1), None)
    for family in ("simulated-a", "simulated-b") if action else ():
        yield TeacherReply(
            key=f"{family}/{trace.trace_id}/{turn}", state_id=trace.state_id(turn), trace_id=trace.trace_id, turn=turn,
            teacher=family, served_model=None, family=family, action=action, raw="{}", finish_reason="stop",
            usage=Usage(), cost_micros=0, latency_s=0.0, outcome="answered", simulated=True,
        )  # fmt: skip


def lengths_of(model: str) -> TemplateLengths:
    tokenizer = AutoTokenizer.from_pretrained(place_of(model), local_files_only=True)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    return TemplateLengths(ChatTokens(tokenizer), model)


def stored_sizes(pairs: Sequence[PreferencePair], traces: dict[str, Trace], folder: Path) -> dict[str, Any]:
    """Bytes of the records as JSON and compressed, and what a reader keeps in memory."""
    sizes = {}
    for name, with_history in (("with_the_history", True), ("by_reference", False)):
        path = folder / f"{name}.zst"
        lines = [pair.model_dump(mode="json") for pair in pairs]
        if with_history:
            lines = [{**line, "prompt": traces[line["trace_id"]].history(line["turn"])} for line in lines]
        texts = [json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines]
        write_lines(path, texts)
        tracemalloc.start()
        kept = [json.loads(text) for text in texts] if with_history else list(read_records(path, PreferencePair))
        sizes[name] = {
            "json_bytes": sum(map(len, texts)),
            "compressed_bytes": path.stat().st_size,
            "memory_bytes": tracemalloc.get_traced_memory()[0],
        }
        tracemalloc.stop()
        del kept
    return sizes


def exported(
    pairs: Sequence[PreferencePair],
    traces: Sequence[Trace],
    failed: dict[str, set[str]],
    lengths: TemplateLengths,
    max_tokens: int | None,
    folder: Path,
) -> dict[str, Any]:
    done = export_pairs(pairs, traces, "trl", folder, max_tokens=max_tokens, failed_calls=failed, lengths=lengths)
    return {
        "max_tokens": max_tokens,
        "kept": done.rows,
        "lost": dict(done.left_out),
        "windowed": done.windowed,
        "malformed_histories": done.malformed_histories,
        "tokens": {"median": round(median(done.tokens)), "longest": max(done.tokens)},
        "whole_in_trl_default": sum(tokens <= TRL_DEFAULT for tokens in done.tokens),
    }


def as_written(pairs: Sequence[PreferencePair], traces: dict[str, Trace]) -> Iterator[PreferencePair]:
    """With the actor's turn as it stands in the trace."""
    for pair in pairs:
        trace = traces[pair.trace_id]
        yield pair.model_copy(update={"rejected": trace.messages[trace.turns[pair.turn].start]})


if __name__ == "__main__":
    main()
