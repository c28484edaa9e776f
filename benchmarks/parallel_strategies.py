"""Training with several ranks: what each of the strategies does to a model and its optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from .gpt_model import GPT
from .workload_sizes import DEVICE, PARALLEL, precision_context, seed_and_pin_threads

ModelAndOptimizer = tuple[nn.Module, Any]


def single_process(model: GPT) -> ModelAndOptimizer:
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4)


def ddp(model: GPT) -> ModelAndOptimizer:
    """Everything on every rank, gradients averaged (DistributedDataParallel)."""
    from torch.nn.parallel import DistributedDataParallel

    return single_process(DistributedDataParallel(model))


def zero1(model: GPT) -> ModelAndOptimizer:
    """DDP whose optimizer state is shared out (Rajbhandari et al., "ZeRO", arXiv:1910.02054, stage 1)."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    copies = DistributedDataParallel(model)
    return copies, ZeroRedundancyOptimizer(copies.parameters(), optimizer_class=torch.optim.AdamW, lr=3e-4)


def fsdp2(model: GPT) -> ModelAndOptimizer:
    """Parameters, gradients and optimizer state shared out, gathered block by block when they are needed."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
    return single_process(model)


STRATEGIES: dict[str, Callable[[GPT], ModelAndOptimizer]] = {
    "alone": single_process,
    "ddp": ddp,
    "zero1": zero1,
    "fsdp2": fsdp2,
}


class Replica:
    """One rank's model and optimizer; ``step`` trains on the rows that are this rank's."""

    def __init__(self, strategy: str) -> None:
        seed_and_pin_threads()
        self.model, self.optimizer = STRATEGIES[strategy](GPT(PARALLEL.model).to(DEVICE))

    def step(self, text: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with precision_context(PARALLEL.precision):
            logits = self.model(text[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def batch_rows(rank: int, rows: int, ranks: int) -> Tensor:
    """This rank's share of a batch that is the same however many share it: (rows, length + 1) tokens."""
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(PARALLEL.model.vocab, (rows * ranks, PARALLEL.model.length + 1), generator=generator)
    return text[rank * rows : (rank + 1) * rows].to(DEVICE)
