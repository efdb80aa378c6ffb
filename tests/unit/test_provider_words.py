"""A provider's own words reach the user, short and without secrets, and an empty account is known by them."""

from __future__ import annotations

import json

import pytest

from composer_replication.llm.http_answers import judge
from composer_replication.llm.keys import ApiKey
from composer_replication.llm.provider_words import MAX_WORDS, NO_CREDIT, words_of
from composer_replication.llm.transport import Response

SECRET = "sk-proj-" + "Zx81QmfT0a" * 5


def said(status: int, **body) -> Response:
    return Response(status, json.dumps(body).encode())


@pytest.mark.parametrize(
    "response",
    [
        said(429, error={"message": "You exceeded your current quota", "type": "insufficient_quota", "code": None}),
        said(429, error={"message": "Your account is not active", "code": "billing_not_active"}),
        said(400, error={"message": "Billing hard limit has been reached", "code": "billing_hard_limit_reached"}),
        said(402, error={"message": "Insufficient credits", "code": 402}),
        said(402),
        said(403, error={"message": "Key limit exceeded (total limit)", "code": 403}),
        said(400, type="error", error={"type": "invalid_request_error", "message": "Your credit balance is too low"}),
        said(403, code="x", error="Your team has either used all available credits or reached its monthly limit"),
        said(429, error={"message": "Your account is suspended due to insufficient balance"}),
        said(429, error={"code": "1113", "message": "余额不足或无可用资源包,请充值。"}),
        said(400, error={"code": "Arrearage", "message": "Access denied"}),
        said(429, error={"code": 429, "metadata": {"raw": '{"error":{"message":"insufficient balance"}}'}}),
    ],
)
def test_an_empty_account_stops_its_teachers_at_once(response):
    verdict = judge(response)
    assert (verdict.action, verdict.state, verdict.no_credit) == ("stop_key", "refused", True)
    assert not verdict.overload


@pytest.mark.parametrize(
    "response",
    [
        said(429, error={"message": "Rate limit reached for gpt-5 in organization", "type": "tokens"}),
        said(429, object="error", message="Service tier capacity exceeded for this model."),
        said(429, error={"message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED"}),
        said(400, error={"message": "max_tokens is too large"}),
        said(503, error={"message": "insufficient balance between replicas"}),
    ],
)
def test_a_busy_server_and_a_bad_request_are_no_empty_account(response):
    assert not judge(response).no_credit


def test_no_credit_inside_http_200_is_known_too():
    body = {"error": {"code": 402, "message": "Insufficient credits"}}
    verdict = judge(Response(200, json.dumps(body).encode()))
    assert (verdict.action, verdict.no_credit, verdict.words) == ("stop_key", True, "Insufficient credits")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no such model", "type": "not_found"}}', "no such model not_found"),
        (b'{"object": "error", "message": "bad role", "code": 400}', "bad role"),
        (b'{"detail": [{"msg": "field required"}, {"msg": "wrong type"}]}', "field required wrong type"),
        (b'{"error": "plain"}', "plain"),
        (b"upstream\x1b[31m timed\x00 out\n", "upstream timed out"),
        (b"<html><body>502</body></html>", ""),
        (b"", ""),
        (b"[1, 2]", ""),
        (b"[" * 1000 + b"]" * 1000, ""),
        (b"x" * (1 << 17), ""),
    ],
)
def test_where_the_words_are(body, words):
    assert words_of(400, body).text == words


def test_words_are_short_and_hold_no_secret():
    told = words_of(401, json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}"}}).encode()).text
    assert told.startswith("Incorrect API key provided") and SECRET not in told
    assert len(words_of(400, json.dumps({"message": "word " * 9999}).encode()).text) <= MAX_WORDS + 1
    assert ApiKey("k" * 20).hidden_in(f"bad key {'k' * 20}!") == "bad key ***!"


def test_the_table_is_in_lower_case_as_it_is_compared():
    assert all(row.sign == row.sign.lower() for row in NO_CREDIT)
