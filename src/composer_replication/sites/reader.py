"""Asks a model whether the user's words after a turn correct it or criticise how it worked. Off unless set.

Many corrections are worded in ways that no rule finds. Where the model answers, its verdict stands in place of the
rules'; where it does not, or its answer is refused, that of the rules stays.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from composer_replication.config import SitesConfig
from composer_replication.llm.asking import Asker, AskTally
from composer_replication.llm.chat import ChatClient
from composer_replication.llm.chat_client import open_chat
from composer_replication.records import ErrorKind, ErrorSite, JsonObject, Trace

from .corrections import said_site
from .reader_prompt import KINDS, PROMPT_VERSION, ReaderQuestion, ReaderVerdict, read_answer
from .spoken import MAX_CHARS, Spoken, spoken

CACHE = "reader"
CONFIDENCE = 0.8
SETTLED: frozenset[ErrorKind] = frozenset({"user_rejection", "interruption"})
"""A turn with one of these is not asked about: what the user said is known to be a correction."""


@dataclass
class ReaderTally(AskTally):
    """What the reader was asked and what it cost."""

    turns: int = 0
    none: int = 0

    def counts(self) -> JsonObject:
        return {"turns": self.turns, "sites": self.sites, "none": self.none, **super().counts()}


class LLMSiteReader:
    """Reads each turn that the user spoke after, with the words and the turn as untrusted text."""

    def __init__(self, client: ChatClient, model: str, cache_dir: str | Path | None = None) -> None:
        self.model = model
        self.tally = ReaderTally()
        self._asker = Asker(client, cache_dir, self.tally)

    def read(self, trace: Trace, sites: Iterable[ErrorSite]) -> list[ErrorSite]:
        """The sites that the rules found in a trace, with the reader's verdict on every turn that it answered."""
        by_turn: dict[int, list[ErrorSite]] = {turn: [] for turn in range(len(trace.turns))}
        for site in sites:
            by_turn[site.turn].append(site)
        words = {said.turn: said.text[:MAX_CHARS] for said in reversed([*spoken(trace)])}
        return [
            site for turn, found in by_turn.items() for site in self._read_turn(trace, turn, found, words.get(turn))
        ]

    def corrections(self, trace: Trace) -> list[Spoken]:
        """What the user said that the reader takes for a correction of any kind, whatever the rules say."""
        return [
            said
            for said in spoken(trace)
            if said.turn is not None
            and (verdict := self._verdict(ReaderQuestion.of(trace, said.turn, said.text[:MAX_CHARS])))
            and verdict.kind
        ]

    def _read_turn(self, trace: Trace, turn: int, found: list[ErrorSite], words: str | None) -> list[ErrorSite]:
        if not words or any(site.error_kind in SETTLED for site in found):
            return found
        verdict = self._verdict(ReaderQuestion.of(trace, turn, words))
        if verdict is None:
            return found
        others = [site for site in found if site.error_kind not in KINDS]
        if verdict.kind:
            others.append(said_site(trace, turn, verdict.kind, words, f"reader/{PROMPT_VERSION}", CONFIDENCE))
        return others

    def _verdict(self, question: ReaderQuestion) -> ReaderVerdict | None:
        self.tally.turns += 1
        reply = self._asker.reply(question.key(self.model), lambda: question.request(self.model))
        if reply is None:
            return None
        verdict = read_answer(reply.text, question.words)
        if verdict.refused:
            self.tally.rejected[verdict.refused] += 1
            return None
        self.tally.sites += verdict.kind is not None
        self.tally.none += verdict.kind is None
        return verdict


@contextmanager
def open_reader(config: SitesConfig, run_path: Path) -> Generator[LLMSiteReader | None]:
    """The reader of a run, behind a loopback server; None where none is set."""
    server = config.reader_base_url, config.reader_model
    with open_chat("sites.reader", *server, run_path, config.reader_timeout_s) as client:
        yield LLMSiteReader(client, config.reader_model or "", run_path / CACHE) if client else None
