"""Broken session files, made from real ones by a seed: what crashes, torn writes and two writers leave behind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from tests.samples import sample_bytes

Mutation = Callable[[random.Random, bytes], bytes]
VALUES: tuple[Any, ...] = (
    None, True, -1, 0.5, 10**400, "", "\ud83d", "\x00", "x" * 300, [], {}, [[[[1]]]], {"type": {"type": None}},
    [None, 7, "x"],
)  # fmt: skip

JSON_TEXTS = ("7", "null", "[1, null]", '{"command": [], "path": {"path": null}}')
"""Where a field holds JSON as a string: arguments of calls, whole conversations in tables."""


def flip_bits(rng: random.Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data).replace(b"\n", b" ")


def cut(rng: random.Random, line: bytes) -> bytes:
    return line[: rng.randrange(1, len(line))]


def drop_a_piece(rng: random.Random, line: bytes) -> bytes:
    start = rng.randrange(len(line))
    return line[:start] + line[start + rng.randint(1, 40) :] or b"x"


def nest_deeply(rng: random.Random, line: bytes) -> bytes:
    depth = rng.choice((100, 1_000, 20_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return b'{"type":"user","sessionId":"s","message":' + opening * depth + b"1" + closing * depth + b"}"


def not_a_number(rng: random.Random, line: bytes) -> bytes:
    value = rng.choice((b"NaN", b"Infinity", b"-Infinity", b"1" * 5000, b"1e99999", b"-0", b"01", b"0x10"))
    return line.rstrip(b"}\n ") + b',"n":' + value + b"}"


def half_a_surrogate(rng: random.Random, line: bytes) -> bytes:
    at = line.find(b'"', rng.randrange(len(line)))
    return line[: at + 1] + rng.choice((rb"\ud83d", rb"\udc00\ud800", rb"\uD83D\u0041")) + line[at + 1 :]


def with_nul(rng: random.Random, line: bytes) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + rng.choice((b"\x00", b"\\u0000", b"\xff", b"\xc3", b"\xed\xa0\x80")) + line[at:]


def with_byte_order_mark(rng: random.Random, line: bytes) -> bytes:
    return b"\xef\xbb\xbf" + line


def with_carriage_return(rng: random.Random, line: bytes) -> bytes:
    return line + b"\r"


def twice_on_one_line(rng: random.Random, line: bytes) -> bytes:
    return line + line


def other_value(rng: random.Random, line: bytes) -> bytes:
    """Any field may hold anything."""
    try:
        place: Any = json.loads(line)
        root = place
        for _ in range(rng.randint(1, 4)):
            keys: Sequence[Any] = list(place) if isinstance(place, dict) else range(len(place))
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            place[key] = rng.choice(VALUES)
            break
        return json.dumps(root).encode()
    except (ValueError, IndexError, TypeError, RecursionError):
        return line


def untouched(rng: random.Random, line: bytes) -> bytes:
    return line


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, cut, drop_a_piece, not_a_number, half_a_surrogate, with_nul, with_byte_order_mark, with_carriage_return,
    twice_on_one_line, other_value, other_value, other_value, untouched, untouched,
)  # fmt: skip
DEEP_EVERY = 500


def fuzzed_lines(seed: int, lines: Sequence[bytes], number: int) -> Iterator[bytes]:
    """Lines without their newline. Two writers at once show as pieces of one line inside another."""
    rng = random.Random(seed)
    for count in range(number):
        line = rng.choice(lines)
        if count % DEEP_EVERY == DEEP_EVERY - 1:
            yield nest_deeply(rng, line)
        elif rng.random() < 0.02:
            other = rng.choice(lines)
            at = rng.randrange(len(line))
            yield from (line[:at] + other, line[at:] or b"x")
        else:
            yield rng.choice(MUTATIONS)(rng, line)


class Sample(NamedTuple):
    """A session file as JSON values, small enough to be read a thousand times; where it is not JSON, as lines."""

    name: str
    values: list[Any]
    suffix: str

    def encoded(self, values: Sequence[Any]) -> bytes:
        match self.suffix:
            case ".json":
                return json.dumps(values[0]).encode()
            case ".md":
                return "\n".join(map(str, values)).encode("utf-8", "replace")
            case _:
                return "".join(json.dumps(value) + "\n" for value in values).encode()


def small_sample(path: Path, records: int, items: int, chars: int) -> Sample:
    """At most this many records of a log, items of a list inside, and characters of a text."""
    name, data = path.name.removesuffix(".zst"), sample_bytes(path)
    if name.endswith(".md"):
        return Sample(name, data.decode().splitlines()[:records], ".md")
    try:
        return Sample(name, [shortened(json.loads(data), items, chars)], ".json")
    except ValueError:
        values = [json.loads(line) for line in data.decode("utf-8-sig").splitlines()[:records] if line.strip()]
        return Sample(name, [shortened(value, items, chars) for value in values], ".jsonl")


def shortened(value: Any, items: int, chars: int) -> Any:
    if isinstance(value, dict):
        return {key: shortened(item, items, chars) for key, item in value.items()}
    if isinstance(value, list):
        return [shortened(item, items, chars) for item in value[:items]]
    if isinstance(value, str) and (inner := json_inside(value)) is not None:
        return json.dumps(shortened(inner, items, chars))
    return value[:chars] if isinstance(value, str) else value


def json_inside(text: str) -> Any:
    """The object or list that a string holds as JSON, else None."""
    try:
        return json.loads(text) if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def with_other_values(rng: random.Random, values: Sequence[Any], number: int) -> list[Any]:
    """A copy in which this many places, at any depth, hold something else."""
    root = [json.loads(json.dumps(value)) for value in values]
    for _ in range(number):
        at = rng.randrange(len(root))
        places = [(root, at), *_places(root[at])]
        holder, key = rng.choice(places)
        holder[key] = deepcopy(rng.choice((*VALUES, *JSON_TEXTS)))
    return root


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every field and item inside a value, as what holds it and under which key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from _places(item)
