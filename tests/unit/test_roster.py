"""The roster: who may be trained on, who has a vote, whose answer it really was, and whom to ask next."""

from __future__ import annotations

import pytest

from composer_replication.config import ReplayConfig, TeacherSettings
from composer_replication.errors import UsageError
from composer_replication.llm.pricing import Prices
from composer_replication.records import TeacherReply, Usage
from composer_replication.replay import DEFAULT_TEACHERS, ORIGIN_TEACHERS, Teacher
from composer_replication.replay.choice import configured_teachers, written_teachers
from composer_replication.replay.roster import teachers_to_ask, without_family
from composer_replication.replay.teachers import same_model


def test_the_default_teachers_are_of_four_families_at_least_and_may_be_trained_on():
    assert len({teacher.family for teacher in DEFAULT_TEACHERS}) >= 4
    assert len({teacher.family for teacher in DEFAULT_TEACHERS}) == len(DEFAULT_TEACHERS)
    for teacher in DEFAULT_TEACHERS:
        assert teacher.licence.trainable
        assert teacher.licence.name in ("MIT", "Apache-2.0")
        assert teacher.licence.source.startswith("https://")
        assert teacher.licence.checked >= "2026-01-01"
        assert teacher.family != "claude"


def test_the_first_tier_can_settle_a_vote_alone_even_without_one_family():
    first = {teacher.family for teacher in DEFAULT_TEACHERS if teacher.tier == 0}
    assert len(first) >= 3
    assert {teacher.tier for teacher in DEFAULT_TEACHERS} == {0, 1}


def test_the_origins_teachers_are_the_papers_and_two_of_them_must_not_be_trained_on():
    trainable = {teacher.model: teacher.licence.trainable for teacher in ORIGIN_TEACHERS}
    assert trainable == {
        "anthropic/claude-opus-4.7": False, "openai/gpt-5": False, "deepseek/deepseek-v4-pro": True,
    }  # fmt: skip


@pytest.mark.parametrize("teacher", [*DEFAULT_TEACHERS, *ORIGIN_TEACHERS], ids=lambda teacher: teacher.model)
def test_prices_are_whole_micro_dollars_with_a_source(teacher):
    assert all(isinstance(price, int) and price > 0 for price in teacher.prices)
    assert teacher.cached_micros is None or 0 < teacher.cached_micros < teacher.prices.prompt_micros
    assert "2026-" in teacher.prices_note
    assert (teacher.key_variable, teacher.simulated) == ("OPENROUTER_API_KEY", False)


def test_a_price_is_per_million_tokens():
    [opus] = [teacher for teacher in ORIGIN_TEACHERS if "opus" in teacher.model]
    assert opus.prices == Prices(5_000_000, 25_000_000)
    assert (opus.cached_micros, opus.cache_write_micros) == (500_000, 6_250_000)


def test_a_teacher_needs_only_a_model_and_an_address():
    teacher = Teacher("qwen/x", "http://127.0.0.1:1/v1")
    assert (teacher.prices, teacher.key_variable, teacher.tier, teacher.licence) == (None, None, 0, None)
    assert (teacher.name, teacher.family) == ("qwen/x", "qwen")
    assert teacher._replace(label="mine").name == "mine"


