"""`hardware.weights` holds wherever a model is loaded, saved or sampled; what bfloat16 cannot learn is said."""

from __future__ import annotations

import hashlib
import shutil
import tracemalloc

import pytest
import torch

from composer_replication.config import Config, EvaluationConfig, HardwareConfig, ModelConfig, WarmupConfig, load_config
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages import evaluation
from composer_replication.stages.policy import load_model, load_own, model_folder, policy_weights
from composer_replication.store import hash_of
from composer_replication.training.checking import selfcheck
from composer_replication.training.checking.gap_probe import GapProbe
from composer_replication.training.models.loading import load_policy, load_saved_policy
from composer_replication.training.models.shape import shape_of
from composer_replication.training.planning.memory import cache_bytes
from composer_replication.training.policy import prepare_policy
from composer_replication.training.rollouts import playing
from composer_replication.training.running import movable_share, warn_of_stuck_weights
from tests.notes import Notes

BRAIN = HardwareConfig(weights="bfloat16")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    measured = EvaluationConfig(tasks=2, splits=("heldout",))
    config = Config(warmup=WarmupConfig(steps=1, batch_size=2), hardware=BRAIN, evaluation=measured)
    run = Run.start(tmp_path_factory.mktemp("runs") / "run", config)
    run_stage(run, "policy", Silent())
    return run


def test_the_starting_policy_is_saved_and_loaded_in_the_wanted_type(run):
    from safetensors import safe_open

    with safe_open(model_folder(run) / "model.safetensors", "pt") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert kinds == {"BF16"}
    for policy in (load_own(run), load_model(run, str(model_folder(run))), load_model(run, "tiny")):
        assert {parameter.dtype for parameter in policy.model.parameters()} == {torch.bfloat16}


