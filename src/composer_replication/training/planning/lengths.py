"""How long every state, site and pair of a run is, whole and in its smallest window, and what keeps it out of training.

Reads traces, sites, hints, pairs and stored token rows. Stored rows are measured. Other traces are counted message by
message with the run's tokenizer, plus the template's own tokens per message: rendering every state would cost the
square of a session. Without a tokenizer a token is taken to be four bytes, and the result is marked so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from composer_replication.config import ModelConfig
from composer_replication.environments.protocol import Environment
from composer_replication.records import ErrorSite, Hint, JsonObject, Message, PreferencePair, Trace
from composer_replication.sites.marking import failed_calls
from composer_replication.windows import WHOLE, TurnHistory, levels

from ..models.chat_template import ChatTemplate
from ..models.tokens import ChatTokens
from ..stored.contexts import shown
from ..stored.records import TokenizedTrace

BYTES_PER_TOKEN = 4
Blocker = Literal["other_tokenizer", "unknown_tokens", "refused_by_the_template", "no_hint"]


class Item(NamedTuple):
    tokens: int
    least_tokens: Callable[[int], int]
    """What windows can bring it down to, by the tokens that there may be."""
    blocker: Blocker | None
    shows_tools: bool = True
    """Whether the template writes the tools that the trace had, if it had any."""


class Counted(NamedTuple):
    tokens: int
    is_known: bool = True
    """Whether the vocabulary can say it."""


class ByBytes:
    source = "estimate: bytes / 4"
    knows_calls = knows_tools = True
    message_tokens = 5
    """What the template adds to each message."""

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
    """Of the records of one run under one counter. `sites` tell which results are errors."""

    def __init__(
        self,
        counter: ByBytes | ByTokenizer,
        fingerprint: str | None,
        traces: Iterable[Trace],
        rows: Iterable[TokenizedTrace],
        sites: Iterable[ErrorSite] = (),
    ) -> None:
        self._counter, self._fingerprint = counter, fingerprint
        self._failed = failed_calls(sites)
        self._rows: Mapping[str, TokenizedTrace] = {row.trace_id: row for row in rows}
        self._traces = {trace.trace_id: trace for trace in traces}
        self._counted = lru_cache(maxsize=None)(lambda text: counter.count([text])[0])
        self._states = {trace_id: list(self._measure(trace)) for trace_id, trace in self._traces.items()}

    def states(self) -> list[Item]:
        return [item for items in self._states.values() for item in items]

    def sites(self, sites: Iterable[ErrorSite], hints: Iterable[Hint] | None) -> list[Item]:
        """`hints` None: not written yet, so no site is blamed for having none."""
        text_of = None if hints is None else {hint.site_id: hint.text for hint in hints}
        items: list[Item] = []
        for site in sites:
            if site.trace_id in self._states:
                text = (text_of or {}).get(site.site_id, "")
                state = self._states[site.trace_id][site.turn]
                blocker: Blocker | None = "no_hint" if text_of is not None and not text else state.blocker
                extra = self._counted(text).tokens + self._counter.message_tokens
                items.append(_longer(state, extra)._replace(blocker=blocker))
        return items

    def pairs(self, pairs: Iterable[PreferencePair]) -> list[Item]:
        known = [pair for pair in pairs if pair.trace_id in self._states]
        items: list[Item] = []
        for pair in known:
            trace = self._traces[pair.trace_id]
            own, *sides = (
                self._counted(self._shown(message)).tokens
                for message in (trace.messages[trace.turns[pair.turn].start], pair.chosen, pair.rejected)
            )
            items.append(_longer(self._states[pair.trace_id][pair.turn], max(sides) - own))
        return items

    def _measure(self, trace: Trace) -> Iterator[Item]:
        row = self._rows.get(trace.trace_id)
        if row and row.tokenizer == self._fingerprint:
            return (self._stored(trace, turn, row) for turn in range(len(row.turn_spans)))
        return self._count(trace, "other_tokenizer" if row else None)

    def _stored(self, trace: Trace, turn: int, row: TokenizedTrace) -> Item:
        starts = [start for start, _ in row.turn_spans]
        needed = TurnHistory.before(trace, turn, self._failed[trace.trace_id]).needed
        start, end = row.turn_spans[turn]
        least = starts[0] + sum(starts[place + 1] - starts[place] for place in needed) + end - start
        return Item(end, lambda room: least, None)

    def _count(self, trace: Trace, blocker: Blocker | None) -> Iterator[Item]:
        counter, failed = self._counter, self._failed[trace.trace_id]
        shows_tools = counter.knows_tools or not trace.tools
        tools = counter.count([json.dumps(list(trace.tools))])[0].tokens if trace.tools and shows_tools else 0
        counts = self._counts(trace.messages)

        def size(message: Message) -> int:
            # Results that the harness cleared, and elided ones, are other messages than those of the trace.
            known = counts.get(id(message)) or self._counted(self._shown(message))
            return known.tokens + counter.message_tokens

        for number, turn in enumerate(trace.turns):
            history = TurnHistory.before(trace, number, failed)
            seen = [message for part in history.parts(WHOLE) for message in part.messages]
            own_message = trace.messages[turn.start]
            own = tools + size(own_message)
            written = seen if counter.knows_calls else []
            refused = not all(_has_json_calls(message) for message in [*written, own_message])
            unknown = not all((counts.get(id(message)) or _KNOWN).is_known for message in [*seen, own_message])
            yield Item(
                own + sum(map(size, seen)),
                lru_cache(maxsize=None)(_least(history, own, size)),
                blocker or ("refused_by_the_template" if refused else "unknown_tokens" if unknown else None),
                shows_tools,
            )

    def _counts(self, messages: Sequence[Message]) -> dict[int, Counted]:
        found = self._counter.count([self._shown(message) for message in messages])
        return {id(message): counted for message, counted in zip(messages, found, strict=True)}

    def _shown(self, message: Message) -> str:
        return shown(message, self._counter.knows_calls)


_KNOWN = Counted(0)


def _longer(item: Item, tokens: int) -> Item:
    return item._replace(tokens=item.tokens + tokens, least_tokens=lambda room: item.least_tokens(room) + tokens)


def _least(history: TurnHistory, own: int, size: Callable[[Message], int]) -> Callable[[int], int]:
    """The turn behind the smallest window."""

    def least(room: int) -> int:
        sizes: list[int] = []
        for level in levels(room):
            sizes.append(own + sum(size(message) for part in history.least(level) for message in part.messages))
            if sizes[-1] <= room:
                break
        return min(sizes)

    return least


def _has_json_calls(message: Message) -> bool:
    """No template writes a call whose arguments are not JSON."""
    try:
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    except (ValueError, RecursionError):
        return False
    return True


def find_chat_tokens(
    model: ModelConfig, policy_folder: Path | None, environment: Environment | None
) -> ChatTokens | None:
    """The tokenizer of the run's policy, if it lies here. Nothing is downloaded."""
    from transformers import AutoTokenizer

    from ..models.embedded import place_of
    from ..models.loading import tiny_tokenizer

    if policy_folder and policy_folder.is_dir():
        tokenizer: Any = AutoTokenizer.from_pretrained(policy_folder)
    elif model.name == "tiny":
        tokenizer = tiny_tokenizer(environment)
    else:
        try:
            tokenizer = AutoTokenizer.from_pretrained(place_of(model.name), local_files_only=True)
        except (OSError, ValueError):
            return None
    return ChatTokens(tokenizer, None, model.chat_template_kwargs)


class TemplateLengths:
    """Tokens of an exported row, as TRL's trainers count them: the model's own template, tools included."""

    def __init__(self, tokens: ChatTokens, model: str) -> None:
        # Trainers know nothing of the run's own template settings.
        self._tokenizer, self._template = tokens.tokenizer, ChatTemplate(tokens.tokenizer)
        self._counter = ByTokenizer(tokens)
        self._counted = lru_cache(maxsize=None)(lambda text: self._counter.count([text])[0])
        self.source = f"the tokenizer of {model}"
        self.knows_tools = self._counter.knows_tools
        self.writes_calls = tokens.call_form is not None

    def size(self, message: Message) -> int:
        return self._counted(shown(message, knows_calls=True)).tokens + self._counter.message_tokens

    def row(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        text = self._template.text(messages, tools)
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def knows(self, message: Message) -> bool:
        """Whether its vocabulary can say it."""
        return self._counted(shown(message, knows_calls=True)).is_known
