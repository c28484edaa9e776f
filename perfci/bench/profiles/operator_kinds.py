"""Classify operators and kernels by the names that profilers show: attention, products, optimizer and so on.

Names are those of cuBLAS, cuDNN, CUTLASS, FlashAttention, NCCL, Triton and ATen. A name often holds words of
several kinds: memory-efficient attention is built from CUTLASS's matrix products, and ``GammaBeta`` of a
LayerNorm holds ``mm``. So the first kind that fits is the kind, and words are matched as words.
"""

from __future__ import annotations

import re

OTHER_KIND = "other"

INDUCTOR_LOOP = re.compile(r"^triton_(poi|per|red|spl|mix)_fused_|^cpp_fused_|^graph_\d+_cpp_fused_")
"""Loops that inductor generated. Their names list what was fused, and the product that only feeds one."""

KIND_PATTERNS: dict[str, re.Pattern[str]] = {
    "attention": re.compile(
        r"flash_?(fwd|bwd|attn|attention|fprop|bprop)|fmha|sdpa|memeffattention|attn_fwd|bwd_kernel_d[kq]"
        r"|scaled_?dot_?product|paged_attention|flex_attention|attention|(paged|ragged)kv"
    ),
    "communication": re.compile(
        r"nccl|gloo|c10d::|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce"
    ),
    "optimizer": re.compile(r"adam|multi_tensor_apply|_foreach_|_fused_sgd|^optimizer\.|^triton_for_fused"),
    "normalisation": re.compile(
        r"layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|softmax|gammabeta|rowwisemoments"
        r"|cucompute(part)?grad|fusedparams|cudnn::bn_|bn_(fw|bw)_"
    ),
    "copy": re.compile(r"^mem(cpy|set)|copy|catarray|^aten::(cat|clone|contiguous|_to_copy|pin_memory)$"),
    "convolution": re.compile(r"conv(?!ert)|implicit_gemm|fprop|dgrad|wgrad|winograd"),
    "matmul": re.compile(
        r"gemm|gemv|nvjet|xmma|cijk_|splitkreduce|^triton_tem_fused|mmbackward|linearbackward"
        r"|(?<![a-z0-9])(mm|bmm|addmm|baddbmm|addbmm|addmv|mv|dot|matmul|linear)(?![a-z0-9])"
    ),
}
"""Patterns of lower-case names, in the order in which they are tried."""


def classify_operator(name: str) -> str:
    """Name the kind of an operator or kernel: a key of ``KIND_PATTERNS``, or ``other``."""
    lower = name.lower()
    if INDUCTOR_LOOP.search(lower):
        return "normalisation" if KIND_PATTERNS["normalisation"].search(lower) else OTHER_KIND
    return next((kind for kind, pattern in KIND_PATTERNS.items() if pattern.search(lower)), OTHER_KIND)
