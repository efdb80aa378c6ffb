"""Planted secrets of every kind, in every place: none comes out of the redactor, and the second gate sees none left."""

import json

import pytest

from composer_replication.redaction import Redactor, find_secrets
from tests.canaries import PLACEMENTS, canaries, personal_data, planted_messages
from tests.canaries import Maker as CanaryMaker

SEEDS = (0, 1)
PERSONAL = {kind for kind, _, _ in personal_data(CanaryMaker(0))}


def redacted_texts(canary, placement):
    messages, thinking = planted_messages(canary, placement)
    redactor = Redactor(environ={})
    texts = [redactor.text(thinking)]
    texts += [redactor.text(message["content"]) for message in messages]
    texts += [redactor.json_text(written) for written in arguments(messages)]
    return texts, redactor


def test_the_corpus_is_large_enough():
    assert len({canary.kind for canary in canaries()}) >= 100
    assert len(PLACEMENTS) >= 10
    assert {placement.field for placement in PLACEMENTS} == {
        "user", "assistant", "thinking", "tool_result", "tool_argument",
    }  # fmt: skip


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda placement: placement.name)
def test_no_canary_comes_out(placement):
    leaks = []
    for seed in SEEDS:
        for canary in canaries(seed):
            texts, redactor = redacted_texts(canary, placement)
            leaked = [secret for secret in canary.secrets if any(secret in text for text in texts)]
            if leaked or not redactor.counts:
                leaks.append((seed, canary.kind, texts))
    assert not leaks


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda placement: placement.name)
def test_the_second_gate_fires_before_and_not_after(placement):
    for canary in canaries(0):
        messages, thinking = planted_messages(canary, placement)
        before = [thinking, *(message["content"] for message in messages), *arguments(messages)]
        assert any(find_secrets(text, environ={}, personal=canary.kind in PERSONAL) for text in before), canary.kind
        after, _ = redacted_texts(canary, placement)
        assert not any(find_secrets(text, environ={}, personal=True) for text in after), (canary.kind, after)


def arguments(messages):
    """As they are sent: decoded values and the JSON text around them."""
    for message in messages:
        for call in message.get("tool_calls", []):
            yield call["function"]["arguments"]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda placement: placement.name)
def test_what_is_json_stays_json(placement):
    for canary in canaries(0):
        messages, _ = planted_messages(canary, placement)
        redactor = Redactor(environ={})
        for before in arguments(messages):
            assert json.loads(redactor.json_text(before)).keys() == json.loads(before).keys()


def test_json_in_a_result_stays_json():
    for placement in PLACEMENTS:
        for canary in canaries(0):
            planted = placement.wrap(canary.text)
            if is_json(planted):
                assert is_json(Redactor(environ={}).text(planted)), (placement.name, canary.kind)


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
