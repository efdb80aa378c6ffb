"""Edges of the paid client that mutants showed to be untested: odd encodings, odd usage, queues under trouble."""

import gzip
import zlib

import pytest

from composer_replication.llm.addresses import host_of, is_loopback
from composer_replication.llm.anthropic import chat_completion
from composer_replication.llm.asking import AskTally
from composer_replication.llm.cache_prices import Rates, with_cost
from composer_replication.llm.calls import BACKOFF_S, MAX_BACKOFF_S, Calls, Live
from composer_replication.llm.chat import json_request
from composer_replication.llm.client import Attempted
from composer_replication.llm.http_answers import AnswerVerdict
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


def test_what_all_calls_will_cost_is_told_from_the_first_on():
    assert Live(total=10, charged_micros=0).projected_micros == 0
    assert Live(total=10, done=1, charged_micros=5).projected_micros == 50
    assert Live(total=10, done=3, failed=1, charged_micros=5).projected_micros == 12


def test_the_cost_of_a_site_is_that_of_all_questions_shared():
    assert AskTally().counts()["micros_per_site"] == 0
    assert AskTally(sites=4, site_micros={"a": 5, "b": 5}).counts()["micros_per_site"] == 2.5


def test_a_question_for_json_is_asked_without_chance():
    asked = json_request("m", "system", "user", answer="verdict", schema={}, max_tokens=9)
    assert (asked["temperature"], asked["response_format"]["json_schema"]["strict"]) == (0, True)


def calls_of(queue, shown) -> Calls:
    return Calls([queue], None, None, 20, shown.append)


def test_a_call_that_failed_waits_twice_as_long_each_time():
    queue, shown = lane(calls=1), []
    calls, job = calls_of(queue, shown), queue.take(0.0)
    for number in range(8):
        calls._failed(queue, job, trouble(500), 100.0)
        [(at, _, _)] = queue._delayed
        most = min(MAX_BACKOFF_S, BACKOFF_S * 2**number)
        assert most / 2 <= at - 100.0 <= most
        assert queue.take(at) is job
        assert len(shown) == number + 1
    assert (calls.live.errors, calls.failures) == ({"HTTP 500": 8}, {})


def test_a_question_with_three_kinds_of_useless_answers_is_given_up_with_all_of_them():
    queue = lane(calls=2)
    calls, job, other = calls_of(queue, []), queue.take(0.0), queue.take(0.0)
    for reason in ("no message", "bad JSON", "bad JSON", "empty choices"):
        assert calls.failures == {}
        useless = AnswerVerdict("retry_soon", "failed", reason, unusable=True)
        calls._failed(queue, job, Attempted("retry_soon", useless), 0.0)
    calls._failed(queue, other, Attempted("retry_never", AnswerVerdict("retry_never", "refused", "HTTP 400")), 0.0)
    assert calls.failures == {"0": "poison: bad JSON, empty choices, no message", "1": "HTTP 400"}
    assert calls.live.failed == 2
