"""`RUN/policy`: the model that plays, is trained and is measured, warmed up on old logs where the environment has some.

What the warm-up teaches is never counted as a gain.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.environments.opening import open_environment
from composer_replication.progress import Progress
from composer_replication.runs import Run
from composer_replication.store import hash_of

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy

NOUN = "policy"


def prepare(run: Run, progress: Progress) -> None:
    from composer_replication.training.libraries import load_libraries

    load_libraries()
    from composer_replication.training.policy import prepare_policy

    started = time.monotonic()
    with open_environment(run.config) as environment:
        policy = prepare_policy(run.config, environment, model_folder(run), progress)
    run.stage(NOUN).finish([policy], policy.model_dump(), [], started)


def model_folder(run: Run, noun: str = NOUN) -> Path:
    return run.path / noun / "model"


def load_own(run: Run, noun: str = NOUN) -> Policy:
    """The model that a stage of the run left behind."""
    from composer_replication.training.models.loading import load_saved_policy

    config = run.config
    return load_saved_policy(
        model_folder(run, noun), config.model.name, config.hardware.weights, config.model.chat_template_kwargs
    )


def means_own(run: Run, name: str) -> bool:
    """Whether `name` is the run's starting policy; else it is a folder or a hub id."""
    return name in (NOUN, run.config.model.name)


def policy_weights(run: Run, name: str) -> tuple[str, str]:
    """Where the model called `name` lies, and what tells its weights from others."""
    if means_own(run, name):
        return str(model_folder(run)), run.stage(NOUN).counts["weights_sha256"]
    return name, hash_of(sorted(Path(name).glob("*.safetensors"))) if Path(name).is_dir() else name


def load_model(run: Run, name: str) -> Policy:
    """A model by the place that `policy_weights` told."""
    from composer_replication.training.models.loading import load_policy

    if name == str(model_folder(run)):
        return load_own(run)
    weights, settings = run.config.hardware.weights, run.config.model.chat_template_kwargs
    with open_environment(run.config) as environment:
        return load_policy(name, environment, run.config.seed, weights, settings)


def policy_room(run: Run, policy: Policy) -> int:
    """Tokens that may stand before a turn of the policy."""
    training = run.config.training
    return min(training.max_tokens, policy.model.config.max_position_embeddings) - training.max_turn_tokens
