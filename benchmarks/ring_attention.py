"""Ring attention: each rank holds a part of the sequence, and keys and values travel round the ring of ranks.

Liu et al., "Ring Attention with Blockwise Transformers", arXiv:2310.01889. Parts are consecutive and
attention is causal, so that the last rank computes most: it is the one that counts.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

flash = torch.ops.aten


def ring_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention over the parts of all ranks; each is (batch, heads, length / ranks, width),
    contiguous.
    """
    mixed: Tensor = RingAttentionFunction.apply(query, key, value)
    return mixed


class RingAttentionFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        held = torch.stack([key, value])
        mixed, weight = torch.zeros_like(query, dtype=torch.float32), None
        for turn in range(ranks):
            travelling = RingExchange(held) if turn < ranks - 1 else None
            if (
                turn <= rank
            ):  # what comes later came from ranks behind this one: its tokens are not to be seen
                part, part_weight = local_attention(query, held[0], held[1], causal=turn == 0)
                mixed, weight = merge_attention(mixed, weight, part, part_weight)
            held = travelling.wait() if travelling else held
        ctx.save_for_backward(query, key, value, mixed.to(query.dtype), weight)
        return mixed.to(query.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of a shard's keys and values travel along with it, and one step further at the end."""
        query, key, value, mixed, weight = ctx.saved_tensors
        rank, ranks = dist.get_rank(), dist.get_world_size()
        held = torch.stack([key, value])
        of_query = torch.zeros_like(query, dtype=torch.float32)
        of_held = torch.zeros_like(held, dtype=torch.float32)
        for turn in range(ranks):
            travelling = RingExchange(held) if turn < ranks - 1 else None
            if turn <= rank:
                parts = local_attention_backward(
                    gradient.contiguous(), query, held[0], held[1], mixed, weight, causal=turn == 0
                )
                of_query += parts[0]
                of_held += torch.stack(parts[1:])
            held = travelling.wait() if travelling else held
            of_held = RingExchange(of_held).wait() if ranks > 1 else of_held
        return of_query.to(query.dtype), of_held[0].to(key.dtype), of_held[1].to(value.dtype)


class RingExchange:
    """A tensor on its way to the next rank while that of the rank before comes in."""

    def __init__(self, sent: Tensor) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.received = torch.empty_like(sent)
        send = dist.P2POp(dist.isend, sent, (rank + 1) % ranks)
        receive = dist.P2POp(dist.irecv, self.received, (rank - 1) % ranks)
        self.sent = sent  # must live until it is gone
        self.works = dist.batch_isend_irecv([send, receive])

    def wait(self) -> Tensor:
        for work in self.works:
            work.wait()
        return self.received


def merge_attention(
    mixed: Tensor, weight: Tensor | None, part: Tensor, part_weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Weigh two results by the sums of exponentials they were divided by (logarithms; batch, heads,
    length).
    """
    if weight is None:
        return part.float(), part_weight
    together = torch.logaddexp(weight, part_weight)
    total_scale, part_scale = (
        (weight - together).exp().unsqueeze(-1),
        (part_weight - together).exp().unsqueeze(-1),
    )
    return mixed * total_scale + part * part_scale, together


def local_attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Flash attention with the logarithm of its divisor, which torch's public function keeps to itself."""
    if query.device.type == "cpu":
        mixed, weight = flash._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal)
    else:
        mixed, weight = flash._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)[:2]
    return mixed, weight


def local_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mixed: Tensor,
    weight: Tensor,
    *,
    causal: bool,
) -> tuple[Tensor, ...]:
    """Gradients of one part's query, key and value, from the result and the weight of *all* parts."""
    inputs_and_gradient = (gradient, query, key, value, mixed, weight)
    if query.device.type == "cpu":
        parts = flash._scaled_dot_product_flash_attention_for_cpu_backward(*inputs_and_gradient, 0.0, causal)
    else:
        lengths = (None, None, query.shape[2], key.shape[2])  # all sequences are equally long
        unused = torch.zeros(
            (), dtype=torch.int64, device=query.device
        )  # state of a dropout that drops nothing
        parts = flash._scaled_dot_product_flash_attention_backward(
            *inputs_and_gradient, *lengths, 0.0, causal, unused, unused
        )
    return tuple(parts)
