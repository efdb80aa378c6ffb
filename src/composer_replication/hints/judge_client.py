"""The judge of a run, behind a loopback server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from composer_replication.config import HintsConfig
from composer_replication.errors import UsageError
from composer_replication.llm.chat_client import open_chat

from .judge import LLMJudgeHintGenerator

CACHE = "judge"


@contextmanager
def open_judge(config: HintsConfig, run_path: Path) -> Generator[LLMJudgeHintGenerator | None]:
    """The judge of a run, or None where no server is set."""
    if config.judge_base_url is None:
        yield None
        return
    if not config.judge_model:
        raise UsageError("hints.judge_base_url is set but hints.judge_model is not", "set both in the config file")
    with open_chat(config.judge_base_url, run_path, config.judge_timeout_s) as client:
        yield LLMJudgeHintGenerator(client, config.judge_model, run_path / CACHE, config.max_tokens)
