"""What `recompose quickstart --environment code` starts from: certified tasks of the small repository that ships with
the project, and settings with which a small model plays, learns and is measured on two CPU cores within minutes.

Writes the tasks under a folder of the caller's; made once, they are found again. A model of 135M parameters solves few
of them or none, and the report says so.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

from composer_replication.config import (
    Config,
    EnvironmentConfig,
    EvaluationConfig,
    IngestionConfig,
    ModelConfig,
    TrainingConfig,
    WarmupConfig,
)
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.progress import Progress

from .generators.kinds import GeneratorSettings
from .making.make import MakeSettings, make

JOBS = 2
SETTINGS = MakeSettings(proposals=GeneratorSettings(modes=("stub",), grains=("symbol",)))


def make_sample_tasks(folder: Path, progress: Progress) -> Path:
    """The folder, with every function of the sample repository as a task. What is there already is not made again."""
    with as_file(files("composer_replication").joinpath("data/sample_repository")) as source:
        make(source, folder, SETTINGS, JOBS, progress)
    return folder


def code_quickstart_config(model: str, seed: int, tasks: Path) -> Config:
    """One code block per answer. Nobody is asked at replay, since simulated teachers do not know code tasks, and there
    are no logs to warm up on."""
    return Config(
        seed=seed,
        model=ModelConfig(name=model),
        environment=EnvironmentConfig(
            name="code",
            tasks=(str(tasks),),
            answer="definition",
            tries=2,
            completion_tokens=640,
            concurrency=2,
            step_timeout_s=120.0,
        ),
        warmup=WarmupConfig(steps=0),
        ingestion=IngestionConfig(rollouts=8),
        training=TrainingConfig(
            steps=2,
            prompts_per_step=1,
            group_size=4,
            learning_rate=1e-5,
            max_turn_tokens=128,
        ),
        channels=(GrpoSettings(), SdpoSettings(source="rollouts")),
        evaluation=EvaluationConfig(tasks=6),
    )
