"""A GPT: token and position embeddings, pre-norm blocks, causal attention, and a cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from perfci.bench.compilers.compile_model import compile_model

from .attention_kernels import attend
from .feedforward import SwiGLU
from .workload_sizes import Sizes

SAVED_OPERATORS = {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
}
"""Expensive operators that selective checkpointing keeps; cheap ones are recomputed, as in torchtitan."""


@dataclass(frozen=True)
class Architecture:
    """Choices within a block. ``attention`` names a kernel of ``ATTENTIONS``, or a sparse mask."""

    kv_heads: int | None = None  # heads of keys and values, that query heads share; None is one each
    expansion: int = 4  # of the feed-forward part
    feedforward: str = "gelu"  # or swiglu, two thirds as wide for as many parameters
    attention: str = "automatic"


BASELINE = Architecture()


class GPT(nn.Module):
    """``checkpointing`` recomputes activations in the backward pass: all of them, or cheap ones only."""

    def __init__(
        self, sizes: Sizes, *, checkpointing: str = "none", architecture: Architecture = BASELINE
    ) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.architecture = architecture
        self.tokens = nn.Embedding(sizes.vocab, sizes.width)
        self.positions = nn.Embedding(sizes.positions, sizes.width)
        self.blocks = nn.ModuleList(
            Block(sizes.width, sizes.heads, architecture) for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocab, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.tie_head()

    def tie_head(self) -> None:
        """Share one weight between embedding and head; loading with ``assign=True`` gives each its own."""
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) -> (batch, length, vocab)"""
        return self.head(self.hidden(tokens))

    def hidden(self, tokens: Tensor, cache: ModelCache | None = None) -> Tensor:
        """(batch, length) -> (batch, length, width); a cache supplies what came before."""
        start = cache.length if cache else 0
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for index, block in enumerate(self.blocks):
            layer = cache.layers[index] if cache else None
            if not torch.is_grad_enabled() or self.checkpointing == "none":
                x = block(x, layer, start)
            elif self.checkpointing == "full":
                x = checkpoint(block, x, layer, start, use_reentrant=False)
            else:
                x = checkpoint(
                    block, x, layer, start, use_reentrant=False, context_fn=create_selective_contexts
                )
        if cache:
            cache.length += tokens.shape[1]
        return self.norm(x)


def compile_blocks(model: GPT, choice: object) -> None:
    """Compile every block by itself, which serving calls one by one; equal blocks share one compilation."""
    for block in model.blocks:
        compile_model(block, choice)


def checkpoint_policy(context: Any, operator: Any, *_: object, **__: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in SAVED_OPERATORS else CheckpointPolicy.PREFER_RECOMPUTE


def create_selective_contexts() -> Any:
    return create_selective_checkpoint_contexts(checkpoint_policy)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, architecture: Architecture) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, architecture)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = build_mlp(width, architecture)

    def forward(self, x: Tensor, layer: LayerCache | None, start: int) -> Tensor:
        x = x + self.attention(self.norm1(x), layer, start)
        return x + self.mlp(self.norm2(x))


def build_mlp(width: int, architecture: Architecture) -> nn.Module:
    hidden = architecture.expansion * width
    if architecture.feedforward == "swiglu":
        return SwiGLU(width, 2 * hidden // 3)
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, width))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, architecture: Architecture) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, architecture.kv_heads or heads
        self.kind = architecture.attention
        self.qkv = nn.Linear(width, width + 2 * self.kv_heads * (width // heads))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, layer: LayerCache | None, start: int) -> Tensor:
        batch, length, width = x.shape
        every_head = self.qkv(x).view(batch, length, self.heads + 2 * self.kv_heads, width // self.heads)
        shares = [self.heads, self.kv_heads, self.kv_heads]
        q, k, v = (share.transpose(1, 2) for share in every_head.split(shares, dim=2))
        if layer is not None:
            k, v = layer.extend(k, v, start)
        # Tokens come all at once at the start, then one by one: a single new token may look at everything.
        # Without a cache no length is asked for, so that dynamo compiles one graph for all.
        causal = True
        if (
            layer is not None and length == 1
        ):  # a branch: attention takes no comparison of a length from dynamo
            causal = False
        mixed = attend(self.kind, q, k, v, causal=causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class LayerCache(Protocol):
    """Keys and values of one layer, (batch, heads, length, width) each."""

    def extend(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Keep what belongs to the positions from ``start`` on; give all there is so far."""
        ...

    def tensors(self) -> list[Tensor]: ...


class StaticLayerCache:
    """Room for all positions, taken at once: it never grows while tokens come."""

    dtype = torch.get_default_dtype()

    def __init__(self, shape: tuple[int, ...], device: str) -> None:
        self.keys_values = torch.zeros(shape, device=device, dtype=self.dtype)

    def extend(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        end = start + k.shape[2]
        self.keys_values[0, :, :, start:end] = k
        self.keys_values[1, :, :, start:end] = v
        k_so_far, v_so_far = self.keys_values[:, :, :, :end].to(k.dtype)
        return k_so_far, v_so_far

    def tensors(self) -> list[Tensor]:
        return [self.keys_values]


class Float8LayerCache(StaticLayerCache):
    """The same in a quarter of the bytes: rounded to float8 when kept, widened when read."""

    dtype = torch.float8_e4m3fn


class DynamicLayerCache:
    """Grown by every token: all that is there is copied each time."""

    def __init__(self, shape: tuple[int, ...], device: str) -> None:
        self.keys_values: tuple[Tensor, ...] = ()

    def extend(self, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor]:
        self.keys_values = (
            tuple(torch.cat(pair, dim=2) for pair in zip(self.keys_values, (k, v), strict=True))
            if start
            else (k, v)
        )
        return self.keys_values[0], self.keys_values[1]

    def tensors(self) -> list[Tensor]:
        return list(self.keys_values)


CACHES: dict[str, type[StaticLayerCache] | type[DynamicLayerCache]] = {
    "static": StaticLayerCache,
    "dynamic": DynamicLayerCache,
    "fp8": Float8LayerCache,
}


class ModelCache:
    """The keys and values of every layer, and how many positions they hold."""

    def __init__(
        self,
        sizes: Sizes,
        device: str,
        *,
        batch: int,
        length: int,
        kind: str = "static",
        kv_heads: int | None = None,
    ) -> None:
        shape = (2, batch, kv_heads or sizes.heads, length, sizes.width // sizes.heads)
        self.layers = [CACHES[kind](shape, device) for _ in range(sizes.layers)]
        self.length = 0

    def tensors(self) -> list[Tensor]:
        return [tensor for layer in self.layers for tensor in layer.tensors()]


def prefill(model: GPT, prompt: Tensor, cache: ModelCache) -> Tensor:
    """Read the prompt and return its first new token."""
    return most_likely_token(model, model.hidden(prompt, cache))


def decode(model: GPT, token: Tensor, cache: ModelCache, count: int) -> Tensor:
    """Return ``count`` tokens more, greedily; no token ends the text, so the work is always the same."""
    tokens = []
    for _ in range(count):
        token = most_likely_token(model, model.hidden(token, cache))
        tokens.append(token)
    return torch.cat(tokens, dim=1)


def most_likely_token(model: GPT, hidden: Tensor) -> Tensor:
    return model.head(hidden[:, -1]).argmax(dim=-1, keepdim=True)
