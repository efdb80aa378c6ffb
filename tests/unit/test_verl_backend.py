"""What the verl backend does without verl: overrides, what each step learns from stored traces, columns, refusals."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import Config
from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.errors import UsageError
from composer_replication.losses.sampled import preference_slopes, sampled_terms
from composer_replication.objective import SdpoSettings, TrdpoSettings
from composer_replication.training import running, train_verl
from composer_replication.training.backends import refuse_unknown_backend
from composer_replication.training.backends.verl.lesson_rows import (
    Columns,
    pair_columns,
    site_columns,
    told_of_rollouts,
)
from composer_replication.training.backends.verl.overrides import VerlJob, overrides, refuse_fixed_overrides
from composer_replication.training.backends.verl.stored_steps import read_steps, stored_steps, write_steps
from composer_replication.training.planning.refusals import refuse_for_backend
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample
from composer_replication.training.train_verl import entries_of, reason_in, saved_start
from tests.notes import Lines

PAIR = PairTokens([1, 2], [3, 4], [5], -1.0, -2.0, 0.1)
EXAMPLE = TraceExample([1, 2, 3, 4], [0, 0, 1, 1], 0.0, [SiteTokens(2, 4, [1, 9, 2])], [PAIR], trace_id="t")


def config_of(sdpo=None, grpo=None, **sections):
    channels = [
        {"name": "grpo", **(grpo or {})},
        {"name": "sdpo", "teacher": "live", **(sdpo or {})},
        {"name": "trdpo", "weight": 0.5},
    ]
    return Config.model_validate({"channels": channels, **sections})


def chosen(config, folder="runs/a b", **job):
    limits = EpisodeLimits(turns=2, observation_tokens=8)
    made = overrides(config, VerlJob(Path(folder), Path("model"), 2, 100, limits, {"VERL_X": "1"}, **job), "head:6379")
    return dict(override.split("=", 1) for override in made)


def test_overrides_follow_the_config_and_quote_paths():
    found = chosen(config_of(training={"max_turn_tokens": 12, "learning_rate": 1e-3}), folder="runs/it's [a] b")
    assert found["data.max_response_length"] == "40"
    assert found["actor_rollout_ref.actor.optim.lr"] == "0.001"
    assert found["+composer.folder"] == r"'runs/it\'s [a] b'"
    assert found["+ray_kwargs.ray_init.address"] == "'head:6379'"
    assert found["+ray_kwargs.ray_init.runtime_env.env_vars.VERL_X"] == "'1'"


@pytest.mark.parametrize(
    ("folder", "written"),
    [
        (r"a\b", r"'a\b'"),
        ("runs/${oc.env:SECRET}/x", r"'runs/\${oc.env:SECRET}/x'"),
        (r"a\${b}", r"'a\\\${b}'"),
        (r"it\'s", r"'it\\\'s'"),
        ("a\\", r"'a\\'"),
        ("$a{b", "'$a{b'"),
    ],
)
def test_a_path_is_written_so_that_hydra_reads_it_as_it_is(folder, written):
    assert chosen(config_of(), folder=folder)["+composer.folder"] == written


@pytest.mark.parametrize(
    "override",
    [
        "actor_rollout_ref.actor.ppo_mini_batch_size=1",
        "++actor_rollout_ref.actor.shuffle=True",
        "actor_rollout_ref.rollout.temperature=0.5",
        "actor_rollout_ref.rollout={temperature:0.5}",
        "trainer.v1.trainer_mode=sync",
    ],
)
def test_an_override_of_what_our_trainer_takes_as_given_is_refused_while_it_has_a_channel(override):
    key = override.partition("=")[0].lstrip("+")
    with pytest.raises(UsageError, match=key):
        refuse_fixed_overrides(config_of(sdpo={"weight": 0}), ["trainer.nnodes=2", override])
    refuse_fixed_overrides(Config.model_validate({"channels": [{"name": "grpo"}]}), [override])


def test_other_overrides_are_taken():
    refuse_fixed_overrides(config_of(), ["actor_rollout_ref.actor.shuffle_other=1", "data.shuffle=True"])


def test_products_are_in_float32_where_nothing_casts():
    key = "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"
    assert chosen(config_of(), on_gpu=False)[key] == "'fp32'"
    assert chosen(config_of(), on_gpu=True)[key] == "'bf16'"


def test_what_a_step_learns_from_stored_traces_survives_its_file(tmp_path):
    config = config_of(training={"steps": 4}, sdpo={"schedule": {"warmup_share": 0.5}})
    write_steps(tmp_path / "steps", stored_steps(config, [EXAMPLE]))
    steps = read_steps(tmp_path / "steps")
    assert [step.sdpo_weight for step in steps] == pytest.approx([0.05, 0.1, 0.1, 0.1])
    assert [(site.context, site.turn) for site in steps[3].sites] == [([1, 2], [3, 4])]
    assert steps[3].pairs == [PAIR]


def test_channels_without_a_weight_ask_for_nothing():
    config = Config.model_validate({"channels": [{"name": "grpo"}], "training": {"steps": 1}})
    (step,) = stored_steps(config, [EXAMPLE])
    assert not (step.sites or step.pairs or step.sdpo_weight or step.trdpo_weight)


def test_a_site_that_the_hint_does_not_disfavour_is_dropped_and_counted():
    columns = [Columns.empty(4), Columns.empty(2)]
    own, better, worse = torch.tensor([-1.0, -1.0]), torch.tensor([-0.5, -0.5]), torch.tensor([-2.0, -3.0])
    told = site_columns(columns, [(0, 1, 3), (1, 0, 2)], [own, own], [worse, better], 0.6, SdpoSettings())
    assert columns[0].weight.tolist() == pytest.approx([0, 0.15, 0.15, 0])
    assert columns[0].teacher.tolist() == [0, -2, -3, 0]
    assert not columns[1].weight.any()
    assert (told["composer/sdpo_sites"], told["composer/sdpo_kept"], told["composer/sdpo_impossible"]) == (2, 0.5, 0)
    assert told["composer/sdpo_divergence"] == pytest.approx((1.25 + 0.125) / 2)
    assert told["composer/sdpo_loss"] == pytest.approx(1.25 / 2)


@pytest.mark.parametrize("broken", ["own", "hinted"])
def test_a_site_that_is_not_finite_is_dropped_and_spoils_no_figure(broken):
    sides = {"own": [-1.0, -1.0], "hinted": [-2.0, -3.0]}
    bad = {**sides, broken: [-1.0, float("-inf")]}
    columns = [Columns.empty(2), Columns.empty(2)]
    own, hinted = ([torch.tensor(found[side]) for found in (sides, bad)] for side in ("own", "hinted"))
    told = site_columns(columns, [(0, 0, 2), (1, 0, 2)], own, hinted, 0.6, SdpoSettings(require_disfavour=False))
    assert not columns[1].weight.any() and not columns[1].teacher.any()
    assert (told["composer/sdpo_kept"], told["composer/sdpo_impossible"]) == (0.5, 0.5)
    assert (told["composer/sdpo_divergence"], told["composer/sdpo_loss"]) == pytest.approx((1.25, 1.25 / 2))


def test_the_loss_of_channel_2_is_told_after_its_gates(tmp_path):
    data = {"composer/sdpo_loss": 0.5, "composer/sdpo_divergence": 2.0}
    (tmp_path / "metrics-0.jsonl").write_text(json.dumps({"step": 1, "data": data}))
    (entry,) = entries_of(tmp_path)
    assert (entry["channel/sdpo"], entry["composer/sdpo_divergence"]) == (0.5, 2.0)


def test_a_step_without_sites_tells_so_and_why():
    assert told_of_rollouts([[], [("too_long", 2)], [("too_long", 1), ("kind_off", 1)]]) == {
        "composer/sdpo_sites": 0,
        "composer/sdpo_left_out/kind_off": 1,
        "composer/sdpo_left_out/too_long": 3,
    }


def test_columns_of_a_pair_push_both_sides_apart():
    scores = [torch.tensor([-1.0, -2.0]), torch.tensor([-1.5])]
    _, (chosen_side, rejected_side) = pair_columns(scores, [PAIR], 0.5, TrdpoSettings())
    assert chosen_side.slope.tolist() == pytest.approx([chosen_side.slope[0].item()] * 2)
    assert chosen_side.slope[0] < 0 < rejected_side.slope[0]


def test_tokens_without_weight_or_slope_add_nothing_even_where_they_are_not_finite():
    broken = torch.tensor([float("-inf"), -1.0], requires_grad=True)
    terms = sampled_terms(broken, torch.zeros(2), torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
    assert [term.item() for term in terms] == [1.0, -3.0]
    (gradient,) = torch.autograd.grad(sum(terms), [broken])
    assert gradient.tolist() == [0.0, 1.0]


def test_imitation_alone_has_no_slope_at_the_rejected_side():
    one = torch.ones(1)
    found = preference_slopes(
        -one, -one, -one, -one, chosen_tokens_B=one, rejected_tokens_B=one, sft_only=True, nll_weight=1.0
    )
    assert (found.chosen_B.item(), found.rejected_B.item()) == (-1.0, 0.0)


class StoppedOnce:
    """A policy whose first saving ends halfway."""

    def __init__(self):
        self.files = iter([["config"], ["config", "weights"]])

    def save(self, folder):
        folder.mkdir(exist_ok=True)
        files = next(self.files)
        for name in files:
            (folder / name).touch()
        if len(files) == 1:
            raise KeyboardInterrupt


def test_a_model_that_was_saved_by_half_is_saved_again(tmp_path):
    policy = StoppedOnce()
    with pytest.raises(KeyboardInterrupt):
        saved_start(policy, tmp_path)
    assert not (tmp_path / "start").exists()
    for _ in range(2):
        assert sorted(path.name for path in saved_start(policy, tmp_path).iterdir()) == ["config", "weights"]


STAND_IN = """
import os, pathlib, time
pathlib.Path(os.environ["VERL_FILE_LOGGER_PATH"]).write_text('{"step": 1, "data": {"critic/score/mean": 0.5}}\\n')
time.sleep(10)
"""


def test_a_long_step_says_where_its_log_is_and_an_interrupt_what_is_kept(tmp_path, monkeypatch):
    """A stand-in writes one step in place of verl and then nothing, as verl does in a long one."""

    def interrupt_after_a_silence(seconds):
        if any("1/2 step 2" in one for one in said.said):
            raise KeyboardInterrupt
        time.sleep(0.05)

    said = Lines()
    entry = tmp_path / "stand_in" / "verl" / "trainer" / "main_ppo.py"
    entry.parent.mkdir(parents=True)
    entry.write_text(STAND_IN)
    env = {"PYTHONPATH": str(tmp_path / "stand_in"), "VERL_FILE_LOGGER_PATH": str(tmp_path / "metrics-0.jsonl")}
    job = VerlJob(tmp_path, tmp_path, 1, 8, EpisodeLimits(), env, False)
    monkeypatch.setattr(running, "SECONDS_OF_SILENCE", 0.05)
    monkeypatch.setattr(train_verl, "time", SimpleNamespace(sleep=interrupt_after_a_silence))
    with pytest.raises(KeyboardInterrupt):
        train_verl._run([], job, 2, said)
    assert "1/2 reward 0.50" in said.said
    assert f"1/2 step 2, verl is at work and writes {tmp_path / 'verl.log'}" in said.said
    assert said.said[-1] == "1 step finished, 0 kept"


def test_the_reason_is_of_this_attempt(tmp_path):
    log = tmp_path / "verl.log"
    earlier = "ValueError: é of the first attempt\n"
    log.write_text(earlier + "killed\n", encoding="utf-8")
    assert reason_in(log, len(earlier.encode())) == "killed"
    assert reason_in(log, 0).startswith("ValueError")
    assert reason_in(log, log.stat().st_size) == "it wrote nothing"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (config_of(training={"token_weights": True}), "token_weights"),
        (config_of(training={"dynamic_sampling_rounds": 1}), "dynamic_sampling_rounds"),
        (config_of(training={"temperature": 0.7}), "temperature"),
        (config_of(hardware={"lora_rank": 4}), "lora_rank"),
        (config_of(sdpo={"source": "rollouts", "teacher": "ema"}), "second policy"),
        (config_of(sdpo={"source": "rollouts", "sibling_hints": "outcome"}), "sibling_hints"),
        (config_of(sdpo={"top_k": 4}), "top_k"),
        (config_of(grpo={"weight": 0.5}), "weight of the channel grpo"),
        (config_of(grpo={"schedule": {"warmup_share": 0.5}}), "schedule of the channel grpo"),
    ],
)
def test_what_verl_does_not_do_is_refused(config, named):
    with pytest.raises(UsageError, match=named):
        refuse_for_backend(config, "verl", 1)


def test_verl_takes_the_defaults():
    refuse_for_backend(config_of(), "verl", 1)


def test_an_option_of_one_backend_is_refused_by_the_others():
    refuse_unknown_backend("verl", url=None, ray_address="head:6379", override=("a=b",))
    with pytest.raises(UsageError, match="--ray-address"):
        refuse_unknown_backend("trl", ray_address="head:6379")
    with pytest.raises(UsageError, match="--url"):
        refuse_unknown_backend("tinker")
