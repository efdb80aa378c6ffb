"""What answers mean, what they cost, how long to wait, and how a queue behaves."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from composer_replication.llm.cache_prices import Rates, with_cost
from composer_replication.llm.client import Attempted, Endpoint, PaidCall
from composer_replication.llm.http_answers import AnswerVerdict, judge, retry_after_s
from composer_replication.llm.lane import NOT_SERVED, PARK_AFTER_S, START_IN_FLIGHT, TROUBLES_TO_OPEN, Lane
from composer_replication.llm.outgoing import priced, routed
from composer_replication.llm.pricing import Charge, Prices, charge, learned_prices, worst_micros
from composer_replication.llm.transport import Response
from composer_replication.records import Usage

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5), ("0", 0), ("007", 7), ("1.5", 1.5), (" 3 ", 3), ("+4", 4), ("-5", 0), ("1e3", 1000), ("1e99", 86_400),
        ("inf", 86_400), ("999999999999", 86_400), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("1.5s", 1.5),
        ("Sun, 15 Nov 2026 12:00:10 GMT", 10), ("Sun, 15 Nov 2026 11:00:00 GMT", 0), ("15 Nov 2026 12:01:00 +0000", 60),
        ("Sun, 15 Nov 2026 14:00:10 +0200", 10), ("2026-11-15T12:00:20Z", 20), ("2026-11-15T12:00:20", 20),
        ("2026-11-15T13:00:20+01:00", 20), ("1999-01-01T00:00:00Z", 0), ("9999-12-31T23:59:59Z", 86_400),
        (None, None), ("", None), ("soon", None), ("nan", None), ("m", None), ("Sun, 99 Nov 2026", None),
        ("1" * 100, None),
    ],
)  # fmt: skip
def test_retry_after(value, seconds):
    got = retry_after_s(value, NOW)
    assert got == seconds if seconds is None else got == pytest.approx(seconds)


def body(**fields) -> bytes:
    return orjson.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], **fields})


@pytest.mark.parametrize(
    ("response", "action", "state", "unusable"),
    [
        (Response(200, body()), "done", "settled", False),
        (Response(200, body(choices=[{"message": {"content": None}}])), "done", "settled", False),
        (Response(200, body(choices=[{"message": {}, "finish_reason": "length"}])), "done", "settled", False),
        (Response(200, body()[:-9]), "retry_soon", "in_doubt", True),
        (Response(200, b""), "retry_soon", "in_doubt", True),
        (Response(200, b"[1]"), "retry_soon", "in_doubt", True),
        (Response(200, b'{"x": "\xff"}'), "retry_soon", "in_doubt", True),
        (Response(200, b"[" * 100_000), "retry_soon", "in_doubt", True),
        (Response(200, body(choices=[])), "retry_soon", "failed", True),
        (Response(200, body(choices=None)), "retry_soon", "failed", True),
        (Response(200, body(choices=[3])), "retry_soon", "failed", True),
        (Response(200, body(choices=[{"text": "x"}])), "retry_soon", "failed", True),
        (Response(200, body(error={"code": 502})), "retry_soon", "failed", True),
        (Response(200, body(error="bad")), "retry_soon", "failed", True),
        (Response(200, body(error={"code": "x"})), "retry_soon", "failed", True),
        (Response(200, body(error={"code": 429})), "retry_soon", "failed", False),
        (Response(200, body(error={"code": 402})), "stop_key", "failed", True),
        (Response(200, body(error={"code": 403})), "retry_never", "failed", True),
        (Response(200, body(choices=[{"error": {"code": 500}, "message": {}}])), "retry_soon", "failed", True),
        (Response(400, b""), "retry_never", "refused", False),
        (Response(401, b""), "stop_key", "refused", False),
        (Response(402, b""), "stop_key", "refused", False),
        (Response(403, b""), "retry_never", "refused", False),
        (Response(404, b""), "retry_never", "refused", False),
        (Response(302, b""), "retry_never", "refused", False),
        (Response(408, b""), "retry_soon", "in_doubt", False),
        (Response(409, b""), "retry_soon", "refused", False),
        (Response(429, b""), "retry_soon", "refused", False),
        (Response(500, b""), "retry_soon", "in_doubt", False),
        (Response(502, b""), "retry_soon", "in_doubt", False),
        (Response(503, b""), "retry_soon", "refused", False),
        (Response(504, b""), "retry_soon", "in_doubt", False),
        (Response(529, b""), "retry_soon", "refused", False),
    ],
)
def test_what_an_answer_means(response, action, state, unusable):
    verdict = judge(response)
    assert (verdict.action, verdict.state, verdict.unusable) == (action, state, unusable)


PRICES = Prices(1_000_000, 2_000_000)


def told(**usage) -> Charge:
    return charge({"usage": usage}, PRICES, 1000)


@pytest.mark.parametrize(
    ("usage", "micros", "exact"),
    [
        ({"cost": 0.000123}, 123, True),
        ({"cost": 0.00012301}, 124, True),
        ({"prompt_tokens": 100, "completion_tokens": 50}, 200, True),
        ({"prompt_tokens": 100, "completion_tokens": 50, "cost": 0.00015}, 150, True),
        ({"cost": 0.0015}, 1500, True),
        ({"cost": 0}, 1000, False),
        ({"cost": -1}, 1000, False),
        ({"cost": 1e30}, 1000, False),
        ({"cost": float("nan")}, 1000, False),
        ({"cost": "free"}, 1000, False),
        ({"cost": True}, 1000, False),
        ({"cost": 0.5}, 1000, False),
        ({"prompt_tokens": 0, "completion_tokens": 50}, 1000, False),
        ({"prompt_tokens": 1 << 50}, 1000, False),
        ({}, 1000, False),
    ],
)
def test_what_an_answer_cost(usage, micros, exact):
    assert told(**usage)[:2] == (micros, exact)


@pytest.mark.parametrize(
    ("usage", "micros", "exact"),
    [
        ({"cost": 0.000019, "cost_details": {"upstream_inference_cost": 0.00038}}, 399, True),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.00038}}, 380, True),
        ({"cost": 0.00038, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.00038}}, 380, True),
        ({"cost": 0.00038, "cost_details": {"upstream_inference_cost": None}}, 380, True),
        ({"cost": 0.00038, "cost_details": 3}, 380, True),
        ({"cost": 0.00038, "cost_details": {"upstream_inference_cost": -1}}, 1000, False),
    ],
)
def test_what_the_provider_charges_ones_own_key_is_added(usage, micros, exact):
    assert told(**usage)[:2] == (micros, exact)


@pytest.mark.parametrize(
    ("prompt_tokens", "prompt_bytes", "micros", "exact"),
    [(1, 60_000, 99_999, False), (900, 60_000, 99_999, False), (15_000, 60_000, 15_200, True), (3, 12, 203, True)],
)
def test_a_usage_that_cannot_be_is_charged_by_our_own_count(prompt_tokens, prompt_bytes, micros, exact):
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 100}
    for told_usage in (usage, {**usage, "prompt_tokens_details": {"cached_tokens": 0}}):
        rates = Rates(1_000_000, 2_000_000, 100_000, 1_000_000)
        answer = with_cost({"usage": told_usage}, rates, prompt_bytes)
        assert charge(answer, PRICES, 99_999, prompt_bytes)[:2] == (micros, exact)


def test_a_date_to_wait_for_is_read_by_the_servers_clock():
    """It is ten minutes ahead of ours, or a year behind."""
    for now in ("Sun, 15 Nov 2026 12:10:00 GMT", "Sat, 15 Nov 2025 12:00:00 GMT"):
        later = now.replace(":00 GMT", ":20 GMT")
        assert judge(Response(429, b"", later, date=now)).retry_after_s == 20
    assert judge(Response(429, b"", "7", date="Sun, 15 Nov 2026 12:10:00 GMT")).retry_after_s == 7
    assert judge(Response(429, b"", "Fri, 01 Jan 1999 00:00:00 GMT", date="nonsense")).retry_after_s == 0


def test_an_answer_without_usage_costs_its_worst_case():
    for answer in ({}, {"usage": None}, {"usage": 3}):
        assert charge(answer, PRICES, 1000)[:2] == (1000, False)


def test_a_free_call_is_charged_what_it_says():
    assert charge({"usage": {"cost": 0.5}}, None, 0)[:2] == (500_000, True)
    assert charge({}, Prices(0, 0), 0)[:2] == (0, True)


def test_the_worst_case_is_never_less_than_what_the_tokens_cost():
    assert worst_micros(PRICES, 1000, 50) == 1000 + 1024 + 100
    assert worst_micros(Prices(1, 1), 1, 1) == 1
    assert worst_micros(Prices(0, 0), 10**9, 10**9) == 0


def test_a_learned_price_covers_the_answer_it_was_learned_from():
    usage = Usage(prompt_tokens=90, completion_tokens=10)
    prices = learned_prices(777, usage)
    assert worst_micros(prices, 90, 10) >= 777


def test_only_openrouter_is_told_who_may_serve():
    request = {"model": "m", "messages": []}
    assert routed(request, "http://127.0.0.1:8000/v1") is request
    assert priced(request, "http://127.0.0.1:8000/v1", PRICES) is request
    asked = routed(request, "https://openrouter.ai/api/v1")
    assert asked["provider"] == {"data_collection": "deny", "enforce_distillable_text": True}
    sent = priced(asked, "https://openrouter.ai/api/v1", Prices(150_000, 600_000))
    assert sent["provider"] == {**asked["provider"], "max_price": {"prompt": 0.15, "completion": 0.6}}
    assert "max_price" not in asked["provider"]


def lane(calls: int = 100, most: int = 64, **fields) -> Lane:
    made = Lane(Endpoint("m", "http://127.0.0.1:9"), most, **fields)
    made.add(PaidCall(str(number), 10, 10, dict) for number in range(calls))
    return made


def trouble(status: int = 500, retry_after_s: float | None = None) -> Attempted:
    overload = status in (429, 503, 529)
    verdict = AnswerVerdict("retry_soon", "refused", f"HTTP {status}", retry_after_s, overload=overload)
    return Attempted("retry_soon", verdict)


def test_a_queue_grows_until_the_teacher_complains():
    queue = lane(most=20)
    assert queue.limit == START_IN_FLIGHT
    for _ in range(100):
        queue.succeeded()
    assert queue.limit == 20
    queue.troubled(trouble(429), 10.0)
    assert queue.limit == 16
    queue.troubled(trouble(429), 10.5)
    assert queue.limit == 16
    queue.troubled(trouble(429), 12.0)
    assert queue.limit == 12
    for _ in range(25):
        queue.succeeded()
    assert queue.limit == 14


def test_at_most_the_limit_is_in_flight():
    queue = lane(calls=10, most=3)
    for _ in range(3):
        assert queue.pause_s(0.0) == 0
        queue.take(0.0)
    assert queue.pause_s(0.0) is None
    queue.in_flight -= 1
    assert queue.pause_s(0.0) == 0


@pytest.mark.parametrize("seconds", [0.5, 5.0, 899.0])
def test_nothing_starts_inside_a_window(seconds):
    queue = lane()
    queue.troubled(trouble(429, seconds), 100.0)
    assert queue.parked is None
    assert seconds <= queue.pause_s(100.0) <= seconds * 1.1 + 0.001
    assert queue.pause_s(100.0 + seconds * 1.11) == 0


def test_a_long_window_parks_the_teacher():
    queue = lane()
    queue.troubled(trouble(429, PARK_AFTER_S + 1), 0.0)
    assert queue.parked == "it asks to wait 15 minutes"


def test_a_teacher_that_keeps_complaining_is_asked_by_one_call_at_a_time():
    queue = lane()
    for second in range(20):
        queue.troubled(trouble(429), 2.0 * second)
    assert queue.limit == 1
    queue.succeeded()
    assert queue.limit == 1


def test_a_model_that_is_not_served_is_told_with_the_words_if_there_are_any():
    for words, told in (("", NOT_SERVED), ("no such model", f"{NOT_SERVED}: no such model")):
        queue = lane()
        queue.missing(words)
        assert (queue.parked, queue.is_missing) == (told, True)


def test_single_failures_hold_nobody_back():
    queue = lane()
    queue.troubled(trouble(500), 5.0)
    assert queue.pause_s(5.0) == 0


def test_a_dead_teacher_that_had_answered_is_probed_rarely_and_recovers():
    queue, now, sent = lane(), 0.0, 0
    queue.succeeded()
    for _ in range(TROUBLES_TO_OPEN):
        queue.troubled(trouble(502), now)
    assert (queue.limit, queue.is_probing) == (1, True)
    while now < 600:
        pause = queue.pause_s(now)
        assert pause >= 10
        now += pause
        sent += 1
        queue.troubled(trouble(502), now)
    assert sent < 60
    assert queue.parked is None
    queue.succeeded()
    assert (queue.limit, queue.is_probing) == (START_IN_FLIGHT + 1, False)


def test_a_teacher_that_never_answered_is_left_alone():
    queue = lane()
    for _ in range(TROUBLES_TO_OPEN):
        queue.troubled(trouble(502), 0.0)
    assert queue.parked == "it gives no answer: HTTP 502"


def test_without_a_price_the_first_call_goes_alone():
    queue = lane(learns_price=True)
    assert queue.limit == 1
    queue.learn(Charge(100, True, Usage(prompt_tokens=10, completion_tokens=10)))
    assert queue.limit == START_IN_FLIGHT
    assert queue.prices == Prices(5_000_000, 5_000_000)
    queue.learn(Charge(10, True, Usage(prompt_tokens=10, completion_tokens=10)))
    assert queue.prices == Prices(5_000_000, 5_000_000)
