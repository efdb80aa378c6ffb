"""Channel 2's loss over the sites of a step: which count, and when their teacher reads them."""

from __future__ import annotations

import pytest
import torch

from composer_replication.objective import SdpoSettings
from composer_replication.training.lessons.distillation import SiteStates, distil
from composer_replication.training.lessons.metrics import distilled_metrics
from composer_replication.training.lessons.online_sites import OnlineSite
from composer_replication.training.models.states import Head
from composer_replication.training.step.online import _passes
from tests.distributed.scenes import Scene, build, run

TURNS = torch.tensor([3, 2])


def states():
    torch.manual_seed(0)
    number = int(TURNS.sum())
    student_NH = torch.randn(number, 4, requires_grad=True)
    return SiteStates(student_NH, torch.randn(number, 4), torch.arange(number), TURNS)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("top_k", [None, 3])
def test_a_site_that_is_not_finite_is_left_out(gate, top_k):
    head = Head(torch.randn(7, 4, requires_grad=True), None, 1.0)
    settings = SdpoSettings(require_disfavour=gate, top_k=top_k)
    whole = states()
    broken = whole._replace(teacher_NH=whole.teacher_NH.clone().index_fill_(0, torch.tensor([4]), float("nan")))
    alone = SiteStates(*(part[:3] for part in whole[:3]), TURNS[:1])
    found = distil(broken, head, head, settings, 2.0)
    expected = distil(alone, head, head, settings, 2.0)
    assert found.kept_K.tolist() == [*expected.kept_K.tolist(), False]
    assert found.loss.item() == pytest.approx(expected.loss.item())
    for of in (whole.student_NH, head.weight_VH):
        (ours,) = torch.autograd.grad(found.loss, of, retain_graph=True)
        (theirs,) = torch.autograd.grad(expected.loss, of, retain_graph=True)
        assert torch.allclose(ours, theirs, atol=1e-7)
    metrics = distilled_metrics(found, ["type_error", "json_decode"])
    assert metrics.pop("sdpo/not_finite").item() == 1
    assert all(value.isfinite() for name, value in metrics.items() if "json_decode" not in name)


@pytest.mark.parametrize("teacher", ["live", "ema"])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_teacher_reads_all_sites_of_a_generation_in_one_pass(tmp_path, monkeypatch, teacher, accumulation):
    settings = {"teacher": teacher, "require_disfavour": False, "sites_per_rollout": 1}
    trainer = build(Scene(alpha=0.5, online=True, steps=2, accumulation=accumulation, settings=settings), str(tmp_path))
    read, teacher_pass = [], trainer._online._teacher_pass

    def counted(model, sites, rows):
        read.append((trainer.state.global_step, len(sites)))
        return teacher_pass(model, sites, rows)

    monkeypatch.setattr(trainer._online, "_teacher_pass", counted)
    monkeypatch.setattr(trainer._online, "check_empty_hint", lambda *_: None)
    run(trainer)
    assert [step for step, _ in read] == [0, 1]
    assert all(sites >= 4 for _, sites in read)


def test_a_pass_is_over_no_more_tokens_than_it_may():
    sites = [OnlineSite(0, 2, "x", [1] * (length - 2), [2, 2]) for length in (5, 40, 9, 7, 30)]
    passes = _passes(sites, 60)
    assert [[len(site.teacher_ids) for site in some] for some in passes] == [[40], [30, 9], [7, 5]]
    assert [len(some) for some in _passes(sites, 1)] == [1] * 5
