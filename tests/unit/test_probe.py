"""The probe of hints: what counts as right, and which kinds have something to teach."""

from __future__ import annotations

import json
import random

import pytest

from composer_replication.config import Config, WarmupConfig
from composer_replication.environments.toolbox import FINISH, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.environments.toolbox.environment import ToolboxEnvironment, open_toolbox
from composer_replication.errors import UsageError
from composer_replication.evaluation import probe
from composer_replication.evaluation.probe import Site, Tried, gaps, kinds_without_use, probe_hints
from composer_replication.objective import SdpoSettings
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.training.lessons.hinters import hinter_of
from composer_replication.training.lessons.online_sites import HintedTurn, Rolled
from composer_replication.training.models.loading import load_policy
from tests.command_line import recompose
from tests.headers import header_ids


def tried(site, kind, plain, hint, sham=0.0):
    shares = {"plain": plain, "hint": hint, "sham": sham}
    return [
        Tried(site=site, kind=kind, condition=name, tries=4, accepted=share, right=share)
        for name, share in shares.items()
    ]


def test_a_kind_is_useful_when_the_hint_makes_a_tenth_more_turns_right():
    lines = [line for site in range(20) for line in tried(site, "type_error", 0.25, 0.5)]
    lines += [line for site in range(20, 30) for line in tried(site, "json_decode", 0.25, 0.25, sham=0.5)]
    every, type_error, json_decode = gaps(lines)
    assert (every.kind, every.sites) == ("all", 30)
    assert every.gap.mean == pytest.approx(0.25 * 20 / 30)
    assert (type_error.kind, type_error.gap.mean, type_error.useful) == ("type_error", 0.25, True)
    assert (json_decode.gap.mean, json_decode.sham_gap.mean, json_decode.useful) == (0.0, 0.25, False)
    told = type_error.model_dump()
    assert told["gap"] == {"mean": 0.25, "lo": None, "hi": None, "n": 20}, "all alike, which is no certainty"
    assert told["right"]["plain"]["lo"] is None and every.model_dump()["gap"]["lo"] > 0


