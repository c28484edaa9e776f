"""Let dispatch modes see what torch's fused transformer layers run inside.

``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` call one operator each when they only infer.
Its products, and scores as large as length x length, are then hidden from every mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

FUSED_LAYERS = frozenset(
    {
        torch.ops.aten._transformer_encoder_layer_fwd.default,
        torch.ops.aten._native_multi_head_attention.default,
    }
)
FUSED_LAYER_BACKENDS = {"cpu": "CPU", "cuda": "CUDA"}


def run_fused_layer_expanded(mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Run the kernel of a fused layer while the mode sees the operators that it is made of.

    ``NotImplemented`` for any other operator, and on devices without such a kernel.
    """
    if func not in FUSED_LAYERS or args[0].device.type not in FUSED_LAYER_BACKENDS:
        return NotImplemented
    backend = FUSED_LAYER_BACKENDS[args[0].device.type]
    key = f"NestedTensor{backend}" if args[0].is_nested else backend
    with mode:
        return func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)
