"""Texts from a storage that takes its time, read ahead by workers."""

from __future__ import annotations

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lm.model import VOCAB

LENGTH, BATCH = 192, 2
STORAGE_S = 0.003
"""What a text takes to arrive. Nobody computes meanwhile, as with a disk or a bucket."""


class Texts(Dataset[Tensor]):
    """(length + 1) tokens each"""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(STORAGE_S)
        return some_text(index)


def some_text(seed: int, length: int = LENGTH) -> Tensor:
    return torch.randint(VOCAB, (length + 1,), generator=torch.Generator().manual_seed(seed))


def loader(batches: int) -> DataLoader[Tensor]:
    return DataLoader(Texts(batches * BATCH), BATCH, num_workers=2, prefetch_factor=4)
