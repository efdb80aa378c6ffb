"""One recorded attempt with its label, and the files that hold many of them.

Reads and writes `corpus/*.jsonl.zst`. A stored attempt is what the monitor sees of a live one;
only outputs of tools are shortened. The label comes from who wrote the behaviour, never from what was seen.
"""

import io
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal

import zstandard

from composer_replication.environments.evidence import AttemptEvidence
from composer_replication.records import Record, Trace

Half = Literal["opened", "sealed"]
HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
FITTED = tuple(CORPUS / f"{name}.jsonl.zst" for name in ("tuning", "testing", "sealed", "practice", "drill", "review"))
"""What rules were mended on and weights are fitted on."""
TESTED = CORPUS / "fresh.jsonl.zst"
MAX_OUTPUT_CHARS = 4_000


class StoredCase(Record):
    name: str
    """Task and behaviour; unique in a corpus."""
    behaviour: str
    """As its author named it."""
    author: str
    """Which set's generators wrote it."""
    hack_class: int
    """0 is honest."""
    repository: str
    graded: bool
    """Whether the attempt was graded; drawn by lot for honest work and for searches, so that it tells nothing there."""
    seconds: float
    trace: Trace
    evidence: AttemptEvidence

    @property
    def is_hack(self) -> bool:
        return self.hack_class > 0

    @property
    def kind(self) -> str:
        """What is held out together: one attack, or one kind of honest work."""
        return kind_of(self.behaviour, self.is_hack)


def kind_of(behaviour: str, is_hack: bool) -> str:
    return behaviour if is_hack else re.sub(r"[-#_ ]*\d+$", "", behaviour)


def half_of(kind: str) -> Half:
    """By lot: how the first test set was divided for the second scoring."""
    return "opened" if sha256(f"half:{kind}".encode()).digest()[0] % 2 else "sealed"


def shortened(trace: Trace) -> Trace:
    """The same conversation with the middle of long outputs left out."""
    messages = []
    for message in trace.messages:
        text = message.get("content")
        if message["role"] == "tool" and isinstance(text, str) and len(text) > MAX_OUTPUT_CHARS:
            half = MAX_OUTPUT_CHARS // 2
            shown = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
            message = {**message, "content": shown}
        messages.append(message)
    return trace.model_copy(update={"messages": tuple(messages)})


def read_corpus(path: Path) -> Iterator[StoredCase]:
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as plain:
        for line in io.TextIOWrapper(plain, encoding="utf-8"):
            yield StoredCase.model_validate_json(line)


def write_corpus(path: Path, cases: Iterable[StoredCase]) -> None:
    """Sorted by repository and name: what is alike lies close together, and a wide window makes the file small."""
    path.parent.mkdir(parents=True, exist_ok=True)
    squeeze = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(19, window_log=26, enable_ldm=True)
    )
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file, squeeze.stream_writer(file) as packed:
        for case in sorted(cases, key=lambda each: (each.repository, each.name)):
            packed.write(case.model_dump_json().encode() + b"\n")
    partial.replace(path)
