"""Checks of profiles: which attention kernels ran, and whether shares by kernel names are shares of work."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from perfci.bench.profiles.operator_kinds import classify_operator
from perfci.bench.profiles.profiler import profile_work
from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck, join_results
from tools.gpu_checks.training_steps import make_step

SHARE_LIMIT = 0.03
ATTENTION_MARKS = {
    SDPBackend.FLASH_ATTENTION: ("flash",),
    SDPBackend.EFFICIENT_ATTENTION: ("fmha", "MemEff"),
    SDPBackend.CUDNN_ATTENTION: ("cudnn",),
    SDPBackend.MATH: ("gemm", "nvjet", "xmma", "cutlass"),
}
"""What a kernel of each backend has in its name."""

OPERATORS_OF_KIND = {
    "attention": ("aten::_scaled_dot_product", "aten::_flash_attention", "aten::_cudnn_attention"),
    "matmul": ("aten::mm", "aten::addmm", "aten::bmm"),
    "optimizer": ("aten::_fused_adamw_",),
}
"""ATen operators whose kernels are of a kind, whatever those are called."""


def record_kernels(work: Callable[[], object]) -> Any:
    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize()
    return recorded


def check_attention_kernels() -> CheckResult:
    """Ask for a backend, and see what ran forward and backward."""
    query = torch.randn(4, 12, 1024, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def attend() -> None:
        scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()

    results = []
    for backend, marks in ATTENTION_MARKS.items():
        with sdpa_kernel(backend):
            rows = record_kernels(attend).key_averages()
        expected_kind = "matmul" if backend is SDPBackend.MATH else "attention"
        seconds = {
            row.key: row.self_device_time_total
            for row in rows
            if row.device_type == DeviceType.CUDA and classify_operator(row.key) == expected_kind
        }
        longest = max(seconds, key=lambda name: seconds[name], default="nothing")
        holds = any(mark.lower() in longest.lower() for mark in marks)
        results.append((f"{backend.name}:", CheckResult(f"`{longest[:60]}`", holds)))
    return join_results(results)


def check_kernel_time_shares() -> CheckResult:
    """Shares by the names of kernels, against those by the operators that launched them."""
    step = make_step().step
    with tempfile.TemporaryDirectory() as folder:
        profiled = profile_work(lambda mark_phase: step(), Path(folder))
    ours = {row.name: row.share for row in profiled.kinds}
    rows = record_kernels(step).key_averages()
    # Operators and the kernels they launched are rows both, each with the kernel's time.
    operators = [row for row in rows if row.device_type == DeviceType.CPU]
    whole = sum(row.self_device_time_total for row in operators)
    results = []
    for kind, names in OPERATORS_OF_KIND.items():
        theirs = sum(row.self_device_time_total for row in operators if row.key.startswith(names)) / whole
        difference = ours.get(kind, 0.0) - theirs
        shown = f"{ours.get(kind, 0.0):.1%} against {theirs:.1%}"
        results.append((kind, CheckResult(shown, abs(difference) <= SHARE_LIMIT)))
    return join_results(results)


KERNEL_CHECKS = CheckGroup(
    "kernels",
    30,
    [
        GpuCheck(
            "attention kernels that ran",
            "those of the backend asked for",
            "sdpa_kernel with each backend, and torch's profiler",
            check_attention_kernels,
        ),
        GpuCheck(
            "shares of matmul, attention and optimizer",
            "within 3 points",
            "device time by the ATen operators that launched the kernels",
            check_kernel_time_shares,
        ),
    ],
)
