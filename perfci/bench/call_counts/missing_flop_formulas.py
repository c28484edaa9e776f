"""Tell which operators without a FLOP formula leave a count incomplete.

What is elementwise, reduces, moves or looks up is left out of every count. ATen is large but finite, and
what multiplies there has a name that says so; of an operator from elsewhere nothing is known.
"""

from __future__ import annotations

from typing import Any

CHEAP_NAMESPACES = {
    *("prim", "prims", "profiler", "rngprims", "streams", "fsdp"),
    *("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor"),
}
"""Operators of torch that move, reduce or mark, and multiply no matrices."""

NAMED_NAMESPACES = {"aten", "torchvision", "torchaudio", "quantized", "mkldnn", "mkl"}
"""Where what multiplies has one of ``PRODUCT_WORDS`` in its name; elsewhere any operator may."""

PRODUCT_WORDS = {
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "hspmm", "sspaddmm", "matmul", "trilinear", "linear"),
    *("conv", "conv1d", "conv2d", "conv3d", "convolution", "rnn", "lstm", "gru", "attention"),
    *("cdist", "euclidean"),
    *("linalg", "cholesky", "geqrf", "ormqr", "solve", "spsolve", "svd", "lstsq", "qr"),
}
"""Words of operators whose work grows faster than what they read and write."""

CHEAP_WORDS = {"upsample", "cell", "flatten", "reorder", "vector", "powsum", "cross", "check", "search"}
"""Words of operators that interpolate, take a norm, or prepare and check what another one multiplies."""

BIG_TENSOR_ELEMENTS = 4096
"""An operator without a formula leaves a count incomplete where it reads so many numbers, 64 x 64."""


def may_multiply_big_tensors(operator: Any, tensors: list[Any]) -> bool:
    """Whether an operator without a formula may multiply matrices or convolve, on tensors that matter."""
    namespace, _, name = operator.name().partition("::")
    if namespace in CHEAP_NAMESPACES or not any(tensor.numel() >= BIG_TENSOR_ELEMENTS for tensor in tensors):
        return False
    if namespace not in NAMED_NAMESPACES:
        return True
    words = set(name.partition(".")[0].split("_"))
    return bool(words & PRODUCT_WORDS) and not words & CHEAP_WORDS
