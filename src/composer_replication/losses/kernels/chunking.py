"""How many tokens are projected onto the vocabulary at once."""

from __future__ import annotations

GIB = 1 << 30
# A trainable head returns a gradient as large as itself: larger chunks cost little beside it, and fewer rounds over it.
CHUNK_BYTES, CHUNK_BYTES_FROZEN = int(0.9 * GIB), int(0.45 * GIB)
BYTES_PER_LOGIT = 4
# Products are fastest when the number of tokens fills their tiles.
TILE_TOKENS, LARGE_TILE_TOKENS = 64, 128


def token_chunks(
    n_tokens: int, n_words: int, *, n_buffers: int, is_frozen: bool, chunk_tokens: int | None
) -> list[slice]:
    """Chunks of about equal size, of `chunk_tokens` each or by memory: `n_buffers` logits of a chunk are alive."""
    if chunk_tokens is None:
        budget_bytes = CHUNK_BYTES_FROZEN if is_frozen else CHUNK_BYTES
        chunk_tokens = _even_tokens(n_tokens, budget_bytes // (n_buffers * BYTES_PER_LOGIT * n_words))
    if chunk_tokens < 1:
        raise ValueError("chunk_tokens must be at least 1")
    return [slice(start, min(start + chunk_tokens, n_tokens)) for start in range(0, n_tokens, chunk_tokens)]


def _even_tokens(n_tokens: int, most_tokens: int) -> int:
    most_tokens = most_tokens - most_tokens % LARGE_TILE_TOKENS or max(1, most_tokens)
    n_chunks = max(1, -(-n_tokens // most_tokens))
    n_tiles = max(1, -(-n_tokens // (n_chunks * TILE_TOKENS)))
    return min(most_tokens, n_tiles * TILE_TOKENS)
