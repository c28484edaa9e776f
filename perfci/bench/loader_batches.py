"""Batches of a user's loader: moved to the device, repeated for every model, and begun again at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_map

from perfci.bench.devices.torch_devices import Device

KEPT_BATCHES = 2
"""Batches kept of a loader for training that shall not wait for it."""

UNKNOWN_PREFETCH_DEPTH = 16
"""Batches that may lie ready in a loader which does not say how many it fetches ahead."""


_ENDED = object()


class LoaderEnded(Exception):
    """The loader has no further batch, and none when it is asked again."""


def move_to_device(batch: Any, device: Device) -> Any:
    """Copy all tensors of a batch to the device, without waiting for those in pinned memory."""
    if device.kind == "cpu":
        return batch

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            # What is no tensor may know itself how to move, as batches of transformers' tokenizers do.
            return leaf.to(device.torch_device) if hasattr(leaf, "to") else leaf
        return leaf.to(device.torch_device, non_blocking=leaf.device.type == "cpu" and leaf.is_pinned())

    return tree_map(move, batch)


class FirstBatches:
    """The first batches of a loader, fetched once from one seed: every variant trains on the same ones."""

    def __init__(self, create_loader: Callable[[], Iterable[Any]], device: Device) -> None:
        self._create_loader = create_loader
        self._device = device
        self._kept: list[Any] = []

    def __call__(self, index: int) -> Any:
        """Return one of them on the device, in turn; ``LoaderEnded`` where there is none.

        Under fake tensors it is a fake one of the same shapes.
        """
        if not self._kept:
            self._kept = self._fetch()
        batch = self._kept[index % len(self._kept)]
        if detect_fake_mode() is not None:
            batch = tree_map(_empty_like, batch)
        return move_to_device(batch, self._device)

    def _fetch(self) -> list[Any]:
        state = random.getstate()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            random.seed(0)
            batches = [batch for _, batch in zip(range(KEPT_BATCHES), self._create_loader(), strict=False)]
        random.setstate(state)
        if not batches:
            raise LoaderEnded("the loader gave no batch at all")
        return batches


def _empty_like(leaf: Any) -> Any:
    return torch.empty(leaf.shape, dtype=leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf


class EndlessLoader:
    """An iterator over a loader that begins again where an epoch ends.

    What has ended for good, as a generator has, is asked for anew from the ``loader`` hook. ``restarts``
    counts how often: the workers of a ``DataLoader`` start anew then, and have nothing ready.
    """

    def __init__(self, create_loader: Callable[[], Iterable[Any]]) -> None:
        self._create_loader = create_loader
        self._loader = create_loader()
        self._batches = iter(self._loader)
        self.restarts = 0
        self.epoch_length = 0
        """Batches of the epoch so far."""

    def __next__(self) -> Any:
        """Fetch the next batch; ``LoaderEnded`` where a new epoch has none."""
        batch = next(self._batches, _ENDED)
        if batch is _ENDED:
            batch = self._begin_again()
        self.epoch_length += 1
        return batch

    def _begin_again(self) -> Any:
        if not self.epoch_length:
            raise LoaderEnded("the loader gave no batch at all")
        batch = next(self._begin_epoch(), _ENDED)
        if batch is _ENDED:
            self._loader = self._create_loader()
            batch = next(self._begin_epoch(), _ENDED)
        if batch is _ENDED:
            raise LoaderEnded(
                f"the loader gave {self.epoch_length} batches, and none when it was begun again"
            )
        self.restarts += 1
        self.epoch_length = 0
        return batch

    def _begin_epoch(self) -> Iterator[Any]:
        self._batches = iter(self._loader)
        return self._batches

    @property
    def workers(self) -> int | None:
        """Processes that fetch batches; None where the loader does not say."""
        workers = getattr(self._loader, "num_workers", None)
        return workers if isinstance(workers, int) else None

    @property
    def prefetch_depth(self) -> int:
        """How many batches may lie ready before the first is asked for."""
        if self.workers is None:
            return UNKNOWN_PREFETCH_DEPTH
        return self.workers * int(getattr(self._loader, "prefetch_factor", None) or 1)
