"""Schedules of a channel's weight, the cap that keeps the policy gradient in charge, and the norms it compares."""

from __future__ import annotations

import json
import math

import pytest
import torch

from composer_replication.losses import ChannelSchedule, GradientRatioCap, flat_cosine, gradient_norm


def test_the_weight_rises_stays_and_falls():
    weights = [ChannelSchedule(0.2, 0.2, 0.4).at(step, 10) for step in range(11)]
    assert weights == pytest.approx([0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.15, 0.1, 0.05, 0.0])


def test_the_default_schedule_warms_up_a_tenth_and_decays_over_three():
    weights = [ChannelSchedule(1.0).at(step, 100) for step in range(100)]
    assert weights[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert weights[9:71] == [1.0] * 62
    assert weights[70:] == pytest.approx([(100 - step) / 30 for step in range(70, 100)])
    assert min(weights) > 0


@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
def test_without_shares_the_weight_is_constant_to_the_bit(steps):
    schedule = ChannelSchedule(0.1, 0.0, 0.0)
    assert {schedule.at(step, steps) for step in (0, steps // 2, steps - 1, steps, steps + 5)} == {0.1}


@pytest.mark.parametrize("steps", [1, 2, 3, 9, 28])
def test_short_runs_keep_every_step(steps):
    weights = [ChannelSchedule(0.1).at(step, steps) for step in range(steps)]
    assert all(0 < weight <= 0.1 for weight in weights)
    assert max(weights) == 0.1


def test_after_the_end_a_decayed_channel_stays_silent():
    assert [ChannelSchedule(0.1).at(step, 10) for step in (10, 11, 99)] == [0.0] * 3


def test_a_channel_that_is_off_stays_off():
    assert {ChannelSchedule(0.0).at(step, 20) for step in range(20)} == {0.0}


@pytest.mark.parametrize("shares", [(-0.1, 0.3), (0.1, -0.3), (0.6, 0.5), (math.nan, 0.1)])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(ValueError, match="warmup_share"):
        ChannelSchedule(0.1, *shares)


@pytest.mark.parametrize(("step", "steps"), [(-1, 10), (0, 0), (3, -1)])
def test_a_step_outside_any_run_is_refused(step, steps):
    with pytest.raises(ValueError, match="no step"):
        ChannelSchedule(0.1).at(step, steps)


def test_the_cap_acts_only_above_its_limit():
    cap = GradientRatioCap(limit=0.5)
    assert cap.factor(policy_norm=2.0, channel_norm=0.5) == 1.0
    assert cap.factor(policy_norm=2.0, channel_norm=1.0) == 1.0
    assert cap.factor(policy_norm=2.0, channel_norm=4.0) == 0.25


def test_a_cap_that_raises_brings_every_gradient_to_its_limit():
    aim = GradientRatioCap(limit=0.5, raises=True)
    assert aim.factor(policy_norm=2.0, channel_norm=0.25) == 4.0
    assert aim.factor(policy_norm=2.0, channel_norm=4.0) == 0.25
    assert aim.factor(policy_norm=2.0, channel_norm=1e-6) == 100.0, "noise is not made into a push"


@pytest.mark.parametrize("limit", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("channel", [1e-6, 0.3, 1.0, 1e5])
def test_the_capped_channel_never_exceeds_its_share(limit, channel):
    factor = GradientRatioCap(limit).factor(1.3, channel)
    assert factor * channel <= limit * 1.3 * (1 + 1e-12)
    assert factor == 1.0 or factor * channel == pytest.approx(limit * 1.3)


@pytest.mark.parametrize("flat", [0.0, 1e-12, 0.03])
def test_a_flat_step_is_measured_against_the_median_of_other_steps(flat):
    cap = GradientRatioCap(limit=0.5)
    for norm in (4.0, 6.0, 100.0):
        cap.factor(norm, 1.0)
    assert cap.factor(flat, 12.0) == 0.25
    assert cap.factor(flat, 1.0) == 1.0
    assert cap.state() == {"policy_norms": [4.0, 6.0, 100.0]}, "a flat step is no evidence of the usual norm"


def test_a_small_but_speaking_gradient_is_no_flat_step():
    cap = GradientRatioCap(limit=0.5)
    cap.factor(4.0, 1.0)
    assert cap.factor(0.4, 1.0) == pytest.approx(0.2)


@pytest.mark.parametrize("flat", [0.0, 1e-12])
def test_without_history_a_flat_step_leaves_the_channel_alone(flat):
    cap = GradientRatioCap()
    assert cap.factor(flat, 1e9) == 1.0
    assert cap.state() == {"policy_norms": []}


def test_a_silent_channel_is_left_alone():
    assert GradientRatioCap().factor(1.0, 0.0) == 1.0


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_broken_norms_never_raise_a_channel(broken):
    cap = GradientRatioCap(limit=0.5)
    cap.factor(2.0, 1.0)
    assert cap.factor(broken, 4.0) == 0.25
    assert cap.factor(2.0, broken) == 0.0
    assert cap.state() == {"policy_norms": [2.0, 2.0]}


def test_old_steps_leave_the_history():
    cap = GradientRatioCap(limit=1.0, history=3)
    for norm in (100.0, 100.0, 2.0, 3.0, 4.0):
        cap.factor(norm, 1.0)
    assert cap.factor(0.0, 6.0) == 0.5


def test_a_resumed_cap_goes_on_as_if_nothing_had_happened():
    norms = [(0.0, 3.0), (1.7, 2.0), (0.3, 5.0), (0.0, 0.9), (2.2, 9.0), (1e-9, 4.0), (0.8, 0.1), (0.0, 7.0)]
    whole = GradientRatioCap(history=3)
    expected = [whole.factor(*pair) for pair in norms]
    first, second = GradientRatioCap(history=3), GradientRatioCap(history=3)
    got = [first.factor(*pair) for pair in norms[:5]]
    second.load(json.loads(json.dumps(first.state())))
    assert got + [second.factor(*pair) for pair in norms[5:]] == expected
    assert second.state() == whole.state()


@pytest.mark.parametrize("settings", [{"limit": 0.0}, {"history": 0}, {"flat_share": 1.0}, {"flat_share": -0.1}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match="positive"):
        GradientRatioCap(**settings)


def test_norm_and_cosine_treat_all_tensors_as_one_vector():
    generator = torch.Generator().manual_seed(0)
    first, second = (
        [torch.randn(shape, generator=generator) for shape in ((3, 4), (5,), (2, 2, 2), ())] for _ in range(2)
    )
    flat = [torch.cat([grad.flatten() for grad in grads]).double() for grads in (first, second)]
    assert gradient_norm(first) == pytest.approx(flat[0].norm().item(), rel=1e-6)
    assert flat_cosine(first, second) == pytest.approx(
        (flat[0] @ flat[1] / flat[0].norm() / flat[1].norm()).item(), rel=1e-5
    )


def test_a_missing_tensor_is_all_zeros():
    grads, other = [torch.ones(3), None, torch.full((4,), 2.0)], [torch.ones(3), torch.ones(9), None]
    assert gradient_norm(grads) == pytest.approx(math.sqrt(3 + 16))
    assert flat_cosine(grads, other) == pytest.approx(3 / math.sqrt(19) / math.sqrt(12))
    assert flat_cosine([None, torch.ones(2)], [torch.ones(2), None]) == 0.0
    assert gradient_norm([None]) == gradient_norm([]) == flat_cosine([], []) == 0.0


def test_direction():
    grads = [torch.tensor([1.0, -2.0]), torch.tensor([[3.0]])]
    assert flat_cosine(grads, [3 * grad for grad in grads]) == pytest.approx(1.0)
    assert flat_cosine(grads, [-grad for grad in grads]) == pytest.approx(-1.0)
    assert flat_cosine(grads, [torch.zeros(2), torch.zeros(1, 1)]) == 0.0


def test_gradients_of_different_models_are_refused():
    with pytest.raises(ValueError, match="zip"):
        flat_cosine([torch.ones(2)], [torch.ones(2), torch.ones(2)])


def test_half_precision_is_summed_in_float32():
    grads = [torch.full((1000,), 0.1, dtype=torch.bfloat16)] * 63
    exact = math.sqrt(63 * 1000) * grads[0][0].item()
    assert gradient_norm(grads) == pytest.approx(exact, rel=1e-5)
    assert flat_cosine(grads, grads) == pytest.approx(1.0, rel=1e-5)
