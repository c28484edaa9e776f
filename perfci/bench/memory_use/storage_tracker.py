"""Track every tensor storage from its creation to its end, by a dispatch mode below autograd.

torch's own ``torch.distributed._tools.mem_tracker`` agrees on one training step, but it is private, misses
what was there before and was not named to it, and refuses a second step of the same model without a reset.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from perfci.bench.memory_use.expand_fused_layers import run_fused_layer_expanded
from perfci.bench.readings import Absent
from perfci.model import PerfciError

SCRATCH_TAKING_OPERATORS = frozenset(
    {torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default}
)
"""Operators whose kernels lay out the weights anew in memory of their own: a sixth of the peak of a step."""


class StorageTracker(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that counts bytes of storage: ``live_bytes`` are alive now, ``peak_bytes`` were at
    most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self.scratch_takers: set[str] = set()
        self._sizes: dict[int, int] = {}
        self._finalizers: dict[int, weakref.ref[Any]] = {}
        self._original_resizes: list[Any] = []

    def __enter__(self) -> StorageTracker:
        """Watch resizing too, which is no operator: so FSDP frees what it gathered while its tensors live
        on. A fused layer enters the mode once more, and has what it finds there restored.
        """
        original_resize = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:
            self._track_existing(storage)
            resized = original_resize(storage, size)
            self._update(storage)
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            return resized

        self._original_resizes.append(original_resize)
        torch.UntypedStorage.resize_ = resize
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.UntypedStorage.resize_ = self._original_resizes.pop()

    @property
    def peak_bytes_or_absent(self) -> int | Absent:
        """``peak_bytes``, absent where a kernel took much that no tensor shows."""
        if not self.scratch_takers:
            return self.peak_bytes
        names = " and ".join(sorted(self.scratch_takers))
        return Absent(f"{names} take memory inside their kernels that no tensor shows")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = run_fused_layer_expanded(self, func, args, kwargs)
        if result is not NotImplemented:
            return result
        if func in SCRATCH_TAKING_OPERATORS:
            self.scratch_takers.add(func.overloadpacket.__name__)
        inputs = list(iter_storages((args, kwargs)))
        for storage in inputs:
            self._track_existing(storage)
        result = func(*args, **kwargs)
        for storage in inputs:  # resize_ and out= change a size in place
            self._update(storage)
        for storage in iter_storages(result):
            self._update(storage)
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return result

    def _track_existing(self, storage: Any) -> None:
        """Count an input that was not seen before: it was alive all along, so it adds to every peak so
        far.
        """
        if storage._cdata not in self._sizes:
            self._update(storage)
            self.peak_bytes += storage.nbytes()

    def _update(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._sizes:
            self._finalizers[key] = weakref.ref(storage, lambda _: self._forget(key))
        self.live_bytes += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _forget(self, key: int) -> None:
        del self._finalizers[key]
        self.live_bytes -= self._sizes.pop(key)


def iter_storages(tree: Any) -> Iterator[Any]:
    """Yield the storages of all tensors in nested arguments or results; shared ones repeat."""
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield from _tensor_storages(leaf)


def _tensor_storages(tensor: Any) -> Iterator[Any]:
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        yield from iter_storages([getattr(tensor, name) for name in names])
    elif tensor.layout is torch.strided:
        yield tensor.untyped_storage()
    elif tensor.layout is torch.sparse_coo:
        yield from iter_storages([tensor._indices(), tensor._values()])
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from iter_storages([tensor.crow_indices(), tensor.col_indices(), tensor.values()])
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from iter_storages([tensor.ccol_indices(), tensor.row_indices(), tensor.values()])
    else:
        raise NotImplementedError(f"cannot count the memory of a tensor with layout {tensor.layout}")


def tensor_storage_bytes(tree: Any) -> int:
    """Sum the storages of nested tensors: shared ones once, and whole ones where a tensor is a view."""
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, torch.Tensor | int | float | bool | str | None):
            raise PerfciError(
                f"tensors in lists, tuples or dicts can be weighed; a {type(leaf).__name__} was given"
            )
    return sum({storage._cdata: int(storage.nbytes()) for storage in iter_storages(tree)}.values())
