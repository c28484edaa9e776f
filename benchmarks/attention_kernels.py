"""Attention by a chosen kernel, by the textbook's formula, or under a sparse mask."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from perfci.bench import skip_exception

BACKENDS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
ATTENTIONS = ("automatic", *BACKENDS, "hand-written")
"""Attentions that compute the same: torch's own choice, one kernel alone, or the textbook's formula."""


def attend(kind: str, query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """(batch, heads, length, width) each, keys and values with as many heads or a divisor of that.

    ``kind`` is one of ``ATTENTIONS``, or a mask: ``window-128`` or ``blocks-75`` (see ``sparse_mask``). A
    kernel that refuses the inputs raises ``RuntimeError`` in torch's words; nothing else takes its place.
    """
    shared = query.shape[1] != key.shape[1]
    if kind == "hand-written":
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
        return textbook_attention(query, key, value, mask=mask if causal else None)
    if kind == "automatic":
        return scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=shared)
    if kind in BACKENDS:
        with sdpa_kernel(BACKENDS[kind]):
            return scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=shared)
    mask = sparse_mask(kind, query.shape[2]).to(query.device)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=shared)


def textbook_attention(query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None) -> Tensor:
    """Attention as textbooks write it."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ value


def require_attention(kind: str, *, dtype: torch.dtype, device: str) -> None:
    """Skip the cell, in torch's own words, where this kernel refuses small inputs of this type."""
    probe = torch.ones(1, 1, 16, 16, dtype=dtype, device=device)
    try:
        attend(kind, probe, probe, probe, causal=True)
    except RuntimeError as refusal:
        raise skip_exception(f"torch refuses {kind} attention here: {refusal}") from refusal


@functools.lru_cache(maxsize=8)
def sparse_mask(name: str, length: int) -> Tensor:
    """(length, length) of bool, causal: True where a token sees another.

    ``window-8``: every token sees itself and the seven before it. ``blocks-75``: of the blocks a token may
    see, three quarters are hidden; its own block stays.
    """
    kind, _, size = name.partition("-")
    place = torch.arange(length)
    before = place[:, None] - place[None, :]
    causal = before >= 0
    if kind == "window":
        return causal & (before < int(size))
    if kind != "blocks":
        raise ValueError(
            f"there is no attention {name!r}; known are {', '.join(ATTENTIONS)}, window-N, blocks-N"
        )
    edge = max(1, length // 16)
    blocks = -(-length // edge)
    shown = torch.rand(blocks, blocks, generator=torch.Generator().manual_seed(0)) >= int(size) / 100
    shown |= torch.eye(blocks, dtype=torch.bool)
    return causal & shown.repeat_interleave(edge, 0).repeat_interleave(edge, 1)[:length, :length]
