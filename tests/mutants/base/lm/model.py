"""A small GPT: its blocks are checkpointed while it is trained, keys and values are kept while it answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCAB, WIDTH, HEADS, LAYERS, POSITIONS = 256, 64, 4, 3, 256


class Cache:
    """Room for the keys and values of all positions of one text, and how many are filled."""

    def __init__(self, device: str) -> None:
        self.rooms = [
            torch.zeros(2, 1, HEADS, POSITIONS, WIDTH // HEADS, device=device) for _ in range(LAYERS)
        ]
        self.length = 0


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        """(batch, length, width) -> the same"""
        batch, length, _ = x.shape
        query, *pair = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            room = cache.rooms[self.index]
            room[:, :, :, cache.length : cache.length + length] = torch.stack(pair)
            pair = room[:, :, :, : cache.length + length].unbind()
        mixed = functional.scaled_dot_product_attention(query, *pair, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class LM(nn.Module):
    def __init__(self, checkpointing: bool = True) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.embedding, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block(index) for index in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return self.head(x)

    def next_token(self, tokens: Tensor, cache: Cache) -> Tensor:
        """(1, new tokens) -> (1, 1), the likeliest; the cache then knows the new ones too."""
        x = self.embedding(tokens) + self.positions.weight[cache.length : cache.length + tokens.shape[1]]
        for block in self.blocks:
            x = block(x, cache)
        cache.length += tokens.shape[1]
        return self.head(x[:, -1:]).argmax(dim=-1)
