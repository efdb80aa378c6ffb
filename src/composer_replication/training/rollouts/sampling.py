"""Sampling one turn for many conversations at once, with a key-value cache and exact log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict, Unpack

import torch
from torch import Tensor

from composer_replication.errors import RecomposeError

from ..models.tokens import ChatTokens


class SampledTurn(NamedTuple):
    """What a sampler wrote."""

    ids: list[int]
    """Of its tokens."""
    logprobs: list[float]
    """One for each of them."""
    version: int = 0
    """How often the weights that wrote it had been refreshed, where the sampler counts that."""


def served_turn(url: str, ids: Sequence[int] | None, logprobs: Sequence[float] | None, version: int) -> SampledTurn:
    """What a server wrote. A turn without a log-probability for each of its tokens cannot be learned from."""
    if not ids or len(ids) != len(logprobs or ()):
        raise RecomposeError(
            f"a turn of {url} has {len(ids or ())} tokens and {len(logprobs or ())} log-probabilities",
            "use a server that gives one for each",
        )
    return SampledTurn(list(ids), list(logprobs or ()), version)


OnTurn = Callable[[int, SampledTurn], None]
"""Gets the place of a conversation in the batch, and its turn, while others are still being written."""


class SamplingOptions(TypedDict):
    """How turns are sampled. `on_turn` is told of each turn that ends while others are still being written."""

    max_new_tokens: int
    temperature: float
    generator: NotRequired[torch.Generator | None]
    on_turn: NotRequired[OnTurn | None]


class TurnSampler(Protocol):
    """Writes turns for up to `batch` conversations, each in a slot of its own that it keeps until it ends."""

    @property
    def batch(self) -> int: ...

    @property
    def max_tokens(self) -> int | None:
        """Context and turn together; None where nothing limits them."""
        ...

    def refresh(self, model: Any) -> None:
        """Sample from these weights from now on."""
        ...

    def sample(
        self, slots: Sequence[int], contexts: Sequence[Sequence[int]], **options: Unpack[SamplingOptions]
    ) -> list[SampledTurn]:
        """One turn behind each of the `contexts`, in the given `slots`."""
        ...


class FreeSampler(Protocol):
    """Writes one turn at a time, many at once, so that no conversation waits for another."""

    @property
    def max_tokens(self) -> int | None:
        """Context and turn together; None where nothing limits them."""
        ...

    def refresh(self, model: Any) -> None:
        """Sample from these weights from now on."""
        ...

    def connected(self) -> AbstractAsyncContextManager[None]:
        """`write` is called inside."""
        ...

    async def write(
        self, context: Sequence[int], *, max_new_tokens: int, temperature: float, seed: int
    ) -> SampledTurn: ...


class DynamicSampler:
    """Reads every context anew at every turn: no memory is held, and any model and length will do."""

    max_tokens = None

    def __init__(self, model: Any, tokens: ChatTokens, batch: int = 512) -> None:
        self.batch, self.token = batch, 0
        """`token` is the place in the turns that are being written; may be asked from another thread."""
        self._model, self._tokens = model, tokens

    def refresh(self, model: Any) -> None:
        self._model = model

    def sample(
        self, slots: Sequence[int], contexts: Sequence[Sequence[int]], **options: Unpack[SamplingOptions]
    ) -> list[SampledTurn]:
        self.token = 0
        return sample_turns(
            self._model,
            contexts,
            end_of_turn_id=self._tokens.end_of_turn_id,
            pad_id=self._tokens.tokenizer.pad_token_id,
            on_token=self._at,
            **options,
        )

    def _at(self, token: int) -> None:
        self.token = token


@torch.no_grad()
def sample_turns(
    model: Any,
    contexts: Sequence[Sequence[int]],
    *,
    end_of_turn_id: int,
    pad_id: int,
    max_new_tokens: int,
    temperature: float,
    generator: torch.Generator | None = None,
    on_turn: OnTurn | None = None,
    on_token: Callable[[int], None] = lambda done: None,
) -> list[SampledTurn]:
    """One turn per context. Temperature 0 is greedy; log-probabilities are then those at temperature 1.

    Args:
        contexts: Ids up to and including the header of the turn, as `ChatTokens.splice_hint` gives them.
        end_of_turn_id: `policy.tokens.end_of_turn_id`.
        pad_id: `policy.tokenizer.pad_token_id`.
        on_turn: Is told of each turn when it ends.
        on_token: Is told how many tokens the longest turn has so far.
    """
    if not contexts:
        return []
    ids_BT, mask_BT = left_pad(contexts, pad_id, model.device)
    position_B1 = mask_BT.sum(1, keepdim=True)
    positions_BT = (mask_BT.cumsum(1) - 1).clamp(min=0)
    output = model(ids_BT, attention_mask=mask_BT, position_ids=positions_BT, use_cache=True, logits_to_keep=1)
    alive_B = torch.ones(len(contexts), dtype=torch.bool, device=model.device)
    written = WrittenTurns(len(contexts), max_new_tokens, model.device, on_turn)
    for step in range(max_new_tokens):
        next_B, logprob_B = choose_tokens(output.logits[:, -1], temperature, generator)
        written.add(step, torch.where(alive_B, next_B, -1), logprob_B)
        on_token(step + 1)
        alive_B = alive_B & (next_B != end_of_turn_id)
        if not written.tell_ended(alive_B):
            break
        mask_BT = torch.cat([mask_BT, mask_BT.new_ones(len(contexts), 1)], 1)
        output = model(
            next_B[:, None],
            attention_mask=mask_BT,
            position_ids=position_B1,
            past_key_values=output.past_key_values,
            use_cache=True,
        )
        position_B1 = position_B1 + 1
    return written.all()


class WrittenTurns:
    """What each row of a batch has written so far; tells of a turn when it has ended."""

    def __init__(self, rows: int, max_new_tokens: int, device: Any, on_turn: OnTurn | None) -> None:
        self._tokens_BT = torch.full((rows, max_new_tokens), -1, device=device)
        self._logprobs_BT = torch.zeros((rows, max_new_tokens), device=device)
        self._on_turn = on_turn
        self._going_on = set(range(rows))

    def add(self, step: int, tokens_B: Tensor, logprobs_B: Tensor) -> None:
        """Tokens are -1 where a row has ended."""
        self._tokens_BT[:, step], self._logprobs_BT[:, step] = tokens_B, logprobs_B

    def tell_ended(self, alive_B: Tensor) -> bool:
        """Whether any row goes on. Waits for the device."""
        if self._on_turn is None:
            return bool(alive_B.any())
        alive = {row for row, goes_on in enumerate(alive_B.tolist()) if goes_on}
        if ended := sorted(self._going_on - alive):
            for row, turn in zip(ended, self._turns(ended), strict=True):
                self._on_turn(row, turn)
        self._going_on = alive
        return bool(alive)

    def all(self) -> list[SampledTurn]:
        return self._turns(list(range(len(self._tokens_BT))))

    def _turns(self, rows: Sequence[int]) -> list[SampledTurn]:
        turns: list[SampledTurn] = []
        for tokens, logprobs in zip(self._tokens_BT[rows].tolist(), self._logprobs_BT[rows].tolist(), strict=True):
            ids = [token for token in tokens if token >= 0]
            turns.append(SampledTurn(ids, logprobs[: len(ids)]))
        return turns


def left_pad(rows: Sequence[Sequence[int]], pad_id: int, device: Any) -> tuple[Tensor, Tensor]:
    """Ids and attention mask of ragged rows that end together."""
    width = max(len(row) for row in rows)
    ids = [[pad_id] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def choose_tokens(logits_BV: Tensor, temperature: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-probability."""
    if not temperature >= 0:
        raise ValueError(f"temperature must not be negative, and is {temperature}")
    logprobs_BV = (logits_BV.float() / (temperature or 1.0)).log_softmax(-1)
    if temperature:
        next_B1 = torch.multinomial(logprobs_BV.exp(), 1, generator=generator)
    else:
        next_B1 = logprobs_BV.argmax(-1, keepdim=True)
    return next_B1[:, 0], logprobs_BV.gather(1, next_B1)[:, 0]
