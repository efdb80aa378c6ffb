"""Edges of the paid client that mutants showed to be untested: odd encodings, odd usage, queues under trouble."""

import gzip
import zlib

import pytest

from composer_replication.llm.addresses import host_of, is_loopback
from composer_replication.llm.anthropic import chat_completion
from composer_replication.llm.cache_prices import Rates, with_cost
from composer_replication.llm.lane import MAX_COOLDOWN_S, OWN_COOLDOWN_S, PROBE_INTERVAL_S, TROUBLES_TO_OPEN
from composer_replication.llm.outgoing import encoded
from composer_replication.llm.transport import _plain
from tests.unit.test_http_answers import lane, trouble

LIMIT = 1000


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_packed_answer_is_unpacked_up_to_the_limit(pack):
    encoding = "gzip" if pack is gzip.compress else "deflate"
    assert _plain(pack(b"x" * LIMIT), encoding, LIMIT) == b"x" * LIMIT
    with pytest.raises(ValueError, match="too large"):
        _plain(pack(b"x" * (LIMIT + 1)), encoding, LIMIT)
    with pytest.raises(ValueError, match="too large"):
        _plain(pack(b"x" * 10_000_000), encoding, LIMIT)


def test_an_encoding_that_was_not_asked_for_is_refused():
    assert _plain(b"plain", "", LIMIT) == _plain(b"plain", "identity", LIMIT) == b"plain"
    with pytest.raises(ValueError, match="not asked for"):
        _plain(b"x", "br", LIMIT)


@pytest.mark.parametrize("address", ["http://[", "http://[::1", "no address", ""])
def test_an_address_without_a_host_is_nowhere(address):
    assert host_of(address) == ""
    assert is_loopback(address) is False


def test_anthropics_answer_keeps_its_letters_and_counts_what_can_be_counted():
    blocks = [
        {"type": "text", "text": "a"},
        "no block",
        {"type": "tool_use", "id": "t", "name": "f", "input": {"path": "é"}},
    ]
    usage = {"input_tokens": 5, "cache_read_input_tokens": "many", "output_tokens": 2}
    made = chat_completion({"type": "message", "content": blocks, "stop_reason": "tool_use", "usage": usage})
    (choice,) = made["choices"]
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"path": "é"}'}
    assert (choice["index"], choice["message"]["content"]) == (0, "a")
    assert (made["usage"]["prompt_tokens"], made["usage"]["completion_tokens"]) == (5, 2)


@pytest.mark.parametrize("told", [None, {}])
def test_an_error_of_anthropic_without_words_is_still_one(told):
    assert chat_completion({"type": "error", "error": told})["error"] == {"message": "error"}
    assert chat_completion({"type": "error", "error": {"message": "m"}})["error"] == {"message": "m"}


def test_more_tokens_from_the_cache_than_asked_are_not_believed():
    def cost(prompt, read, written):
        details = {"cached_tokens": read, "cache_write_tokens": written}
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details}
        return with_cost({"usage": usage}, Rates(1_000_000, 2_000_000, 100_000, 3_000_000), 40)["usage"].get("cost")

    assert cost(10, 6, 4) == pytest.approx((6 * 0.1 + 4 * 3 + 2) / 1e6)
    assert cost(10, 6, 5) is None


def test_calls_that_were_put_off_come_before_new_ones_when_their_time_has_come():
    queue = lane(calls=2)
    first = queue.take(0.0)
    queue.in_flight -= 1
    queue.again(first, 5.0)
    assert queue.take(4.9) is not first
    queue.in_flight -= 1
    assert queue.pause_s(4.0) == pytest.approx(1.0)
    assert queue.take(5.0) is first


def test_waits_double_with_each_complaint_and_end_at_a_limit():
    queue, now, waits = lane(), 0.0, []
    for _ in range(14):
        queue.troubled(trouble(429), now)
        waits.append(queue.pause_s(now))
        now += waits[-1]
    assert max(waits) <= 1.1 * MAX_COOLDOWN_S
    assert waits[3] > 2 * waits[0]
    assert all(wait <= 1.1 * OWN_COOLDOWN_S * 2**number for number, wait in enumerate(waits))
    assert queue.troubles == 0


def test_probes_of_a_dead_teacher_grow_rarer():
    queue = lane()
    queue.succeeded()
    for _ in range(TROUBLES_TO_OPEN - 1):
        queue.troubled(trouble(502), 0.0)
    assert not queue.is_probing
    queue.troubled(trouble(502), 0.0)
    assert PROBE_INTERVAL_S <= queue.pause_s(0.0) <= 1.1 * PROBE_INTERVAL_S
    queue.troubled(trouble(502), 0.0)
    assert 2 * PROBE_INTERVAL_S <= queue.pause_s(0.0) <= 2.2 * PROBE_INTERVAL_S


def test_half_a_character_goes_out_as_a_question_mark():
    assert encoded({"é": "\ud83d!"}) == '{"é": "?!"}'.encode()
