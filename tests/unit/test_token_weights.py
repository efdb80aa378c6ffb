"""How much each channel pulls at each token, against autograd through the golden composite."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from composer_replication.config import Config, HardwareConfig, SamplingConfig, TrainingConfig
from composer_replication.errors import UsageError
from composer_replication.losses import generalized_jsd_loss
from composer_replication.losses.token_weights import logprob_token_weights
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.records import Source, Trace
from composer_replication.runs import read_records
from composer_replication.training import ComposerDataCollator
from composer_replication.training.channels import ReplayPreference, SelfDistillation
from composer_replication.training.lessons.online_sites import Rolled
from composer_replication.training.lessons.token_weights import TokenWeightsFolder, WeighedRow, policy_row
from composer_replication.training.planning.refusals import (
    refuse_for_backend,
    refuse_what_processes_cannot_do,
    refuse_what_would_do_nothing,
)
from composer_replication.training.rollouts.samples import RolloutSamples
from composer_replication.training.stored.records import TokenWeights
from tests.distributed.scenes import Scene, build, new_model, run, stored_examples
from tests.golden.composites.reference import at_site, divergence, policy, preference
from tests.unit.test_composites import ALPHA, BETA, case_of


class Watched:
    """A model whose logits are leaves, by the ids that they were made from."""

    def __init__(self) -> None:
        self._model, self.logits = new_model().double(), {}

    def __call__(self, ids):
        found = self._model(ids)
        found.logits = found.logits.detach().requires_grad_(torch.is_grad_enabled())
        self.logits[tuple(ids[0].tolist())] = found.logits
        return found

    def norms(self, term, ids, start):
        """Of the gradient before each token from `start` on, 0 before."""
        (gradient,) = torch.autograd.grad(term, self.logits[tuple(ids)], retain_graph=True)
        return [0.0] * start + gradient[0, start - 1 : -1].norm(dim=-1).tolist()


@pytest.fixture(scope="module", params=[1, 2])
def step(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    scene = Scene(alpha=ALPHA, beta=BETA, online=True, accumulation=request.param)
    trainer = build(scene, str(folder / "scratch"), model=new_model().double())
    trainer._samples = RolloutSamples(folder / "samples", rollouts_per_step=3)
    trainer._token_weights = TokenWeightsFolder(folder / "token_weights")
    micro_batches, compute = [], trainer._compute_loss
    trainer._compute_loss = lambda model, batch: micro_batches.append(batch) or compute(model, batch)
    run(trainer)
    (file,) = (folder / "token_weights").iterdir()
    assert file.name == "step_0000001.jsonl.zst"
    return case_of(micro_batches), list(read_records(file, TokenWeights))


def test_the_policy_pulls_at_sampled_tokens(step):
    case, found = step
    model = Watched()
    term = policy(model, case)
    rows = {tuple(row.prompt + row.completion): row for row in case.rows}
    kept = [record for record in found if record.channel == "policy"]
    assert len(kept) == 3
    for record in kept:
        row = rows[record.ids]
        assert record.weights == pytest.approx(model.norms(term, record.ids, len(row.prompt)), abs=1e-6)
        assert any(record.weights)


def test_mask_and_entropy_are_those_of_the_step(step):
    """The mask marks what was sampled; entropy is the policy's own before each of these tokens."""
    case, found = step
    rows = {tuple(row.prompt + row.completion): row for row in case.rows}
    for record in (record for record in found if record.channel == "policy"):
        row = rows[record.ids]
        assert list(record.mask) == [0] * len(row.prompt) + row.mask
        logprobs = new_model().double()(torch.tensor([record.ids])).logits[0, :-1].log_softmax(-1)
        entropy = [0.0, *(-(logprobs.exp() * logprobs).sum(-1)).tolist()]
        expected = [own if marked else 0.0 for own, marked in zip(entropy, record.mask, strict=True)]
        assert record.entropy == pytest.approx(expected, abs=1e-5)
        assert any(record.entropy)
    for record in (record for record in found if record.channel == "sdpo"):
        assert all(bool(weight) <= bool(marked) for weight, marked in zip(record.weights, record.mask, strict=True))
        assert 0 < sum(record.mask) < len(record.ids)


