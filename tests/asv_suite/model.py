"""A GPT: token and position embeddings, pre-norm blocks, causal attention, and a cache of keys and values."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from .sizes import Sizes


class GPT(nn.Module):
    """``checkpointing`` throws activations away and computes them again in the backward pass."""

    def __init__(self, sizes: Sizes, *, checkpointing: bool = False) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.tokens = nn.Embedding(sizes.vocab, sizes.width)
        self.positions = nn.Embedding(max(sizes.length, max(sizes.prompts) + sizes.new_tokens), sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocab, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        return self.head(self.hidden(tokens))

    def hidden(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """(batch, length) -> (batch, length, width); a cache supplies what came before."""
        start = cache.length if cache else 0
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for index, block in enumerate(self.blocks):
            layer = cache.layers[index] if cache else None
            if self.checkpointing and torch.is_grad_enabled():
                x = checkpoint(block, x, layer, start, use_reentrant=False)
            else:
                x = block(x, layer, start)
        if cache:
            cache.length += tokens.shape[1]
        return self.norm(x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, layer: Tensor | None, start: int) -> Tensor:
        x = x + self.attention(self.norm1(x), layer, start)
        return x + self.mlp(self.norm2(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, layer: Tensor | None, start: int) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if layer is not None:
            layer[0, :, :, start : start + length] = k
            layer[1, :, :, start : start + length] = v
            k, v = layer[:, :, :, : start + length]
        # Tokens come all at once at the start, then one by one: a single new token may look at everything.
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Cache:
    """Room for the keys and values of every layer, taken at once: it never grows while tokens come."""

    def __init__(self, sizes: Sizes, device: str, *, batch: int, length: int) -> None:
        shape = (2, batch, sizes.heads, length, sizes.width // sizes.heads)
        self.layers = [torch.zeros(shape, device=device) for _ in range(sizes.layers)]
        self.length = 0


def prefill(model: GPT, prompt: Tensor, cache: Cache) -> Tensor:
    """Read the prompt and return its first new token."""
    return likeliest(model, model.hidden(prompt, cache))


def decode(model: GPT, token: Tensor, cache: Cache, count: int) -> Tensor:
    """Return ``count`` tokens more, greedily; no token ends the text, so the work is always the same."""
    tokens = []
    for _ in range(count):
        token = likeliest(model, model.hidden(token, cache))
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def likeliest(model: GPT, hidden: Tensor) -> Tensor:
    return model.head(hidden[:, -1]).argmax(dim=-1, keepdim=True)
