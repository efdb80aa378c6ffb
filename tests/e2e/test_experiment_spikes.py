"""The spikes' tables follow from their raw files, and their checks can fail. Nothing is sampled or trained here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
import zstandard

from composer_replication.config import load_config

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
REBUILT = ("002a-trl-traces", "002b-verifiers-traces", "003-pair-density", "007-real-traces")


def script(experiment: str, name: str):
    """A script of an experiment as a module; several are called alike."""
    known = f"{experiment}/{name}"
    spec = importlib.util.spec_from_file_location(known, EXPERIMENTS / experiment / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module
    spec.loader.exec_module(module)
    return module


def copied(experiment, folder, monkeypatch):
    """Its rebuild script, at work on a copy of its results."""
    module = script(experiment, "rebuild")
    shutil.copytree(EXPERIMENTS / experiment / "results", folder / "results")
    monkeypatch.setattr(module, "RESULTS", folder / "results")
    return module


def change_lines(path, change):
    lines = [json.loads(line) for line in zstandard.decompress(path.read_bytes(), 1 << 28).decode().splitlines()]
    change(lines)
    path.write_bytes(zstandard.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


@pytest.mark.parametrize("experiment", REBUILT)
def test_tables_are_rebuilt_from_the_raw_files(experiment, tmp_path, monkeypatch):
    module = copied(experiment, tmp_path, monkeypatch)
    (tmp_path / "results" / "table.md").unlink()
    module.rebuild()
    kept = (EXPERIMENTS / experiment / "results" / "table.md").read_text()
    assert (tmp_path / "results" / "table.md").read_text() == kept


@pytest.mark.parametrize("experiment", [*REBUILT, "004-swebench"])
def test_readmes_quote_what_the_tables_hold(experiment):
    """Every table row of a README that the results also begin with is the same to the end."""
    rows = (EXPERIMENTS / experiment / "results" / "table.md").read_text().splitlines()
    quoted = [line for line in (EXPERIMENTS / experiment / "README.md").read_text().splitlines() if line[:2] == "| "]
    assert quoted
    assert [line for line in quoted if line not in rows] == []


def test_trl_rollouts_are_whole(tmp_path, monkeypatch):
    counts = copied("002a-trl-traces", tmp_path, monkeypatch).count(tmp_path / "results")
    assert counts["rollouts"] == counts["rollouts_with_the_statement_in_the_prompt"] == 100
    assert counts["turns"] == counts["tuples_complete"] == counts["turns_equal_to_what_was_sampled"]
    assert counts["calls_left_unanswered"] == counts["turns_cut_off"] == 0


def test_a_changed_token_and_a_lost_answer_are_noticed(tmp_path, monkeypatch):
    module = copied("002a-trl-traces", tmp_path, monkeypatch)
    before = module.count(tmp_path / "results")

    def damage_tokens(rollouts):
        rollouts[0]["completion_ids"][0] += 1
        rollouts[1]["completion_ids"].pop()
        rollouts[1]["sampled_mask"].pop()

    def damage_trace(traces):
        turn = traces[2]["turns"][-1]
        traces[2]["messages"][turn["start"]] = {"role": "assistant", "content": ""}

    change_lines(tmp_path / "results" / "tokens.jsonl.zst", damage_tokens)
    change_lines(tmp_path / "results" / "traces.jsonl.zst", damage_trace)
    after = module.count(tmp_path / "results")
    assert after["turns_equal_to_what_was_sampled"] == before["turns_equal_to_what_was_sampled"] - 2
    assert after["turns_cut_off"] == 1
    assert after["tuples_complete"] == before["tuples_complete"] - 1


def test_verifiers_rollouts_hold_what_was_served_and_damage_is_noticed(tmp_path, monkeypatch):
    module = copied("002b-verifiers-traces", tmp_path, monkeypatch)
    counts = module.count("train")
    assert counts["rollouts"] == counts["with_reward"] == 100
    assert counts["turns"] == counts["turns_with_logprobs"] == counts["turns_as_they_were_served"]
    assert module.count("eval")["turns_with_ids"] == 0

    def damage(episodes):
        nodes = [node for node in episodes[0]["traces"][0]["nodes"] if node["sampled"]]
        nodes[-1]["logprobs"].pop()
        nodes[-1]["token_ids"][-1] += 1

    change_lines(tmp_path / "results" / "train.traces.jsonl.zst", damage)
    damaged = module.count("train")
    assert damaged["turns_with_logprobs"] == counts["turns_with_logprobs"] - 1
    assert damaged["turns_as_they_were_served"] == counts["turns_as_they_were_served"] - 1


def test_pair_density_counts_every_trace(tmp_path, monkeypatch):
    module = copied("003-pair-density", tmp_path, monkeypatch)
    for path in (tmp_path / "results").glob("*-[0-9].json"):
        stored = json.loads(path.read_text())
        for row in stored["ways"].values():
            assert row["simulated"]
            assert len(row["pairs_of_each_trace"]) == stored["traces"] == len(stored["turns"])
            assert sum(row["pairs_of_each_trace"]) == row["funnel"]["pairs"]
    assert module.THRESHOLD == 5.0


class TestSweBench:
    run = script("004-swebench", "run")
    config = load_config(EXPERIMENTS / "004-swebench" / "config.toml")

    def assumed(self):
        return self.run.tomllib.loads((EXPERIMENTS / "004-swebench" / "assumptions.toml").read_text())

    def test_arms_differ_in_one_weight(self):
        plain, replayed = (arm.model_dump() for arm in self.run.arms(self.config).values())
        assert (plain["channels"][2].pop("weight"), replayed["channels"][2].pop("weight")) == (0.0, 0.05)
        assert plain == replayed

    def test_cost_follows_from_the_assumptions(self):
        spent = self.run.cost(self.config, self.assumed())
        stored = json.loads((EXPERIMENTS / "004-swebench" / "results" / "cost.json").read_text())
        assert spent == stored
        dearer = self.assumed()
        dearer["hardware"]["dollars_per_gpu_hour"] *= 2
        twice = self.run.cost(self.config, dearer)
        assert twice["pair_of_runs_dollars"] == pytest.approx(2 * spent["pair_of_runs_dollars"])

    def test_three_seeds_cannot_reach_significance(self):
        assert self.run.sign_flip([0.02, 0.02, 0.02]).p == 0.25
        stored = json.loads((EXPERIMENTS / "004-swebench" / "results" / "power.json").read_text())
        assert stored["exact_floor_by_seeds"]["3"] == 0.25
        assert stored["exact_floor_by_seeds"]["6"] < 0.05 < stored["exact_floor_by_seeds"]["5"]
        for row in stored["seeds"]:
            effect = self.run.minimum_detectable_effect(row["paired_sd"], row["seeds_needed_t_test"])
            assert effect <= stored["effect"] < row["detectable_with_3_seeds"]

    def test_the_table_is_made_of_the_stored_figures(self):
        results = EXPERIMENTS / "004-swebench" / "results"
        spent, powered = (json.loads((results / f"{name}.json").read_text()) for name in ("cost", "power"))
        assert self.run.table(spent, powered) == (results / "table.md").read_text()