def test_a_long_turn_is_weighed_in_chunks(monkeypatch):
    """Logits of all tokens at once need not fit; the sums are the same."""
    rolled = Rolled(
        Trace(trace_id="t", source=Source(agent="a"), messages=(), turns=()), [3, 4, 5], [6, 7, 8, 9], [1, 1, 0, 1]
    )
    whole = policy_row(new_model(), rolled, 0.5, 1.0)
    monkeypatch.setattr("composer_replication.training.lessons.token_weights.LOGITS_AT_ONCE", 1)
    parts = policy_row(new_model(), rolled, 0.5, 1.0)
    assert parts.weights == pytest.approx(whole.weights, abs=1e-7)
    assert parts.entropy == pytest.approx(whole.entropy, abs=1e-5)
    assert any(whole.weights)


def test_a_rollout_that_says_nothing_has_a_row_without_weights():
    trace = Trace(trace_id="t", source=Source(agent="a"), messages=(), turns=())
    row = policy_row(new_model(), Rolled(trace, [3, 4, 5], [], []), 0.5, 1.0)
    assert (row.ids, row.weights, row.mask) == ([3, 4, 5], [0, 0, 0], [0, 0, 0])


def test_pieces_are_the_texts_of_the_ids(tmp_path):
    folder = TokenWeightsFolder(tmp_path, piece=lambda token: f"<{token}>")
    folder.add(1, "policy", WeighedRow("rollout", [3, 4], [0.0, 1.0]))
    folder.write()
    (record,) = read_records(tmp_path / "step_0000001.jsonl.zst", TokenWeights)
    assert record.pieces == ("<3>", "<4>")


def test_distillation_pulls_at_error_turns(step):
    case, found = step
    kept = [record for record in found if record.channel == "sdpo"]
    assert kept
    for record in kept:
        number = next(n for n, row in enumerate(case.rows) if tuple(row.prompt + row.completion) == record.ids)
        expected = [0.0] * len(record.ids)
        for site in (site for site in case.sites if site.row == number):
            model, prompt = Watched(), len(case.rows[number].prompt)
            student_TV, teacher_TV, _ = at_site(model, case, site)
            term = ALPHA * divergence(student_TV, teacher_TV, 0.5).mean() / len(case.sites)
            own = model.norms(term, record.ids[: prompt + site.end], prompt + site.start)
            expected = [one + other for one, other in zip(expected, own + [0.0] * len(expected), strict=False)]
        assert record.weights == pytest.approx(expected, abs=1e-6)
        assert any(record.weights)


def test_preferences_pull_at_both_actions(step):
    case, found = step
    kept = {(record.part, record.ids): record for record in found if record.channel == "replay"}
    pairs = [pair for batch in case.batches for pair in batch]
    assert len(kept) == 2 * len(pairs)
    for pair in pairs:
        model = Watched()
        of_its_batch = next(len(batch) for batch in case.batches if pair in batch)
        term = BETA * preference(model, case, pair) / of_its_batch / len(case.batches)
        for side, ids in (("chosen", pair.chosen), ("rejected", pair.rejected)):
            record = kept[side, tuple(pair.prompt + ids)]
            assert record.weights == pytest.approx(model.norms(term, record.ids, len(pair.prompt)), abs=1e-6)
            assert any(record.weights)


