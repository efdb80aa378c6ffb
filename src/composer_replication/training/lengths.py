"""How long every state, site and pair of a run is, and what keeps it out of training.

Reads traces, sites, hints, pairs and stored token rows. Stored rows are measured. Other traces are counted message by
message with the run's tokenizer, each text once, plus the template's own tokens per message; rendering every state would
cost the square of a session. Without a tokenizer a token is taken to be four bytes, and the result is marked so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from composer_replication.records import ErrorSite, Hint, Message, PreferencePair, Trace

from .examples import policy_text
from .stored import TokenizedTrace
from .tokens import ChatTokens

BYTES_PER_TOKEN = 4
Blocker = Literal["no_tokens", "other_tokenizer", "tools_not_rendered", "no_hint"]


class Item(NamedTuple):
    tokens: int
    least_tokens: int
    """Without any earlier turn: what windowing can bring it down to."""
    blocker: Blocker | None


class TextCounter(Protocol):
    source: str
    knows_calls: bool
    knows_tools: bool
    message_tokens: int
    """What the template adds to each message."""

    def count(self, texts: Sequence[str]) -> list[int]: ...


class ByBytes:
    source = "estimate: bytes / 4"
    knows_calls = knows_tools = True
    message_tokens = 5

    def count(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text.encode()) // BYTES_PER_TOKEN) for text in texts]


class ByTokenizer:
    source = "the policy's tokenizer, message by message"

    def __init__(self, tokens: ChatTokens) -> None:
        self._tokenizer = tokens.tokenizer
        template = str(self._tokenizer.chat_template)
        self.knows_calls, self.knows_tools = "tool_calls" in template, "tools" in template
        self.message_tokens = len(tokens.hint_message("")) or 1

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]] if texts else []


class RunLengths:
    """Of the records of one run under one counter."""

    def __init__(
        self,
        counter: TextCounter,
        fingerprint: str | None,
        traces: Iterable[Trace],
        rows: Iterable[TokenizedTrace],
    ) -> None:
        self._counter, self._fingerprint = counter, fingerprint
        self._rows: Mapping[str, TokenizedTrace] = {row.trace_id: row for row in rows}
        self._traces = {trace.trace_id: trace for trace in traces}
        self._states = {trace_id: list(self._measure(trace)) for trace_id, trace in self._traces.items()}

    def states(self) -> list[Item]:
        return [item for items in self._states.values() for item in items]

    def sites(self, sites: Iterable[ErrorSite], hints: Iterable[Hint] | None) -> list[Item]:
        """`hints` None: not written yet, so no site is blamed for having none."""
        text_of = None if hints is None else {hint.site_id: hint.text for hint in hints}
        known = [site for site in sites if site.trace_id in self._states]
        texts = [(text_of or {}).get(site.site_id, "") for site in known]
        return [
            self._site(site, hint_tokens, text_of is not None and not text)
            for site, text, hint_tokens in zip(known, texts, self._counter.count(texts), strict=True)
        ]

    def pairs(self, pairs: Iterable[PreferencePair]) -> list[Item]:
        known = [pair for pair in pairs if pair.trace_id in self._states]
        sides = self._counter.count([self._shown(side) for pair in known for side in (pair.chosen, pair.rejected)])
        items: list[Item] = []
        for pair, chosen, rejected in zip(known, sides[::2], sides[1::2], strict=True):
            state, trace = self._states[pair.trace_id][pair.turn], self._traces[pair.trace_id]
            own = self._counter.count([self._shown(trace.messages[trace.turns[pair.turn].start])])[0]
            change = max(chosen, rejected) - own
            items.append(Item(state.tokens + change, state.least_tokens + change, state.blocker))
        return items

    def _site(self, site: ErrorSite, hint_tokens: int, lacks_hint: bool) -> Item:
        state, row = self._states[site.trace_id][site.turn], self._rows.get(site.trace_id)
        extra = hint_tokens + self._counter.message_tokens
        # A stored trace is one row for all of its sites.
        tokens = max(state.tokens + extra, len(row.ids) if row else 0)
        return Item(tokens, state.least_tokens + extra, state.blocker or ("no_hint" if lacks_hint else None))

    def _measure(self, trace: Trace) -> Iterator[Item]:
        row = self._rows.get(trace.trace_id)
        if row and row.tokenizer == self._fingerprint:
            first = row.turn_spans[0][0]
            return (Item(end, first + end - start, None) for start, end in row.turn_spans)
        return self._count(trace, "other_tokenizer" if row else "no_tokens")

    def _count(self, trace: Trace, blocker: Blocker) -> Iterator[Item]:
        counter = self._counter
        tools = 0
        if trace.tools and counter.knows_tools:
            tools = counter.count([json.dumps(list(trace.tools))])[0]
        elif trace.tools:
            blocker = "tools_not_rendered"
        counts = self._counts(trace.messages)
        for number, turn in enumerate(trace.turns):
            history = trace.history(number)
            # Results that the harness cleared are other messages than those of the trace.
            lengths = [counts.get(id(message)) or self._counts([message])[id(message)] for message in history]
            opening = next((i for i, message in enumerate(history) if message["role"] == "assistant"), len(history))
            own = counts[id(trace.messages[turn.start])]
            yield Item(tools + sum(lengths) + own, tools + sum(lengths[:opening]) + own, blocker)

    def _counts(self, messages: Sequence[Message]) -> dict[int, int]:
        found = self._counter.count([self._shown(message) for message in messages])
        return {
            id(message): tokens + self._counter.message_tokens for message, tokens in zip(messages, found, strict=True)
        }

    def _shown(self, message: Message) -> str:
        """About what the template would write."""
        calls = message.get("tool_calls", [])
        if self._counter.knows_calls or not calls:
            return message["content"] + "".join(json.dumps(call["function"]) for call in calls)
        try:
            return policy_text(message)
        except (ValueError, RecursionError):
            return json.dumps(calls[0]["function"])


def find_chat_tokens(name: str, policy_folder: Any, toolbox: Any) -> ChatTokens | None:
    """The tokenizer of the run's policy, if it lies here. Nothing is downloaded."""
    from transformers import AutoTokenizer

    from .models import smollm2_folder
    from .tiny import build_tokenizer

    if policy_folder.is_dir():
        return ChatTokens(AutoTokenizer.from_pretrained(policy_folder))
    if name == "tiny":
        return ChatTokens(build_tokenizer(toolbox))
    where = smollm2_folder() if name == "smollm2" else name
    try:
        return ChatTokens(AutoTokenizer.from_pretrained(where, local_files_only=True))
    except (OSError, ValueError):
        return None