@pytest.mark.parametrize(
    ("requested", "served"),
    [
        ("openai/gpt-5", None),
        ("openai/gpt-5", "openai/gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("gpt-5", "openai/gpt-5"),
        ("openai/gpt-5", "openai/gpt-5-2025-08-07"),
        ("openai/gpt-5-2025-08-07", "gpt-5-20250807"),
        ("anthropic/claude-opus-4.7", "anthropic/claude-opus-4.7@20260416"),
        ("qwen/qwen3-coder-next", "qwen/qwen3-coder-next-2025-02-03"),
        ("z-ai/glm-4.6", "z-ai/glm-4.6:exacto"),
        ("qwen/qwen3-coder:free", "Qwen/Qwen3-Coder"),
        ("gpt-oss:20b", "gpt-oss:20b"),
        ("./models/tiny", "./models/tiny"),
        ("mistral-large-latest", "mistral-large-2512"),
        ("codestral-latest", "codestral-latest"),
        ("gemini-flash-latest", "gemini-flash-preview-09-2026"),
        ("claude-sonnet-4-latest", "claude-sonnet-4-20250514"),
    ],
)
def test_the_same_model_by_another_name(requested, served):
    assert same_model(requested, served)
    assert served is None or same_model(served, requested)


@pytest.mark.parametrize(
    ("requested", "served"),
    [
        ("openai/gpt-5", "openai/gpt-5-mini"),
        ("openai/gpt-5", "openai/gpt-5.1"),
        ("openai/gpt-5-2025-08-07", "openai/gpt-5-2025-12-01"),
        ("openai/gpt-5", "azure/gpt-5"),
        ("moonshotai/kimi-k2", "moonshotai/kimi-k2-0905"),
        ("deepseek/deepseek-v3.2", "deepseek/deepseek-v3.2-exp"),
        ("gpt-oss:20b", "gpt-oss:120b"),
        ("anthropic/claude-3.7-sonnet", "anthropic/claude-3.7-sonnet:thinking"),
        ("qwen/qwen3-coder", "qwen/qwen3-coder-30b-a3b-instruct"),
        ("m", "m-20259999"),
        ("z-ai/glm-4.6", ""),
        ("mistral-large-latest", "mistral-medium-2512"),
        ("mistral-large-latest", "mistral-large-instruct"),
        ("gpt-4o-latest", "gpt-4o-mini"),
    ],
)
def test_another_model(requested, served):
    assert not same_model(requested, served)
    assert not same_model(served, requested)


def test_names_that_the_user_vouches_for_are_its_own():
    assert not same_model("gpt-5", "prod-7")
    assert same_model("gpt-5", "prod-7", ("prod-7",))
    config = ReplayConfig(models={"a": TeacherSettings(served_as=("prod-7",))})
    written = "a=http://127.0.0.1:9/v1,gpt-5"
    assert written_teachers([written], config)[0].served_as == ("prod-7",)
    assert written_teachers([written], ReplayConfig(), ["a=x", "a=y"])[0].served_as == ("x", "y")
    for alias in ("b=x", "a", "a="):
        with pytest.raises(UsageError, match=r"is not NAME=SERVED.*; next: --teacher NAME --alias NAME=SERVED"):
            written_teachers([written], ReplayConfig(), [alias])


def test_the_family_of_a_deployment_is_told_by_its_other_names():
    here = "http://127.0.0.1:9/v1"
    assert Teacher("my-deployment", here).family == "my-deployment"
    assert Teacher("my-deployment", here, label="azure-gpt").family == "gpt"
    assert Teacher("prod-7", here, served_as=("qwen3-coder",)).family == "qwen"
    assert Teacher("devstral", here, label="gpt").family == "mistral"


def test_an_entry_without_an_address_is_told_so():
    config = ReplayConfig(simulated=False, models={"gpt-5-mini": TeacherSettings(prices=(1, 1))})
    for choose in (lambda: configured_teachers(config), lambda: written_teachers(["gpt-5-mini"], config)):
        with pytest.raises(UsageError, match=r"gpt-5-mini is not in the roster; .* with a base_url"):
            choose()


def test_the_family_that_made_a_turn_has_no_vote_on_it():
    assert "qwen" not in {teacher.family for teacher in without_family(DEFAULT_TEACHERS, "qwen")}
    assert len(without_family(DEFAULT_TEACHERS, "qwen")) == len(DEFAULT_TEACHERS) - 1
    assert without_family(DEFAULT_TEACHERS, None) == list(DEFAULT_TEACHERS)
    assert without_family(DEFAULT_TEACHERS, "claude") == list(DEFAULT_TEACHERS)


def teacher(model: str, tier: int = 0) -> Teacher:
    return Teacher(model, "http://127.0.0.1:1/v1", tier=tier)


CHEAP = [teacher("qwen/a"), teacher("deepseek/a"), teacher("glm/a")]
DEAR = [teacher("mistral/a", 1), teacher("kimi/a", 1)]


def reply(teacher: Teacher, action: str | None, outcome: str = "answered") -> TeacherReply:
    return TeacherReply(
        key="k", state_id="s", trace_id="t", turn=0, teacher=teacher.model, served_model=None, family=teacher.family,
        action=action, raw="", finish_reason=None, usage=Usage(), cost_micros=0, latency_s=0.0, outcome=outcome,
        simulated=True,
    )  # fmt: skip


def test_the_cheap_tier_comes_first_in_any_order_of_the_roster():
    assert teachers_to_ask([*DEAR, *CHEAP], []) == CHEAP


def test_agreement_of_the_cheap_tier_ends_it():
    assert teachers_to_ask([*CHEAP, *DEAR], [reply(t, "x") for t in CHEAP]) == []


def test_disagreement_asks_the_next_tier_and_then_there_is_nobody_left():
    replies = [reply(t, action) for t, action in zip(CHEAP, "xxy", strict=True)]
    assert teachers_to_ask([*CHEAP, *DEAR], replies) == DEAR
    assert teachers_to_ask([*CHEAP, *DEAR], [*replies, *(reply(t, "x") for t in DEAR)]) == []


def test_too_few_votes_ask_the_next_tier():
    replies = [reply(CHEAP[0], "x"), reply(CHEAP[1], None, "failed"), reply(CHEAP[2], None, "no_action")]
    assert teachers_to_ask([*CHEAP, *DEAR], replies) == DEAR


def test_two_agreeing_families_are_enough():
    replies = [reply(CHEAP[0], "x"), reply(CHEAP[1], "x"), reply(CHEAP[2], None, "mismatched")]
    assert teachers_to_ask([*CHEAP, *DEAR], replies) == []


def test_a_tier_that_was_half_asked_is_finished_before_the_next():
    assert teachers_to_ask([*CHEAP, *DEAR], [reply(CHEAP[0], "x")]) == CHEAP[1:]


def test_one_teacher_per_family_and_its_sibling_only_when_that_one_gave_no_vote():
    sibling = teacher("qwen/b")
    roster = [*CHEAP, sibling, *DEAR]
    assert teachers_to_ask(roster, []) == CHEAP
    silent = [reply(CHEAP[0], None, "failed"), reply(CHEAP[1], "x"), reply(CHEAP[2], "y")]
    assert teachers_to_ask(roster, silent) == [sibling]
    voted = [reply(t, action) for t, action in zip(CHEAP, "xyz", strict=True)]
    assert teachers_to_ask(roster, voted) == DEAR


def test_another_spelling_is_another_vote():
    replies = [reply(t, action) for t, action in zip(CHEAP, ("x", "X", "x"), strict=True)]
    assert teachers_to_ask([*CHEAP, *DEAR], replies) == DEAR
