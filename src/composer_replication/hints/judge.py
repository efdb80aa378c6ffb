"""The judge layer: a language model writes the hint where no template can, for style, communication and effort.

Off without a client. Answers are kept on disk, one file per question; see `llm/asking.py`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.config import HintsConfig
from composer_replication.llm.asking import Asker, AskTally
from composer_replication.llm.chat import ChatClient, ChatFailure, ChatReply
from composer_replication.records import JsonObject

from .judge_prompt import JudgeQuestion, read_answer

DEFAULT_MAX_TOKENS = 96
CACHE = "judge"

# What a client of one's own takes, returns and raises, under the names that `hints` exports.
JudgeClient = ChatClient
JudgeReply = ChatReply
JudgeFailure = ChatFailure


@dataclass
class JudgeTally(AskTally):
    """What the judge was asked and what it cost."""

    hints: int = 0

    def counts(self) -> JsonObject:
        return {"sites": self.sites, "hints": self.hints, **super().counts()}


class LLMJudgeHintGenerator:
    """At most two sentences for one error, from a model that sees the end of the session as untrusted text.

    Args:
        client: Sends a request; without it there are no hints.
        model: Its name on the server.
        cache_dir: Where answers are kept, so that none is paid for twice.
    """

    def __init__(
        self,
        client: JudgeClient | None = None,
        model: str = "",
        cache_dir: str | Path | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self.tally = JudgeTally()
        self._asker = Asker(client, cache_dir, self.tally) if client else None

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        if self._asker is None:
            return None
        self.tally.sites += 1
        question = JudgeQuestion.of(error_kind, error_meta)
        reply = self._asker.reply(question.key(self.model), lambda: question.request(self.model))
        if reply is None:
            return None
        hint, reason = read_answer(reply.text, question, self.max_tokens)
        if hint is None:
            self.tally.rejected[reason] += 1
        else:
            self.tally.hints += 1
        return hint


@contextmanager
def open_judge(config: HintsConfig, run_path: Path) -> Generator[LLMJudgeHintGenerator | None]:
    """The judge of a run, behind a loopback server; None where none is set."""
    from composer_replication.llm.chat_client import open_chat

    server = config.judge_base_url, config.judge_model
    with open_chat("hints.judge", *server, run_path, config.judge_timeout_s) as client:
        judge = LLMJudgeHintGenerator(client, config.judge_model or "", run_path / CACHE, config.max_tokens)
        yield judge if client else None
