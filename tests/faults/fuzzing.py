"""Broken session files, made from real ones by a seed: what crashes, torn writes and two writers leave behind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]
VALUES: tuple[Any, ...] = (
    None, True, -1, 0.5, 10**400, "", "\ud83d", "\x00", "x" * 300, [], {}, [[[[1]]]], {"type": {"type": None}},
    [None, 7, "x"],
)  # fmt: skip


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
