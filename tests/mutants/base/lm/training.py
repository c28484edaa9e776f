"""What a training step is made of."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from lm.model import LM


def loss(model: LM, text: Tensor) -> Tensor:
    """(batch, length + 1) -> a scalar"""
    return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def optimizer(model: LM) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
