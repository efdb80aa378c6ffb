"""Speed of the redactor on the texts of real sessions, what it finds there, and what it takes for a secret in sources.

    python benchmarks/redaction.py SESSION.jsonl [SESSION.jsonl ...]
    python benchmarks/redaction.py --source [FOLDER]

Reads JSON or JSON-lines files of any agent; strings that are no ids, names or dates are texts; each counts once.
Prints MB of UTF-8 text per second of processor time on one core (best of `--rounds`) and replacements by kind, one new
`Redactor` per file. With `--source` it reads the Python files of a folder, by default those of the standard library,
and prints how many of their lines were changed, by kind. E-mail addresses of authors are addresses and no false alarm,
so they are counted apart. Writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from composer_replication.redaction import Redactor

NOT_TEXT = frozenset(
    """
    signature data encrypted_content id type role name model version cwd gitbranch timestamp subtype status level slug
    usertype stop_reason service_tier media_type operation source permissionmode agent snapshot usage
    """.split()
)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key.lower() not in NOT_TEXT and not key.lower().endswith(("id", "ids", "at")):
                yield from strings(item)


def texts(path: Path) -> list[str]:
    raw = path.read_text(encoding="utf-8", errors="replace")
    try:
        documents: list[Any] = [json.loads(raw)]
    except ValueError:
        documents = []
        for line in raw.splitlines():
            try:
                documents.append(json.loads(line))
            except ValueError:
                documents.append(line)
    return list(dict.fromkeys(text for document in documents for text in strings(document)))


def redact(files: list[list[str]]) -> tuple[Counter[str], Counter[str]]:
    counts: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    for file_texts in files:
        redactor = Redactor()
        for text in file_texts:
            redactor.text(text)
        counts += redactor.counts
        reported += redactor.reported
    return counts, reported


def measure_sources(folder: Path) -> None:
    """A replacement is one changed line, but for a key, which is as many as it had."""
    lines = 0
    kinds: Counter[str] = Counter()
    paths = [path for path in sorted(folder.rglob("*.py")) if "site-packages" not in path.parts]
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        redactor = Redactor(environ={})
        redacted = redactor.text(text)
        lines += text.count("\n")
        kinds += redactor.counts
        if lost := text.count("\n") - redacted.count("\n"):
            kinds["lines inside a replaced key"] += lost
    addresses = kinds.pop("email", 0)
    changed = sum(kinds.values())
    print(f"{len(paths)} files, {lines} lines: {changed} replaced, {100 * changed / lines:.4f} % of lines")
    print(f"beside {addresses} e-mail addresses")
    for kind, count in kinds.most_common():
        print(f"  {count:8d}  {kind}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--source", nargs="?", type=Path, const=Path(sysconfig.get_paths()["stdlib"]), metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.source:
        measure_sources(arguments.source)
        return
    if not arguments.files:
        parser.error("no session files")

    started = time.process_time()
    Redactor().text("key")
    print(f"tables built in {time.process_time() - started:.3f} s")

    files = [texts(path) for path in arguments.files]
    size = sum(len(text.encode("utf-8", "surrogatepass")) for file_texts in files for text in file_texts)
    best = float("inf")
    counts, reported = Counter[str](), Counter[str]()
    for _ in range(arguments.rounds):
        started = time.process_time()
        counts, reported = redact(files)
        best = min(best, time.process_time() - started)
    print(f"{len(files)} files, {sum(map(len, files))} texts, {size / 1e6:.2f} MB: {size / 1e6 / best:.1f} MB/s")
    for title, found in (("replaced", counts), ("reported and left", reported)):
        print(f"{title}:")
        for kind, count in found.most_common():
            print(f"  {count:8d}  {kind}")


if __name__ == "__main__":
    main()
