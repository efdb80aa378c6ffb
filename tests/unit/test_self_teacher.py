"""The teacher's second set of weights: put in, taken out, averaged, saved."""

from __future__ import annotations

import pytest
import torch

from composer_replication.training.lessons.self_teacher import SelfTeacher, self_teacher


@pytest.fixture
def model(make_model):
    return make_model(20, seed=1)


def copies(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def move(model, seed):
    """As an optimiser step would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def begun(model, rate):
    teacher = SelfTeacher(rate)
    teacher.begin(model)
    return teacher


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("kind", "rate"), [("frozen", 0.0), ("ema", 0.25)])
def test_the_policy_gets_its_own_weights_back_bit_by_bit(model, kind, rate):
    teacher = self_teacher(kind, rate)
    teacher.begin(model)
    start = copies(model)
    move(model, 1)
    own, places = copies(model), [parameter.data_ptr() for parameter in model.parameters()]
    with teacher.installed(model):
        assert same(copies(model), start)
    assert same(copies(model), own)
    assert [parameter.data_ptr() for parameter in model.parameters()] == places


def test_also_when_the_teacher_fails(model):
    teacher = begun(model, 0.0)
    move(model, 1)
    own = copies(model)
    with pytest.raises(KeyError, match="lost"), teacher.installed(model):
        move(model, 2)
        raise KeyError("lost")
    assert same(copies(model), own)


def test_a_live_teacher_is_the_policy(model):
    teacher = begun(model, None)
    move(model, 1)
    teacher.update(model)
    own = copies(model)
    with teacher.installed(model):
        assert same(copies(model), own)
    assert teacher.state() == {}


def test_the_average_is_its_closed_form(model):
    """shadow_n = (1 - r)^n · w_0 + Σ r · (1 - r)^(n - k) · w_k, in float64."""
    rate, steps = 0.3, 5
    history = [copies(model)]
    teacher = begun(model, rate)
    for step in range(steps):
        move(model, step)
        history.append(copies(model))
        teacher.update(model)
    for name, shadow in teacher.state().items():
        expected = (1 - rate) ** steps * history[0][name].double()
        for step in range(1, steps + 1):
            expected += rate * (1 - rate) ** (steps - step) * history[step][name].double()
        torch.testing.assert_close(shadow.double(), expected, rtol=1e-5, atol=1e-6)


def test_a_frozen_teacher_stays(model):
    start = copies(model)
    teacher = begun(model, 0.0)
    for step in range(3):
        move(model, step)
        teacher.update(model)
    assert same(teacher.state(), start)


def test_a_second_beginning_changes_nothing(model):
    start = copies(model)
    teacher = begun(model, 0.0)
    move(model, 1)
    teacher.begin(model)
    assert same(teacher.state(), start)


def test_small_steps_are_not_lost_to_bfloat16(model):
    model = model.to(torch.bfloat16)
    teacher = begun(model, 0.01)
    start = {name: shadow.clone() for name, shadow in teacher.state().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1.02
    for _ in range(20):
        teacher.update(model)
    name = "model.layers.0.mlp.up_proj.weight"
    target = model.get_parameter(name).detach().float()
    moved = (teacher.state()[name] - start[name]) / (target - start[name])
    assert moved[start[name].abs() > 0.1].mean().item() == pytest.approx(1 - 0.99**20, rel=1e-3)
    with teacher.installed(model):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_state_and_load_round_trip(model, make_model):
    teacher = begun(model, 0.5)
    move(model, 1)
    teacher.update(model)
    saved = {name: tensor.clone() for name, tensor in teacher.state().items()}
    other = begun(make_model(20, seed=9), 0.5)
    other.load(saved)
    assert same(other.state(), saved)
    move(model, 2)
    teacher.update(model)
    other.update(model)
    assert same(other.state(), teacher.state())


@pytest.mark.parametrize("wrong", ["other names", "other shapes"])
def test_a_state_of_another_model_is_refused(model, make_model, wrong):
    saved = begun(make_model(20, layers=1) if wrong == "other names" else make_model(21), 0.5).state()
    with pytest.raises(ValueError, match="not one of this model"):
        begun(model, 0.5).load(saved)


def test_only_trainable_weights_are_kept_twice(model):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_proj" in name)
    teacher = begun(model, 0.01)
    assert set(teacher.state()) == {name for name, _ in model.named_parameters() if "q_proj" in name}
    kept = {name: parameter for name, parameter in copies(model).items() if "q_proj" not in name}
    move(model, 1)
    with teacher.installed(model):
        inside = copies(model)
    assert not any(torch.equal(inside[name], kept[name]) for name in kept if name.endswith("up_proj.weight"))
