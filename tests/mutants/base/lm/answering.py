"""Answers to a prompt, token by token."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from lm.model import LM, Cache


def answer(model: LM, prompt: Tensor, count: int, cache: Cache) -> Iterator[Tensor]:
    """Give ``count`` tokens; each reads one new token and the cache of all before."""
    tokens = prompt
    for _ in range(count):
        tokens = model.next_token(tokens, cache)
        yield tokens
