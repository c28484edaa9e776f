"""A decoder with a cache."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads, longest):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        future = torch.ones(longest, longest, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x, cache):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.extend(self, k, v)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads, longest):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, longest)
        self.feed_forward = FeedForward(width)

    def forward(self, x, cache):
        x = x + self.attention(self.first(x), cache)
        return x + self.feed_forward(self.second(x))


class Decoder(nn.Module):
    def __init__(self, words=512, width=128, heads=4, layers=3, longest=256):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads, longest) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens, cache=None):
        start = cache.length if cache else 0
        places = torch.arange(start, start + tokens.size(1))
        x = self.embed(tokens) + self.places(places)
        if cache is not None:
            cache.length += tokens.size(1)
            return self.decode(x, cache)
        for block in self.blocks:
            x = block(x, None)
        return self.head(self.norm(x))

    def decode(self, x, cache):
        for block in self.blocks:
            x = block(x, cache)
        x = self.norm(x)
        return self.head(x)


class Cache:
    def __init__(self):
        self.length = 0
        self.kept = {}

    def extend(self, layer, k, v):
        if layer in self.kept:
            k, v = (torch.cat(pair, 2) for pair in zip(self.kept[layer], (k, v), strict=True))
        self.kept[layer] = k, v
        return k, v


@torch.no_grad()
def generate(model, prompt, count, mark):
    cache, tokens = Cache(), prompt
    with mark("prefill"):
        for place in range(prompt.size(1)):
            logits = model(tokens[:, place : place + 1], cache)[:, -1]
    with mark("decode"):
        return decode(model, tokens, logits, cache, count)


def decode(model, tokens, logits, cache, count):
    for _ in range(count):
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
        logits = model(tokens[:, -1:], cache)[:, -1]
    return tokens


def gated(x, gate):
    gate = gate.exp().log1p().tanh()
    gate = (gate * 0.5 + 0.1).sigmoid()
    return (x * gate + x.sin()).relu().mul(1.5).add(gate).square()