def test_the_hash_is_that_of_all_files_and_needs_no_room_for_them(run, tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    content = [bytes([number]) * (24 << 20) for number in (1, 2)]
    for path, bytes_ in zip(files, content, strict=True):
        path.write_bytes(bytes_)
    expected = hashlib.sha256(b"".join(content)).hexdigest()
    del content
    tracemalloc.start()
    assert hash_of(files) == expected
    assert tracemalloc.get_traced_memory()[1] < 12 << 20
    tracemalloc.stop()


def test_a_real_model_starts_as_it_is_unless_a_warm_up_is_asked_for(tmp_path, make_model, tiny_tokens):
    folder = tmp_path / "model"
    make_model(len(tiny_tokens.tokenizer)).save_pretrained(folder)
    tiny_tokens.tokenizer.save_pretrained(folder)
    notes = Notes()
    config = Config(model=ModelConfig(name=str(folder)))
    assert config.warmup.steps == 0
    made = prepare_policy(config, open_toolbox(config), tmp_path / "out", notes)
    assert made.warmup_steps == 0 and "starts as it is" in notes.said[0]
    before, after = (load_saved_policy(where, "x").model.state_dict() for where in (folder, tmp_path / "out"))
    assert all(torch.equal(before[name], after[name]) for name in before)
    asked = Config(model=ModelConfig(name=str(folder)), warmup=WarmupConfig(steps=1, batch_size=2))
    prepare_policy(asked, open_toolbox(asked), tmp_path / "warm", notes)
    assert "1 warm-up steps on old logs change" in notes.said[-1]


def test_the_warm_up_of_files(tmp_path):
    def steps(text):
        (tmp_path / "my.toml").write_text(text)
        return load_config(tmp_path / "my.toml").warmup.steps

    assert steps("seed = 1") == 220
    assert steps('[model]\nname = "tiny"\n[warmup]\nbatch_size = 4') == 220
    assert steps('[model]\nname = "smollm2"') == 0
    assert steps('[model]\nname = "Qwen/Qwen3-8B"\n[warmup]\nbatch_size = 4') == 0
    assert steps('[model]\nname = "smollm2"\n[warmup]\nsteps = 40') == 40


def test_how_many_entries_a_step_can_move():
    """Against Adam itself: one step on weights of a usual size, gradients of one size."""
    torch.manual_seed(0)
    model = torch.nn.Linear(400, 400, bias=False, dtype=torch.bfloat16)
    torch.nn.init.normal_(model.weight, std=0.02)
    for rate in (1e-6, 1e-5, 1e-4):
        before = model.weight.detach().clone()
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        model.weight.grad = torch.randn_like(model.weight).sign()
        optimiser.step()
        moved = (model.weight != before).float().mean().item()
        with torch.no_grad():
            model.weight.copy_(before)
        assert movable_share(model, rate) == pytest.approx(moved, abs=0.06)
    assert movable_share(model, 1e-6) < 0.05 < 0.9 < movable_share(model, 1e-3)


def test_weights_that_hardly_move_are_told_of(make_model):
    model = make_model(64).to(torch.bfloat16)
    said = {}
    for name, hardware in {
        "stuck": BRAIN,
        "adapters": HardwareConfig(weights="bfloat16", lora_rank=4),
        "float32": HardwareConfig(),
    }.items():
        notes = Notes()
        config = Config(hardware=hardware)
        training = config.training.model_copy(update={"learning_rate": 1e-6})
        warn_of_stuck_weights(model, config.model_copy(update={"training": training}), notes)
        said[name] = notes.said
    assert "% of the entries can move" in said["stuck"][0]
    assert said["adapters"] == said["float32"] == []


def test_as_many_rollouts_at_once_as_half_of_the_memory_takes(make_model, monkeypatch):
    model = make_model(64)
    row = cache_bytes(shape_of(model.config), 100, 1, 4)
    for free, rows in ((10**12, 300), (2 * 300 * row, 300), (2 * 299 * row, 150), (2 * 40 * row, 37), (0, 1)):
        monkeypatch.setattr(playing, "free_bytes", lambda free=free: free)
        assert playing.rows_that_fit(model, 100, 300) == rows
    monkeypatch.setattr(playing, "free_bytes", lambda: 10**12)
    assert playing.rows_that_fit(model, 100, 9000) == 512


@pytest.mark.parametrize(("set_rows", "at_once"), [(None, 6), (4, 4)])
def test_rollouts_are_played_in_batches_of_that_size(monkeypatch, set_rows, at_once):
    config = Config(hardware=HardwareConfig(rollouts_at_once=set_rows))
    environment = open_toolbox(config)
    policy = load_policy("tiny", environment, 0)
    seen = []
    started = playing.started
    monkeypatch.setattr(playing, "started", lambda where, tasks: seen.append(len(tasks)) or started(where, tasks))
    tasks = [task for task, _ in zip(environment.tasks("train"), range(6), strict=False)]
    found = playing.sample_rollouts(policy, environment, config, tasks)
    assert len(found) == 6 and max(seen) == at_once and sum(seen) == 6


@pytest.mark.parametrize(("set_rows", "free", "notes"), [(None, 0, 1), (4, 0, 0), (None, 10**12, 0)])
def test_memory_that_decides_what_a_seed_gives_is_told(monkeypatch, set_rows, free, notes):
    config = Config(hardware=HardwareConfig(rollouts_at_once=set_rows))
    environment = open_toolbox(config)
    tasks = [task for task, _ in zip(environment.tasks("train"), range(6), strict=False)]
    monkeypatch.setattr(playing, "free_bytes", lambda: free)
    monkeypatch.setattr(playing, "roll_out", lambda *given, **options: [])
    told = Notes()
    playing.sample_rollouts(load_policy("tiny", environment, 0), environment, config, tasks, progress=told)
    assert len(told.said) == notes and all("hardware.rollouts_at_once = 1" in note for note in told.said)


def test_a_run_and_a_folder_of_the_same_weights_have_the_same_hash(run):
    _, by_folder = policy_weights(run, str(model_folder(run)))
    assert by_folder == policy_weights(run, "policy")[1]


def test_before_and_after_are_never_in_memory_together(run, monkeypatch, tmp_path):
    import gc
    import weakref

    held = []
    load = evaluation.load_own

    def load_alone(run, noun="policy"):
        gc.collect()
        assert not any(reference() for reference in held)
        policy = load(run, "policy")
        held.append(weakref.ref(policy.model))
        return policy

    own = Run.open(shutil.copytree(run.path, tmp_path / "run"))
    own.stage("training").finish([], {}, [], 0.0)
    monkeypatch.setattr(evaluation, "load_own", load_alone)
    for written in ("summary.write_report", "model_card.write_card"):
        monkeypatch.setattr(f"composer_replication.evaluation.{written}", lambda run: None)
    evaluation.evaluate(own, Silent())
    assert len(held) == 2
    assert [outcome.phase for outcome in own.stage("evaluation").read(TaskOutcome)] == [
        "before",
        "before",
        "after",
        "after",
    ]


@pytest.mark.parametrize(
    ("kind", "plain", "hinted", "passed"),
    [
        ("float32", 0.0, 3e-3, [True, True]),
        ("float32", 2e-5, 3e-3, [False, True]),
        ("bfloat16", 2e-5, 3e-3, [True, True]),
        ("bfloat16", 4e-3, 3e-3, [True, False]),
        ("bfloat16", 2e-2, 0.3, [False, True]),
    ],
)
def test_what_rounding_may_change_depends_on_the_type(kind, plain, hinted, passed):
    gap = GapProbe(8, 8, {}, plain, hinted, 0.5, 1.0, 1.0)
    limit = selfcheck.MAX_EMPTY_DIVERGENCE[kind]
    checks = selfcheck._checks({"steps": 10, "is_finite": True}, gap, True, limit)
    assert [check.passed for check in checks if "hint" in check.name] == passed


def test_the_selfcheck_trains_the_adapters_of_the_recipe(monkeypatch, tmp_path):
    pytest.importorskip("peft", reason="peft is not installed")
    config = Config(hardware=HardwareConfig(weights="bfloat16", lora_rank=4))
    config = config.model_copy(
        update={"training": config.training.model_copy(update={"steps": 1, "prompts_per_step": 1, "group_size": 2})}
    )
    environment = open_toolbox(config)
    digests = []
    for kind in (selfcheck.GRPOTrainer, selfcheck.ComposerReplicationTrainer):
        policy = load_policy("tiny", environment, 0, "bfloat16")
        digests.append(selfcheck._digest_after(kind, policy, config, environment, tmp_path))
        trained = {
            name: parameter.dtype for name, parameter in policy.model.named_parameters() if parameter.requires_grad
        }
        assert trained and all("lora" in name for name in trained)
    assert digests[0] == digests[1]