@pytest.mark.parametrize("settings", [{}, {"jsd_beta": 0.0}, {"top_k": 4}, {"token_clip": 0.05}, {"temperature": 2.0}])
def test_stored_sites_have_the_weights_of_their_loss(settings):
    batch = ComposerDataCollator(0)(stored_examples(3, range(3)))
    model, channel = new_model().double(), SelfDistillation(SdpoSettings(require_disfavour=False, **settings))
    rows = channel.token_weights(model, batch, 1.0)
    assert len(rows) == len(batch["sdpo_row"]) > 1
    for site, row in enumerate(rows):
        start = int(batch["sdpo_start"][site])
        context = batch["ctx_teacher_input_ids"][site].tolist()[: int(batch["sdpo_loss_mask"][site].nonzero()[0])]
        student = model(torch.tensor([row.ids])).logits[0, start - 1 : -1].detach().requires_grad_()
        teacher = model(torch.tensor([context + row.ids[start:]])).logits[0, len(context) - 1 : -1]
        options = {"beta": 0.5, **{key.removeprefix("jsd_"): value for key, value in settings.items()}}
        loss = generalized_jsd_loss(student, teacher, **options) / len(rows)
        (gradient,) = torch.autograd.grad(loss, student)
        assert row.weights == pytest.approx([0.0] * start + gradient.norm(dim=-1).tolist(), abs=1e-6)
        assert any(row.weights)


def test_imitation_pulls_at_the_chosen_action_alone():
    batch = ComposerDataCollator(0)(stored_examples(1, range(2)))
    imitation = ReplayPreference(TrdpoSettings(sft_only=True))
    rows = imitation.token_weights(new_model(), batch, 1.0)
    pulled = {side: [any(row.weights) for row in rows if row.part == side] for side in ("chosen", "rejected")}
    assert len(rows) == 2 * len(batch["dpo_chosen_input_ids"]) > 0
    assert all(pulled["chosen"]) and not any(pulled["rejected"])


def test_a_batch_without_pairs_has_no_rows():
    batch = ComposerDataCollator(0)(stored_examples(1, range(0)))
    assert ReplayPreference().token_weights(new_model(), batch, 1.0) == []


@pytest.mark.parametrize(("asked", "refused"), [(None, False), (False, False), (True, True)])
def test_only_asking_for_weights_is_refused_where_there_are_none(asked, refused):
    training = TrainingConfig(rollouts=False, token_weights=asked)
    config = Config(training=training)
    served = SamplingConfig(server="http://127.0.0.1:1")
    played = Config(training=TrainingConfig(token_weights=asked), channels=(GrpoSettings(),))
    asynchronous = played.model_copy(update={"sampling": served})
    adapted = played.model_copy(update={"hardware": HardwareConfig(lora_rank=4)})
    for refuse in (
        lambda: refuse_what_processes_cannot_do(Config(training=TrainingConfig(token_weights=asked)), 2, False),
        lambda: refuse_what_would_do_nothing(config),
        lambda: refuse_for_backend(asynchronous, "trl_async", 1),
        lambda: refuse_for_backend(adapted, "tinker", 1),
        lambda: refuse_for_backend(played, "verl", 1),
    ):
        with pytest.raises(UsageError, match="token_weights") if refused else nullcontext():
            refuse()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_pull_at_a_log_probability_is_the_norm_of_its_gradient(temperature):
    generator = torch.Generator().manual_seed(0)
    logits_NV = torch.randn(4, 7, generator=generator, dtype=torch.float64).requires_grad_()
    labels_N, slopes_N = torch.tensor([0, 6, 3, 3]), torch.tensor([2.0, -0.5, 0.0, 1.0], dtype=torch.float64)
    logprobs_N = (logits_NV / temperature).log_softmax(-1).gather(-1, labels_N[:, None])[:, 0]
    (gradient_NV,) = torch.autograd.grad((slopes_N * logprobs_N).sum(), logits_NV)
    found_N = logprob_token_weights(logits_NV.detach(), labels_N, slopes_N, temperature)
    torch.testing.assert_close(found_N, gradient_NV.norm(dim=-1))
