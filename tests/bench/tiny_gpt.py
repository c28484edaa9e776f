"""A GPT of which every operation can be counted by hand: blocks of attention and two products, cached or
not.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BATCH, LENGTH, WIDTH, HEADS, LAYERS, VOCAB, NEW_TOKENS = 2, 32, 16, 4, 2, 64, 12

Past = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(batch, length, width) -> the same, and keys and values of all tokens so far."""
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x)))), (k, v)


class TinyGPT(nn.Module):
    def __init__(self, *, checkpointing: bool = False) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)[0] if self.checkpointing else block(x)[0]
        return self.head(x)

    def loss(self, tokens: Tensor) -> Tensor:
        return functional.cross_entropy(self(tokens).flatten(0, 1), tokens.flatten())

    def last_logits(self, tokens: Tensor, past: Past | None = None) -> tuple[Tensor, Past]:
        """(batch, length) -> (batch, vocab) of the last token, and what to keep for the next."""
        x, present = self.embedding(tokens), []
        for index, block in enumerate(self.blocks):
            x, block_cache = block(x, past[index] if past else None)
            present.append(block_cache)
        return self.head(x[:, -1]), present


def some_tokens(length: int = LENGTH) -> Tensor:
    return torch.arange(BATCH * length).reshape(BATCH, length) % VOCAB


def block_flops(tokens: int, length: int) -> int:
    """Forward operations of one block by hand: four products of weights, scores, mixed values."""
    weights = 2 * tokens * WIDTH * (3 * WIDTH + WIDTH + 4 * WIDTH + 4 * WIDTH)
    attention = 2 * 2 * tokens * length * WIDTH
    return weights + attention
