"""The attention suite runs what was asked for and computes what attention is, or says why not."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import attention
from benchmarks.attention import AttentionCase, Implementations, SharedHeads, SparseMasks, causal_mask
from perfci.bench.parity import ParityFailed

pytestmark = pytest.mark.skipif(
    attention.DEVICE != "cpu", reason="asks for what only a CPU refuses, at smoke sizes"
)

LENGTH, HEADS = attention.KERNELS.lengths[0], attention.KERNELS.heads
FLASH, MATH = "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_attention_math"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = dataclasses.replace(attention.KERNELS, timing={"warmup_s": 0.01, "budget_s": 0.02})
    monkeypatch.setattr(attention, "KERNELS", sizes)


@pytest.mark.parametrize("implementation", ["math", "flash", "hand-written"])
def test_an_implementation_gives_every_metric_a_cpu_has(implementation: str) -> None:
    rows, flags = measured(
        Implementations(), "attention", implementation, LENGTH, HEADS, "fp32", True, "hot", "smoke"
    )

    assert {name for name, row in rows.items() if row["status"] != "ok"} == {"peak_allocated_bytes"}
    assert {"forward_time", "cpu_forward_time", "backward_time", "peak_tensor_bytes", "flop_rate"} <= set(
        rows
    )
    assert flags[0] == "ran: " + {"math": MATH, "flash": FLASH}.get(
        implementation, "eager matrix products, all scores materialised"
    )


def test_flex_attention_gives_reasons_for_what_a_cpu_lacks() -> None:
    rows, _ = measured(Implementations(), "attention", "flex", LENGTH, HEADS, "fp32", True, "hot", "smoke")

    assert rows["forward_time"]["samples"][0] > 0
    assert rows["backward_time"]["reason"].startswith("FlexAttention does not support backward on CPU")
    assert "higher order" in rows["flops"]["reason"]


@pytest.mark.parametrize("implementation", ["efficient", "cudnn"])
def test_a_refused_backend_is_skipped_in_torchs_words(implementation: str) -> None:
    with pytest.raises(SkipNotImplemented, match=f"torch refuses {implementation} here: No viable backend"):
        Implementations().measure_attention(implementation, LENGTH, HEADS, "fp32", True, "hot", "smoke")


def test_a_cold_cache_is_skipped_where_none_can_be_flushed() -> None:
    with pytest.raises(SkipNotImplemented, match="cold L2"):
        Implementations().measure_attention("math", LENGTH, HEADS, "fp32", True, "cold", "smoke")


def test_flash_that_fell_back_to_math_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(attention.BACKENDS, "flash", SDPBackend.MATH)

    with pytest.raises(RuntimeError, match=f"rejected: flash was requested, but {MATH} ran"):
        Implementations().measure_attention("flash", LENGTH, HEADS, "fp32", True, "hot", "smoke")


def test_math_that_torch_replaced_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "restrict_backend", lambda _: contextlib.nullcontext())

    with pytest.raises(RuntimeError, match=f"rejected: math was requested, but {FLASH} ran"):
        Implementations().measure_attention("math", LENGTH, HEADS, "fp32", True, "hot", "smoke")


def test_flex_that_was_not_compiled_for_a_gpu_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "DEVICE", "cuda")

    assert attention.check_kernel(["aten::empty", "triton_tem_fused_0"], "flex") == "triton_tem_fused_0"
    with pytest.raises(RuntimeError, match="rejected: flex was requested, but no kernel of its own ran"):
        attention.check_kernel(["aten::bmm", "aten::softmax", "FlexAttentionAutogradOp"], "flex")


def test_an_error_other_than_a_refusal_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("scores need 12 GB")

    monkeypatch.setattr(attention, "build_attention", lambda *_: out_of_memory)

    with pytest.raises(torch.OutOfMemoryError, match="12 GB"):
        Implementations().measure_attention("math", LENGTH, HEADS, "fp32", True, "hot", "smoke")


def test_falling_back_to_math_shows_in_the_peak_and_not_in_the_operations() -> None:
    math, _ = measured(Implementations(), "attention", "math", LENGTH, HEADS, "fp32", True, "hot", "smoke")
    flash, _ = measured(Implementations(), "attention", "flash", LENGTH, HEADS, "fp32", True, "hot", "smoke")

    scores = attention.KERNELS.batch * HEADS * LENGTH**2
    assert math["peak_tensor_bytes"]["samples"][0] - flash["peak_tensor_bytes"]["samples"][0] > 4 * scores
    assert (
        math["flops"]["samples"] == flash["flops"]["samples"] == [12 * scores * attention.KERNELS.head_width]
    )


def test_a_causal_pass_is_useful_in_half_its_square() -> None:
    case = AttentionCase.random(LENGTH, HEADS, HEADS, torch.float32)

    assert (
        case.useful_flops(causal=False)
        == 4 * attention.KERNELS.batch * HEADS * LENGTH**2 * case.query.shape[-1]
    )
    assert case.useful_flops(causal=True) == case.useful_flops(causal=False) / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_correct_attention_passes_in_every_precision(dtype: torch.dtype) -> None:
    case = AttentionCase.random(LENGTH, HEADS, 1, dtype)
    correct = functools.partial(scaled_dot_product_attention, is_causal=True, enable_gqa=True)

    assert attention.check_numerics(correct, case, causal_mask) < (0.05 if dtype is torch.bfloat16 else 1e-5)


def test_a_result_that_is_off_is_rejected() -> None:
    case = AttentionCase.random(LENGTH, HEADS, HEADS, torch.float32)

    with pytest.raises(ParityFailed, match=r"rejected: parity failed: the result is 0\.001 of its"):
        attention.check_numerics(lambda *qkv: 1.001 * scaled_dot_product_attention(*qkv), case, None)


def test_a_gradient_that_is_off_is_rejected() -> None:
    case = AttentionCase.random(LENGTH, HEADS, HEADS, torch.float32)

    def drifting(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value) + 0.001 * (query - query.detach())

    with pytest.raises(ParityFailed, match="a gradient is"):
        attention.check_numerics(drifting, case, None)


def test_a_forgotten_mask_is_rejected() -> None:
    case = AttentionCase.random(LENGTH, HEADS, HEADS, torch.bfloat16)

    with pytest.raises(ParityFailed, match="the result is"):
        attention.check_numerics(scaled_dot_product_attention, case, causal_mask)


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
def test_shared_heads_shrink_the_cache(kv_heads: int) -> None:
    rows, flags = measured(SharedHeads(), "shared_heads", "flash", LENGTH, HEADS, kv_heads, "fp32", "smoke")

    sizes = attention.KERNELS
    assert rows["kv_cache_bytes"]["samples"] == [2 * sizes.batch * kv_heads * LENGTH * sizes.head_width * 4]
    assert flags[0] == f"ran: {FLASH}"


def test_a_block_mask_is_as_sparse_as_it_says() -> None:
    rows, _ = measured(SparseMasks(), "mask", "blocks-90", LENGTH, HEADS, "fp32", "smoke")

    assert rows["realised_sparsity"]["samples"] == [pytest.approx(0.9)]
    assert rows["speedup"]["clock"] == "informational"
    assert rows["forward_time"]["status"] == "ok"


@pytest.mark.parametrize("hidden", [0.5, 0.75, 0.9])
def test_blocks_are_hidden_to_the_count_and_never_the_diagonal(hidden: float) -> None:
    shown = attention.visible_blocks(20, hidden)

    assert int(shown.sum()) == round((1 - hidden) * 400)
    assert bool(shown.diagonal().all())


def test_a_window_attends_to_itself_and_just_before() -> None:
    mask = attention.build_dense_mask(attention.build_mask("window-3", 8), 8)

    assert mask is not None
    assert [int(count) for count in mask[0, 0].sum(dim=-1)] == [1, 2, 3, 3, 3, 3, 3, 3]
    assert mask[0, 0, 5].nonzero().flatten().tolist() == [3, 4, 5]


def measured(bench: Any, name: str, *parameters: object) -> tuple[dict[str, Any], list[str]]:
    report = getattr(bench, f"measure_{name}")(*parameters)
    return {row["name"]: row for row in report["metrics"]}, report["flags"]
