"""How long every state, site and pair of a run is, and what keeps it out of training.

Reads traces, sites, hints, pairs and stored token rows. Stored rows are measured. Other traces are counted message by
message with the run's tokenizer, plus the template's own tokens per message: rendering every state would cost the
square of a session. Without a tokenizer a token is taken to be four bytes, and the result is marked so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from composer_replication.config import ModelConfig
from composer_replication.environments.protocol import Environment
from composer_replication.records import ErrorSite, Hint, Message, PreferencePair, Trace

from ..models.tokens import ChatTokens
from ..stored.examples import policy_text
from ..stored.records import TokenizedTrace

BYTES_PER_TOKEN = 4
Blocker = Literal["other_tokenizer", "unknown_tokens", "refused_by_the_template", "no_hint", "second_site_of_its_turn"]


class Item(NamedTuple):
    tokens: int
    least_tokens: int
    """Without any earlier turn: what windowing can bring it down to."""
    blocker: Blocker | None
    shows_tools: bool = True
    """Whether the template writes the tools that the trace had, if it had any."""


class Counted(NamedTuple):
    tokens: int
    is_known: bool = True
    """Whether the vocabulary can say it."""


class TextCounter(Protocol):
    source: str
    knows_calls: bool
    knows_tools: bool
    message_tokens: int
    """What the template adds to each message."""

    def count(self, texts: Sequence[str]) -> list[Counted]: ...


class ByBytes:
    source = "estimate: bytes / 4"
    knows_calls = knows_tools = True
    message_tokens = 5

    def count(self, texts: Sequence[str]) -> list[Counted]:
        return [Counted(-(-len(text.encode()) // BYTES_PER_TOKEN)) for text in texts]


class ByTokenizer:
    source = "the policy's tokenizer, message by message"

    def __init__(self, tokens: ChatTokens) -> None:
        self._tokenizer = tokens.tokenizer
        self.knows_calls, self.knows_tools = tokens.call_form is not None, "tools" in tokens.template.source
        self.message_tokens = tokens.hint_tokens("") or 1

    def count(self, texts: Sequence[str]) -> list[Counted]:
        encode: Any = self._tokenizer.backend_tokenizer.encode_batch_fast  # without the offsets that nobody reads
        unknown = self._tokenizer.unk_token_id
        encoded = [each.ids for each in encode(list(texts), add_special_tokens=False)]
        return [Counted(len(ids), unknown is None or unknown not in ids) for ids in encoded]


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
        items: list[Item] = []
        taught: set[tuple[str, int]] = set()
        for site, text, counted in zip(known, texts, self._counter.count(texts), strict=True):
            blocker: Blocker | None = "no_hint" if text_of is not None and not text else None
            at = site.trace_id, site.turn
            # A stored row has room for several hints of a turn; a rendered state for one.
            if text and at in taught and site.trace_id not in self._rows:
                blocker = "second_site_of_its_turn"
            taught.update([at] if text else [])
            items.append(self._site(site, counted.tokens, blocker))
        return items

    def pairs(self, pairs: Iterable[PreferencePair]) -> list[Item]:
        known = [pair for pair in pairs if pair.trace_id in self._states]
        sides = self._counter.count([self._shown(side) for pair in known for side in (pair.chosen, pair.rejected)])
        items: list[Item] = []
        for pair, chosen, rejected in zip(known, sides[::2], sides[1::2], strict=True):
            state, trace = self._states[pair.trace_id][pair.turn], self._traces[pair.trace_id]
            own = self._counter.count([self._shown(trace.messages[trace.turns[pair.turn].start])])[0]
            change = max(chosen.tokens, rejected.tokens) - own.tokens
            items.append(state._replace(tokens=state.tokens + change, least_tokens=state.least_tokens + change))
        return items

    def _site(self, site: ErrorSite, hint_tokens: int, blocker: Blocker | None) -> Item:
        state, row = self._states[site.trace_id][site.turn], self._rows.get(site.trace_id)
        extra = hint_tokens + self._counter.message_tokens
        # A stored trace is one row for all of its sites.
        tokens = max(state.tokens + extra, len(row.ids) if row else 0)
        return Item(tokens, state.least_tokens + extra, state.blocker or blocker, state.shows_tools)

    def _measure(self, trace: Trace) -> Iterator[Item]:
        row = self._rows.get(trace.trace_id)
        if row and row.tokenizer == self._fingerprint:
            first = row.turn_spans[0][0]
            return (Item(end, first + end - start, None) for start, end in row.turn_spans)
        return self._count(trace, "other_tokenizer" if row else None)

    def _count(self, trace: Trace, blocker: Blocker | None) -> Iterator[Item]:
        counter = self._counter
        shows_tools = counter.knows_tools or not trace.tools
        tools = counter.count([json.dumps(list(trace.tools))])[0].tokens if trace.tools and shows_tools else 0
        counts = self._counts(trace.messages)
        for number, turn in enumerate(trace.turns):
            history = trace.history(number)
            # Results that the harness cleared are other messages than those of the trace.
            seen = [counts.get(id(message)) or self._counts([message])[id(message)] for message in history]
            opening = next((i for i, message in enumerate(history) if message["role"] == "assistant"), len(history))
            own = counts[id(trace.messages[turn.start])]
            written = history if counter.knows_calls else []
            refused = not all(_has_json_calls(message) for message in [*written, trace.messages[turn.start]])
            unknown = not all(counted.is_known for counted in [*seen, own])
            yield Item(
                tools + sum(counted.tokens for counted in seen) + own.tokens,
                tools + sum(counted.tokens for counted in seen[:opening]) + own.tokens,
                blocker or ("refused_by_the_template" if refused else "unknown_tokens" if unknown else None),
                shows_tools,
            )

    def _counts(self, messages: Sequence[Message]) -> dict[int, Counted]:
        found = self._counter.count([self._shown(message) for message in messages])
        return {
            id(message): counted._replace(tokens=counted.tokens + self._counter.message_tokens)
            for message, counted in zip(messages, found, strict=True)
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


def _has_json_calls(message: Message) -> bool:
    """No template writes a call whose arguments are not JSON."""
    try:
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    except (ValueError, RecursionError):
        return False
    return True


def find_chat_tokens(model: ModelConfig, policy_folder: Any, environment: Environment) -> ChatTokens | None:
    """The tokenizer of the run's policy, if it lies here. Nothing is downloaded."""
    from transformers import AutoTokenizer

    from ..models.loading import smollm2_folder, tiny_tokenizer

    if policy_folder.is_dir():
        tokenizer: Any = AutoTokenizer.from_pretrained(policy_folder)
    elif model.name == "tiny":
        tokenizer = tiny_tokenizer(environment)
    else:
        where = smollm2_folder() if model.name == "smollm2" else model.name
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=True)
        except (OSError, ValueError):
            return None
    return ChatTokens(tokenizer, None, model.chat_template_kwargs)