def test_a_kind_is_switched_off_only_where_its_interval_says_so():
    """A single site without a gap, many that are too noisy to tell, and as many that are not."""
    lines = [*tried(0, "type_error", 0.25, 0.25)]
    lines += [line for site in range(1, 9) for line in tried(site, "not_found", site % 2, (site // 2) % 2)]
    lines += [line for site in range(9, 49) for line in tried(site, "json_decode", 0.5, 0.375 + site % 2 / 4)]
    found = {one.kind: one for one in gaps(lines)}
    assert [found[kind].gap.mean for kind in ("type_error", "not_found", "json_decode")] == [0, 0, 0]
    assert found["not_found"].gap.hi > 0.1 > found["json_decode"].gap.hi
    assert kinds_without_use(gaps(lines)) == ("json_decode",)


@pytest.mark.parametrize(("sites", "off"), [(6, ()), (30, ()), (31, ("not_found",))])
def test_sites_that_are_all_alike_say_little_of_others(sites, off):
    """Of six without a gap, four in ten of all could have one."""
    lines = [line for site in range(sites) for line in tried(site, "not_found", 0.0, 0.0)]
    assert kinds_without_use(gaps(lines)) == off


def test_the_interval_of_few_sites_is_wide_enough():
    holds_zero = 0
    for seed in range(200):
        draw = random.Random(seed)
        lines = [line for site in range(6) for line in tried(site, "type_error", draw.random(), draw.random())]
        gap = gaps(lines)[0].gap
        holds_zero += gap.lo <= 0 <= gap.hi
    assert holds_zero >= 180  # 190 expected; with plain percentiles it was 167


def test_sites_of_one_task_do_not_count_as_many():
    """Four tasks, of which one alone is helped at each of its eight sites."""
    lines = [line for site in range(32) for line in tried(site, "type_error", 0.0, float(site % 4 == 0))]
    alone = gaps(lines)[0].gap
    together = gaps([line.model_copy(update={"task_id": f"task {line.site % 4}"}) for line in lines])[0]
    assert (together.sites, together.gap.n, together.gap.mean) == (32, 4, alone.mean)
    assert alone.lo > 0.1 and together.gap.lo == 0.0 and together.gap.hi > alone.hi


def site_of(config, index=0):
    """The first turn of a task, after which everything is still open."""
    task = make_task(config.toolbox, "train", index)
    episode = ToolboxEpisode(task)
    episode.step("nonsense")
    trace = trace_of(episode, "policy", 0)
    return Site(Rolled(trace, [], [], []), HintedTurn(0, "json_decode", ""), {})


def test_a_turn_is_right_when_it_does_what_the_oracle_would_do():
    site, environment = site_of(Config()), open_toolbox(Config())
    call = next_call(ToolboxEpisode(environment.task(site.rolled.trace.task_id)))
    assert call is not None
    right = call.render()
    assert probe._judge(environment, site, right) == (True, True)
    spaced = json.dumps(json.loads(right), indent=1)
    assert probe._judge(environment, site, spaced) == (True, True)
    assert probe._judge(environment, site, right[:-1]) == (False, False)
    assert probe._judge(environment, site, FINISH) == (True, False)


def test_the_conditions_differ_only_in_the_hint():
    config = Config(warmup=WarmupConfig(steps=0))
    policy = load_policy("tiny", ToolboxEnvironment(config.toolbox), 0)
    import torch

    sites = probe._error_sites(policy, config, open_toolbox(config), 8, torch.Generator().manual_seed(0), Silent())
    assert len(sites) == 8
    for site in sites:
        plain, hint, sham = (site.contexts[name] for name in probe.CONDITIONS)
        header = header_ids(policy.tokens)
        assert plain[-len(header) :] == hint[-len(header) :] == sham[-len(header) :] == list(header)
        assert hint[: len(plain) - len(header)] == plain[: -len(header)] == sham[: len(plain) - len(header)]
        assert site.hinted.hint in policy.tokenizer.decode(hint)
        assert hint != sham


def test_every_site_is_tried_under_every_condition_and_the_seed_decides():
    config = Config()
    policy = load_policy("tiny", ToolboxEnvironment(config.toolbox), 0)
    first, again = (probe_hints(policy, config, open_toolbox(config), sites=4, tries=2) for _ in range(2))
    assert first == again
    assert sorted((one.site, one.condition) for one in first) == sorted(
        (site, condition) for site in range(4) for condition in probe.CONDITIONS
    )
    assert {one.tries for one in first} == {2}


def batch_told(policy, environment, config, batch, generator):
    raise InterruptedError(len(batch), [len({task.task_id for task in batch[:first]}) for first in (8, len(batch))])


@pytest.fixture
def told_of_batches(monkeypatch):
    monkeypatch.setattr("composer_replication.training.rollouts.playing.sample_rolled", batch_told)


def test_hints_of_siblings_are_probed_in_groups_of_one_task(told_of_batches):
    config = Config.model_validate(
        {
            "channels": [{"name": "sdpo", "source": "rollouts", "sibling_hints": "outcome"}],
            "training": {"group_size": 4},
        }
    )
    policy = load_policy("tiny", ToolboxEnvironment(config.toolbox), 0)
    with pytest.raises(InterruptedError) as told:
        probe_hints(policy, config, open_toolbox(config), sites=2)
    assert told.value.args == (32, [8, 8]), "the first ones are of different tasks, since sites are taken in order"
    assert hinter_of(config.hints, config.channel(SdpoSettings)).follows == {"sham": False, "sibling_hints": "outcome"}


@pytest.mark.parametrize(("sites", "rollouts"), [(2, 32), (500, 256)])
def test_few_sites_need_few_rollouts(told_of_batches, sites, rollouts):
    policy = load_policy("tiny", ToolboxEnvironment(Config().toolbox), 0)
    with pytest.raises(InterruptedError) as told:
        probe_hints(policy, Config(), open_toolbox(Config()), sites=sites)
    assert told.value.args == (rollouts, [8, rollouts])


def test_too_few_errors_are_told(monkeypatch):
    monkeypatch.setattr(probe, "MOST_ROLLOUTS", 1)
    monkeypatch.setattr(probe, "ROLLOUTS_AT_ONCE", 1)
    policy = load_policy("tiny", ToolboxEnvironment(Config().toolbox), 0)
    with pytest.raises(UsageError, match="error turns with a hint"):
        probe_hints(policy, Config(), open_toolbox(Config()), sites=500)


@pytest.mark.parametrize("sites", [0, -3])
def test_a_probe_of_no_sites_is_refused_before_anything_is_played(tmp_path, sites):
    Run.start(tmp_path / "run", Config())
    ended = recompose("evaluate", tmp_path / "run", "--probe", "--sites", sites)
    assert ended.returncode == 2
    assert "--sites" in ended.stderr and "Must be >= 1" in ended.stderr and "Traceback" not in ended.stderr
    assert not (tmp_path / "run" / "policy" / "model").exists()
