"""One secret in every place of every sample file: none reaches a trace, a count, a quarantine entry, a site or a hint.

A place is a path into the records of a format, and each has a secret of its own. All places of a file are planted at
once, but for those that readers need to know a record by; then each place that no earlier file had is planted alone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from composer_replication.errors import UsageError
from composer_replication.hints import write_hints
from composer_replication.ingestion import Ingestion, find_inputs
from composer_replication.records import Trace
from composer_replication.sites import find_sites
from tests.canaries import ALNUM, Maker
from tests.faults.fuzzing import Sample, json_inside, small_sample
from tests.ingested import stored_lines
from tests.samples import SAMPLES, sample_files

FOLDERS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
RECORDS, ITEMS, CHARS = 40, 8, 120
# Ids of tool calls tie results to calls and are drawn at random by the provider's server: they are kept as they are.
CALL_IDS = frozenset({"id", "tool_call_id", "call_id"})
# Readers tell records apart by these, and Aider's files by their first line.
STRUCTURE = ("type", "role", "kind", "class_", "source", "operation", "action", "observation", "# ")
Plant = Callable[[Any, str, Callable[[str], bool]], Any]


@cache
def secret_for(place: str) -> str:
    """Of a known shape, and assembled here so that no complete key stands in the repository."""
    return "gh" + "p_" + Maker(zlib.crc32(place.encode())).chars(ALNUM, 36)


def in_strings(value: Any, place: str, wanted: Callable[[str], bool]) -> Any:
    """A secret behind every string; JSON inside a string stays JSON."""
    if isinstance(value, dict):
        return {key: in_strings(item, f"{place}.{key}", wanted) for key, item in value.items()}
    if isinstance(value, list):
        return [in_strings(item, place, wanted) for item in value]
    if not isinstance(value, str):
        return value
    if (inner := json_inside(value)) is not None:
        return json.dumps(in_strings(inner, place, wanted))
    return f"{value} {secret_for(place)}" if wanted(place) else value


def in_keys(value: Any, place: str, wanted: Callable[[str], bool]) -> Any:
    """One more field in every object, named by a secret and worth what its first neighbour is."""
    if isinstance(value, dict):
        fields = {key: in_keys(item, f"{place}.{key}", wanted) for key, item in value.items()}
        return fields | ({secret_for(place): next(iter(value.values()), "x")} if wanted(place) else {})
    if isinstance(value, list):
        return [in_keys(item, place, wanted) for item in value]
    if isinstance(value, str) and (inner := json_inside(value)) is not None:
        return json.dumps(in_keys(inner, place, wanted))
    return value


def places(sample: Sample, plant: Plant) -> list[str]:
    seen: dict[str, None] = {}
    for value in sample.values:
        plant(value, start_of(value), lambda place: bool(seen.setdefault(place)))
    return list(seen)


def contents(every: list[str]) -> list[str]:
    return [place for place in every if place and not place.endswith(STRUCTURE)]


def start_of(value: Any) -> str:
    """Records of one type are like each other; in a log that is not JSON, lines with the same mark are."""
    if isinstance(value, str):
        return value[:2]
    kind = value.get("type", value.get("kind")) if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


def planted(sample: Sample, plant: Plant, only: Iterable[str]) -> bytes:
    chosen = set(only)
    return sample.encoded([plant(value, start_of(value), chosen.__contains__) for value in sample.values])


def everything_from(folder: Path, redact: bool = True) -> str:
    """All that the stages before a model is asked would keep, but for the ids of calls."""
    try:
        reading = Ingestion(find_inputs([folder]), redact, workers=1)
    except UsageError as error:
        return str(error).replace(str(folder), "")
    lines = stored_lines(reading)
    traces = {trace.trace_id: trace for trace in map(Trace.model_validate_json, lines)}
    sites = [site for trace in traces.values() for site in find_sites(trace)]
    hints = write_hints(traces, sites, 96)
    kept: list[Any] = [
        [json.loads(line) for line in lines],
        [site.model_dump() for site in sites],
        [hint.model_dump() for hint in hints.hints],
        [hints.counts(), reading.counts(), reading.hashes, [vars(item) for item in reading.quarantined]],
    ]
    return json.dumps(list(map(without_call_ids, kept)))


def without_call_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_call_ids(item) for key, item in value.items() if key not in CALL_IDS}
    return list(map(without_call_ids, value)) if isinstance(value, list | tuple) else value


def leaks(text: str, sought: Iterable[str]) -> list[str]:
    """Places whose secret is in the text. A piece of a secret is a leak too."""
    return [place for place in sought if secret_for(place)[4:16] in text or secret_for(place)[-12:] in text]


def samples(folder: str) -> Iterator[Sample]:
    return (small_sample(path, RECORDS, ITEMS, CHARS) for path in sample_files(folder))


@pytest.mark.parametrize("plant", [in_strings, in_keys])
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_secret_in_any_place_of_a_file_stays_there(tmp_path: Path, folder: str, plant: Plant) -> None:
    done: set[str] = set()
    found: set[str] = set()
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for sample in samples(folder):
        every = places(sample, plant)
        new = [place for place in every if place not in done]
        done.update(new)
        for batch in (contents(every), *([place] for place in new)):
            (inputs / sample.name).write_bytes(planted(sample, plant, batch))
            found.update(leaks(everything_from(inputs), batch))
        (inputs / sample.name).unlink()
    assert not sorted(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_without_redaction_secrets_are_found(tmp_path: Path, folder: str) -> None:
    """The search above can find what it looks for."""
    sought: set[str] = set()
    for sample in samples(folder):
        every = contents(places(sample, in_strings))
        sought.update(every)
        (tmp_path / sample.name).write_bytes(planted(sample, in_strings, every))
    found = leaks(everything_from(tmp_path, redact=False), sought)
    assert len(found) > 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_secret_in_the_name_of_a_file_stays_there(tmp_path: Path, folder: str) -> None:
    inputs = tmp_path / f"of {secret_for('folder')}"
    inputs.mkdir()
    for number, sample in enumerate(samples(folder)):
        (inputs / f"{number} {secret_for('name')} {sample.name}").write_bytes(sample.encoded(sample.values))
        (inputs / f"{number}-{secret_for('name')}{Path(sample.name).suffix}").write_bytes(sample.encoded(sample.values))
    (inputs / f"{secret_for('name')}.jsonl").write_bytes(b"\0")
    found = leaks(everything_from(inputs), ["folder", "name"])
    assert not found


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_secret_in_a_broken_line_stays_there(tmp_path: Path, folder: str) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    secret = secret_for("line").encode()
    breaks = (b"%s{", b'{"%s": ', b'{"type": "%s", "sessionId": 1, ', b'{"type": "user", "%s": tru, ', b'"%s"\n')
    for number, sample in enumerate(samples(folder)):
        good = sample.encoded(sample.values).splitlines(keepends=True)
        broken = b"".join(line[:1] + text % secret + line[1:] + line for text in breaks for line in good[:9])
        (inputs / f"{number}.{sample.name}").write_bytes(good[0] + broken + b"".join(good))
    found = leaks(everything_from(inputs), ["line"])
    assert not found
