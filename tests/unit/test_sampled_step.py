"""A step from log-probabilities of sampled tokens: its pulls make the gradient of the sampled-token composite."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path

import pytest
import torch

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.objective import SdpoSettings, TrdpoSettings
from composer_replication.training.backends import lost_by, refuse_unknown_backend
from composer_replication.training.backends.tinker.contract import DIVISORS, Contract
from composer_replication.training.backends.tinker.probe import TRIALS
from composer_replication.training.lessons.online_sites import OnlineSite, Rolled
from composer_replication.training.planning.refusals import refuse_for_backend
from composer_replication.training.step.sampled import (
    Distilling,
    Preferring,
    online_turns,
    policy_rows,
    sampled_step,
    stored_turns,
)
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample
from tests.golden.composites.reference import Case, sampled_logprobs, sampled_token
from tests.unit.test_composites import CASE, by_formula

ALPHA, BETA = 0.7, 0.5
ONE_BATCH = replace(CASE, batches=CASE.batches[:1])


def reader(model):
    def read(rows):
        with torch.no_grad():
            return [sampled_logprobs(model, row[:1], row[1:]).tolist() for row in rows]

    return read


def step_of_case(case: Case, read, alpha=ALPHA, beta=BETA, *, gate=False, teach=None):
    rolled = [Rolled(None, row.prompt, row.completion, row.mask) for row in case.rows]
    sites = [
        [
            OnlineSite(one.start, one.end, "type_error", one.teacher_context, row.completion[one.start : one.end])
            for one in case.sites
            if one.row == number
        ]
        for number, row in enumerate(case.rows)
    ]
    rows = policy_rows(rolled, [row.advantage for row in case.rows], 1.0)
    taught = online_turns(rows, rolled, sites) if alpha else []
    ((batch),) = case.batches
    pairs = [
        PairTokens(p.prompt, p.chosen, p.rejected, p.reference_chosen, p.reference_rejected, p.smoothing) for p in batch
    ]
    preferring = Preferring(TrdpoSettings(weight=beta, beta=case.dpo_beta), beta, pairs) if beta else None
    distilling = Distilling(SdpoSettings(weight=alpha, require_disfavour=gate), alpha, teach)
    return sampled_step(read, rows, taught, distilling, preferring)


def flat_gradient(total, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(total, list(model.parameters()))])


def pulled(model, rows):
    """What an engine makes of them: advantages at ratio 1."""
    terms = [
        torch.tensor(row.pulls[1:], dtype=torch.float64) @ sampled_logprobs(model, row.ids[:1], row.ids[1:])
        for row in rows
    ]
    return -torch.stack(terms).sum()


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (ALPHA, 0.0), (0.0, BETA), (ALPHA, BETA)])
def test_the_pulls_make_the_gradient_of_the_composite(alpha, beta):
    model = by_formula()
    found = step_of_case(ONE_BATCH, reader(model), alpha, beta)
    terms = sampled_token(model, ONE_BATCH)
    expected = flat_gradient(terms["policy"] + alpha * terms["sdpo"] + beta * terms["replay"], model)
    ours = flat_gradient(pulled(model, found.rows), model)
    assert (ours - expected).norm() / expected.norm() < 1e-6
    if alpha:
        assert found.metrics["channel/sdpo"] == pytest.approx(terms["sdpo"].item(), rel=1e-9)


@pytest.mark.parametrize("weighed", [{}, {"nll_weight": 1.0}], ids=["by default", "weighed"])
def test_imitation_alone_pulls_at_the_chosen_side_only(weighed):
    pair = PairTokens([1, 2], [3, 4], [5], -1.0, -2.0, 0.0)
    settings = TrdpoSettings(weight=BETA, sft_only=True, **weighed)
    off = Distilling(SdpoSettings(weight=0.0), 0.0, None)
    (chosen,) = sampled_step(reader(by_formula()), [], [], off, Preferring(settings, BETA, [pair])).rows
    assert chosen.ids == [1, 2, 3, 4]
    assert chosen.pulls == pytest.approx([0, 0, BETA / 2, BETA / 2])


def test_without_weights_the_rows_are_those_of_the_plain_engine():
    rolled = [Rolled(None, row.prompt, row.completion, row.mask) for row in CASE.rows]
    plain = policy_rows(rolled, [row.advantage for row in CASE.rows], 1.0)
    found = step_of_case(ONE_BATCH, reader(by_formula()), alpha=0.0, beta=0.0)
    assert [(row.ids, row.pulls) for row in found.rows] == [(row.ids, row.pulls) for row in plain]
    assert not found.metrics


def test_a_hint_that_favours_the_turn_teaches_nothing_but_counts():
    model = by_formula()
    read, calls = reader(model), []

    def praise(rows):
        calls.append(rows)
        return [[0.0] * (len(row) - 1) for row in rows]

    gated = step_of_case(ONE_BATCH, read, beta=0.0, gate=True, teach=praise)
    plain = step_of_case(ONE_BATCH, read, alpha=0.0, beta=0.0)
    assert [row.pulls for row in gated.rows] == [row.pulls for row in plain.rows]
    assert (gated.metrics["sdpo/sites"], gated.metrics["sdpo/kept"]) == (3.0, 0.0)
    assert len(calls) == 1, "the teacher reads apart where it is not the policy"


def test_a_site_that_the_teacher_rules_out_is_dropped_and_counted():
    read = reader(by_formula())

    def rule_out_first(rows):
        first, *others = read(rows)
        return [[*first[:-1], -torch.inf], *others]

    found = step_of_case(ONE_BATCH, read, beta=0.0, teach=rule_out_first)
    assert all(isfinite(pull) for row in found.rows for pull in row.pulls)
    assert isfinite(found.metrics["channel/sdpo"])
    assert found.metrics["sdpo/impossible"] == pytest.approx(1 / 3)
    assert found.metrics["sdpo/kept"] == pytest.approx(2 / 3)


def test_stored_sites_of_a_trace_share_one_row():
    sites = [SiteTokens(2, 4, [9, 1, 2]), SiteTokens(5, 6, [9, 1, 2, 3, 4, 5])]
    taught = stored_turns(
        [TraceExample([1, 2, 3, 4, 5, 6, 7, 8], [0] * 8, 0.0, sites=sites), TraceExample([1], [0], 0)]
    )
    assert taught[0].row is taught[1].row
    assert taught[0].row.ids == [1, 2, 3, 4, 5, 6]
    assert [turn.turn_ids for turn in taught] == [[3, 4], [6]]


@pytest.mark.parametrize("name", DIVISORS)
def test_every_contract_has_proportions_of_its_own(name):
    def proportions(contract):
        first, *others = [trial.expected(Contract(contract)) for trial in TRIALS]
        return [one / first for one in others]

    for other in DIVISORS:
        if other != name:
            apart = max(abs(a / b - 1) for a, b in zip(proportions(name), proportions(other), strict=True))
            assert apart > 0.4, f"{name} and {other} look alike"


def tinker_config(**values):
    return Config.model_validate({"hardware": {"lora_rank": 4}, **values})


@pytest.mark.parametrize("teacher", ["live", "frozen"])
def test_quickstarts_settings_are_taken_with_adapters_and_a_teacher_that_can_be_kept(teacher):
    channels = [{"name": "grpo"}, {"name": "sdpo", "teacher": teacher}, {"name": "trdpo"}]
    refuse_for_backend(tinker_config(channels=channels), "tinker", 1)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"hardware": {}}, "lora_rank"),
        ({"hardware": {"lora_rank": 4, "lora_alpha": 16}}, "hardware.lora_alpha"),
        ({"training": {"temperature": 0.7}}, "training.temperature"),
        ({"training": {"rollouts": False}}, "training.rollouts"),
        ({"training": {"gradient_ratio_cap": 0.2}}, "training.gradient_ratio_cap"),
        ({"channels": [{"name": "grpo"}, {"name": "sdpo", "jsd_beta": 0.2}]}, "jsd_beta"),
        ({"channels": [{"name": "grpo"}, {"name": "sdpo", "source": "rollouts"}]}, "teacher"),
        ({}, 'keeps no teacher "ema"; next: set teacher = "frozen" or "live"'),
        ({"channels": [{"name": "grpo"}, {"name": "tests.e2e.own_channel:StayClose", "weight": 1}]}, "StayClose"),
    ],
)
def test_what_a_server_cannot_do_is_refused(values, told):
    with pytest.raises(UsageError, match=told):
        refuse_for_backend(tinker_config(**values), "tinker", 1)


def test_an_address_goes_with_the_backends_that_have_one():
    with pytest.raises(UsageError, match="--url"):
        refuse_unknown_backend("trl", url="http://127.0.0.1:1")
    with pytest.raises(UsageError, match="trains on a server"):
        refuse_unknown_backend("tinker")


def test_a_tinker_server_loses_distributions_the_cap_and_alarms():
    told = " ".join(lost_by("tinker"))
    assert "whole distributions" in told and "gradient-ratio cap" in told and "no alarm" in told


@pytest.mark.parametrize(("backend", "hardware"), [("tinker", {"lora_rank": 4}), ("verl", {})])
def test_what_is_told_of_distributions_is_what_happens(backend, hardware):
    def with_sdpo(**settings):
        return Config.model_validate(
            {"hardware": hardware, "channels": [{"name": "grpo"}, {"name": "sdpo", "teacher": "live", **settings}]}
        )

    told = " ".join(lost_by(backend))
    assert "jsd_beta may be 1 or its default and does nothing" in told
    for beta in (1, 0.5):
        refuse_for_backend(with_sdpo(jsd_beta=beta), backend, 1)
    assert "other values, top_k and token_clip are refused" in told
    for settings in ({"jsd_beta": 0.2}, {"top_k": 4}, {"token_clip": 1.0}):
        with pytest.raises(UsageError, match=f"{next(iter(settings))} of the channel sdpo"):
            refuse_for_backend(with_sdpo(**settings), backend, 1)


def test_the_page_on_tinker_lists_what_is_said_at_the_start():
    page = (Path(__file__).parents[2] / "docs" / "engines" / "tinker.md").read_text()
    _, after = page.split("Said at the start of every run and in the model card:\n\n")
    listed, _, _ = after.partition("\n\n")
    items = [" ".join(item.split()).replace("`", "") for item in listed.removeprefix("- ").split("\n- ")]
    assert items == list(lost_by("tinker"))
