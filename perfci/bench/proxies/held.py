"""Bytes of tensors that are kept from one call to the next: parameters, optimizer state, a KV cache."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.memory_use.storage_tracker import iter_storages
from perfci.model import PerfciError


def tensor_storage_bytes(tree: Any) -> int:
    """Weigh nested tensors by their storages: once where they are shared, whole where a tensor is a part of one."""
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, torch.Tensor | int | float | bool | str | None):
            raise PerfciError(
                f"tensors in lists, tuples or dicts can be weighed; a {type(leaf).__name__} was given"
            )
    return sum({storage._cdata: int(storage.nbytes()) for storage in iter_storages(tree)}.values())
