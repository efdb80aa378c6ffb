"""A run that verl can make on CPU: the tiny policy in a world of two turns, one stored site and two pairs."""

from __future__ import annotations

from pathlib import Path

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.progress import Silent
from composer_replication.training import train_verl
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample

from .verl_cpu import cpu_overrides

STEPS = 3


def config_of(sdpo: float = 0.0, trdpo: float = 0.0, source: str = "stored", **training) -> Config:
    return Config.model_validate(
        {
            "seed": 3,
            "environment": {"name": "tests.engines.verl_world:open_world"},
            "training": {
                "steps": STEPS,
                "prompts_per_step": 2,
                "group_size": 2,
                "traces_per_step": 4,
                "max_turn_tokens": 12,
                "learning_rate": 1e-3,
                **training,
            },
            "channels": [
                {"name": "grpo"},
                {"name": "sdpo", "weight": sdpo, "source": source, "teacher": "live", "require_disfavour": False},
                {"name": "trdpo", "weight": trdpo},
            ],
        }
    )


def policy_of(config: Config) -> Policy:
    with open_environment(config) as environment:
        return load_policy("tiny", environment, config.seed)


def examples_of(policy: Policy) -> list[TraceExample]:
    tokens = policy.tokens
    prompt = tokens.prompt([{"role": "system", "content": "read"}, {"role": "user", "content": "read app.py"}])
    right, wrong = tokens.turn("read app.py"), tokens.turn("write 1")
    hinted = tokens.splice_hint(prompt, "write")
    return [
        TraceExample(
            prompt + wrong,
            [0] * len(prompt) + [1] * len(wrong),
            0.0,
            [SiteTokens(len(prompt), len(prompt) + len(wrong), hinted)],
            [PairTokens(prompt, right, wrong), PairTokens(prompt, right, right[:-2] + wrong, label_smoothing=0.1)],
            trace_id="stored",
        )
    ]


def train(folder: Path, config: Config, ranks: int = 1, override: tuple[str, ...] = (), ray_address=None):
    """The policy as it was trained, and a record of each step."""
    policy = policy_of(config)
    with open_environment(config) as environment:
        steps = train_verl.train(
            policy,
            config,
            environment,
            examples_of(policy),
            folder,
            Silent(),
            override=(*cpu_overrides(ranks, ray_address is not None), *override),
            ray_address=ray_address,
        )
    return policy, steps
