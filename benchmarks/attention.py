"""Attention alone: by every kernel torch has for it, with fewer heads of keys, and under sparse masks.

A kernel that was asked for runs, or the cell says why not: nothing falls back. What is fast and wrong is
rejected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import statistics
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from perfci.bench import (
    Absent,
    Bench,
    Measurement,
    Metric,
    Reading,
    exact,
    informational,
    metrics,
    peak_tensor_bytes,
    skip_exception,
)
from perfci.bench.call_counts.count_flops import require_flops
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.memory_use.peak_memory import allocator_readings
from perfci.bench.parity import TOLERANCES, ParityFailed, max_relative_error
from perfci.bench.timers.timed_blocks import Timing, time_blocks

from .attention_kernels import BACKENDS, textbook_attention
from .workload_sizes import DEVICE, KERNELS, SIZES, declare_cost, require_dtype, seed_and_pin_threads

OPERATOR_PREFIX = "aten::_scaled_dot_product_"
BACKEND_OPERATORS = {
    "math": f"{OPERATOR_PREFIX}attention_math",
    "efficient": f"{OPERATOR_PREFIX}efficient_attention",
    "flash": f"{OPERATOR_PREFIX}flash_attention",
    "cudnn": f"{OPERATOR_PREFIX}cudnn_attention",
}
"""How the operator begins that a backend runs: flash's ends in ``_for_cpu`` on a CPU."""

REFUSAL_PREFIXES = ("No viable backend", "No available kernel")
"""How torch begins to say that none of the backends it may use can compute this."""

FP32_ROUNDING = TOLERANCES["fp32"].outputs

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Implementations(Bench):
    """One attention by each implementation; ``l2`` says what a call finds in the caches: the last call, or
    zeros.
    """

    cost_s = declare_cost(smoke=1.2, real=15)
    default_suite = {
        "implementation": ["flash"],
        "length": KERNELS.lengths[-1:],
        "causal": [True],
        "l2": ["hot"],
    }
    params = (
        [*BACKENDS, "flex", "hand-written"],
        KERNELS.lengths,
        [KERNELS.heads],
        KERNELS.precisions,
        KERNELS.causal,
        ["hot"] if DEVICE == "cpu" else ["hot", "cold"],
        [SIZES.name],
    )
    param_names = ("implementation", "length", "heads", "precision", "causal", "l2", "sizes")

    @metrics(
        Metric("forward_time", "seconds"),
        Metric("backward_time", "seconds"),
        Metric("peak_tensor_bytes", "bytes"),
        Metric("peak_allocated_bytes", "bytes"),
        Metric("flops", "FLOP"),
        Metric("flop_rate", "FLOP/s", "higher"),
        Metric("max_relative_error", "ratio"),
    )
    def measure_attention(
        self, implementation: str, length: int, heads: int, precision: str, causal: bool, l2: str, sizes: str
    ) -> Measurement:
        seed_and_pin_threads()
        case = AttentionCase.random(length, heads, heads, require_dtype(precision))
        with restrict_backend(implementation):
            studied = study_implementation(
                implementation, case, causal_mask if causal else None, flush_l2=l2 == "cold"
            )
            counted = studied.counts()
            allocated = allocator_readings(this_device(), studied.call)
        useful = case.useful_flops(causal)
        readings = {
            **studied.readings(),
            **counted,
            "peak_allocated_bytes": allocated["peak_allocated_bytes"],
            "flop_rate": informational(*(useful / seconds for seconds in studied.forward.elapsed_samples)),
        }
        return Measurement(readings, flags=studied.flags)


class SharedHeads(Bench):
    """Grouped and multi query attention (GQA, MQA): several query heads read one key and value head."""

    cost_s = declare_cost(smoke=1, real=12)
    default_suite = False
    params = (
        ["flash"] if DEVICE == "cpu" else ["math", "flash"],
        [KERNELS.lengths[len(KERNELS.lengths) // 2]],
        [KERNELS.heads],
        KERNELS.kv_heads,
        KERNELS.precisions,
        [SIZES.name],
    )
    param_names = ("implementation", "length", "heads", "kv_heads", "precision", "sizes")

    @metrics(
        Metric("forward_time", "seconds"),
        Metric("backward_time", "seconds"),
        Metric("peak_tensor_bytes", "bytes"),
        Metric("kv_cache_bytes", "bytes"),
        Metric("max_relative_error", "ratio"),
    )
    def measure_shared_heads(
        self, implementation: str, length: int, heads: int, kv_heads: int, precision: str, sizes: str
    ) -> Measurement:
        seed_and_pin_threads()
        case = AttentionCase.random(length, heads, kv_heads, require_dtype(precision))
        with restrict_backend(implementation):
            studied = study_implementation(implementation, case, causal_mask)
            counted = studied.counts()
        readings = {
            **studied.readings(),
            "peak_tensor_bytes": counted["peak_tensor_bytes"],
            "kv_cache_bytes": exact(case.key.nbytes + case.value.nbytes),
        }
        return Measurement(readings, flags=studied.flags)


class SparseMasks(Bench):
    """flex_attention under a sliding window or a mask of blocks, next to flash on the same inputs without it.

    ``realised_sparsity`` is the share of blocks that are skipped, which is less than a window hides.
    ``speedup`` is against flash over the dense (for a window: causal) square, since nobody who can choose
    would run math.
    """

    cost_s = declare_cost(smoke=1.3, real=45)
    default_suite = False
    params = (KERNELS.masks, [KERNELS.masked_length], [KERNELS.heads], KERNELS.precisions, [SIZES.name])
    param_names = ("mask", "length", "heads", "precision", "sizes")

    @metrics(
        Metric("forward_time", "seconds"),
        Metric("backward_time", "seconds"),
        Metric("realised_sparsity", "ratio", "higher"),
        Metric("speedup", "ratio", "higher"),
        Metric("max_relative_error", "ratio"),
    )
    def measure_mask(self, mask: str, length: int, heads: int, precision: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        case = AttentionCase.random(length, heads, heads, require_dtype(precision))
        visible = build_mask(mask, length)
        with restrict_backend("flex"):
            studied = study_implementation("flex", case, visible)
        with restrict_backend("flash"):
            dense, case, _ = select_attention(
                "flash", studied.case, causal_mask if mask.startswith("window") else None
            )
            flash = time_blocks(lambda: dense(*case.inputs), **KERNELS.timing)
        readings = {
            **studied.readings(),
            "realised_sparsity": informational(build_block_mask(visible, length).sparsity() / 100),
            "speedup": informational(
                statistics.median(flash.judged_samples) / statistics.median(studied.forward.judged_samples)
            ),
        }
        return Measurement(readings, flags=studied.flags)


@dataclasses.dataclass(frozen=True)
class AttentionCase:
    """Queries (batch, heads, length, width), keys and values, and the gradient of the result."""

    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor
    no_backward_reason: str = ""  # why there is none, where there is none

    @classmethod
    def random(cls, length: int, heads: int, kv_heads: int, dtype: torch.dtype) -> AttentionCase:
        def normal(count: int, *, learned: bool = True) -> Tensor:
            shape = (KERNELS.batch, count, length, KERNELS.head_width)
            return torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=learned)

        return cls(normal(heads), normal(kv_heads), normal(kv_heads), normal(heads, learned=False))

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value

    def forward_only(self, reason: str) -> AttentionCase:
        query, key, value = (tensor.detach() for tensor in self.inputs)
        return AttentionCase(query, key, value, self.gradient, no_backward_reason=reason)

    def first_sequence(self, dtype: torch.dtype) -> AttentionCase:
        """The first sequence of the batch, in another precision: attention looks at each sequence alone."""
        query, key, value = (tensor[:1].detach().to(dtype).requires_grad_() for tensor in self.inputs)
        return AttentionCase(
            query, key, value, self.gradient[:1].to(dtype), no_backward_reason=self.no_backward_reason
        )

    def results(self, attention: Attention) -> list[Tensor]:
        """The result and, where there is a backward pass, the gradients of queries, keys and values."""
        out = attention(*self.inputs)
        return (
            [out] if self.no_backward_reason else [out, *torch.autograd.grad(out, self.inputs, self.gradient)]
        )

    def useful_flops(self, causal: bool) -> float:
        """Of one forward pass, a causal one counted as half a square, as FlashAttention's benchmark
        counts.
        """
        batch, heads, length, width = self.query.shape
        return 4 * batch * heads * length**2 * width / (2 if causal else 1)


@dataclasses.dataclass(frozen=True)
class ImplementationStudy:
    """One implementation on one case: what it ran, how far off it was, and how long it took."""

    implementation: str
    attention: Attention
    case: AttentionCase
    kernel: str
    error: float
    forward: Timing
    backward: Timing | Absent

    def call(self) -> list[Tensor]:
        return self.case.results(self.attention)

    def readings(self) -> dict[str, Reading | Absent]:
        return {
            "forward_time": self.forward.reading(),
            "backward_time": self.backward if isinstance(self.backward, Absent) else self.backward.reading(),
            "max_relative_error": informational(self.error),
        }

    def counts(self) -> dict[str, Reading | Absent]:
        """Count forward and backward together; no counter sees the operators inside flex_attention."""
        if self.implementation == "flex":
            hidden = Absent(
                "flex_attention is one operator of higher order: what it runs inside cannot be counted"
            )
            return {"peak_tensor_bytes": hidden, "flops": hidden}
        return {
            "peak_tensor_bytes": exact(peak_tensor_bytes(self.call)),
            "flops": exact(require_flops(self.call)),
        }

    @property
    def flags(self) -> tuple[str, ...]:
        timings = [timing for timing in (self.forward, self.backward) if isinstance(timing, Timing)]
        return (f"ran: {self.kernel}", *dict.fromkeys(flag for timing in timings for flag in timing.flags))


def study_implementation(
    implementation: str, case: AttentionCase, mask_function: MaskFunction | None, *, flush_l2: bool = False
) -> ImplementationStudy:
    """Time an implementation that ran what it was asked for and computed the right numbers."""
    attention, case, kernel = select_attention(implementation, case, mask_function)
    return ImplementationStudy(
        implementation,
        attention,
        case,
        kernel,
        check_numerics(attention, case, mask_function),
        time_blocks(lambda: attention(*case.inputs), flush_l2=flush_l2, **KERNELS.timing),
        run_timed_backward(attention, case, flush_l2=flush_l2),
    )


def restrict_backend(implementation: str) -> contextlib.AbstractContextManager[None]:
    """Leave torch no other backend than this one.

    A CPU runs flex_attention eagerly, since compiling it takes longer than a whole smoke suite may: what a
    mask hides is computed, too, and all scores are materialised. Its times there say nothing about
    flex_attention on a GPU.
    """
    if implementation == "flex" and DEVICE == "cpu":
        return torch.compiler.set_stance("force_eager")
    return sdpa_kernel(BACKENDS[implementation]) if implementation in BACKENDS else contextlib.nullcontext()


def select_attention(
    implementation: str, case: AttentionCase, mask_function: MaskFunction | None
) -> tuple[Attention, AttentionCase, str]:
    """Give an implementation, the case it can compute, and what a profiler saw it run.

    Skips, in torch's own words, what torch refuses here. Raises ``RuntimeError`` where something else ran.
    """
    attention = build_attention(implementation, case, mask_function)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        try:
            names = profile_operator_names(attention, case)
        except NotImplementedError as refusal:
            case = case.forward_only(str(refusal))
            names = profile_operator_names(attention, case)
        except RuntimeError as refusal:
            if not str(refusal).startswith(REFUSAL_PREFIXES):
                raise
            reasons = [
                str(refusal),
                *(str(warning.message).partition(" (Triggered")[0] for warning in caught_warnings),
            ]
            raise skip_exception(f"torch refuses {implementation} here: {' '.join(reasons)}") from refusal
    return attention, case, check_kernel(names, implementation)


def build_attention(
    implementation: str, case: AttentionCase, mask_function: MaskFunction | None
) -> Attention:
    if implementation == "flex":
        return build_flex_attention(case.query.shape[-2], mask_function)
    if implementation == "hand-written":
        return functools.partial(
            textbook_attention, mask=build_dense_mask(mask_function, case.query.shape[-2])
        )
    return functools.partial(
        scaled_dot_product_attention,
        is_causal=mask_function is causal_mask,
        enable_gqa=case.query.shape[1] != case.key.shape[1],
    )


def build_flex_attention(length: int, mask_function: MaskFunction | None) -> Attention:
    if DEVICE != "cpu" and importlib.util.find_spec("triton") is None:
        raise skip_exception("flex_attention is compiled with Triton, which is not installed")
    attention = flex_attention if DEVICE == "cpu" else torch.compile(flex_attention, dynamic=False)
    return functools.partial(
        attention, block_mask=build_block_mask(mask_function, length) if mask_function else None
    )


def causal_mask(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def build_mask(name: str, length: int) -> MaskFunction:
    """``window-128``: every token sees itself and the 127 before it. ``blocks-75``: 75 % of the blocks are
    hidden.
    """
    kind, _, size = name.partition("-")
    if kind == "window":
        return lambda batch, head, query, key: (query >= key) & (query - key < int(size))
    shown = visible_blocks(length // KERNELS.block, int(size) / 100).to(DEVICE)
    return lambda batch, head, query, key: shown[query // KERNELS.block, key // KERNELS.block]


def visible_blocks(edge: int, hidden: float) -> Tensor:
    """(edge, edge) of bool: the diagonal, so that no token sees nothing, and blocks drawn at random."""
    shown = torch.eye(edge, dtype=torch.bool)
    others = (~shown).flatten().nonzero().flatten()
    more = round((1 - hidden) * edge**2) - edge
    drawn = torch.randperm(len(others), generator=torch.Generator().manual_seed(0))[: max(0, more)]
    shown.view(-1)[others[drawn]] = True
    return shown


def build_block_mask(mask_function: MaskFunction, length: int) -> BlockMask:
    return create_block_mask(
        mask_function, None, None, length, length, device=DEVICE, BLOCK_SIZE=KERNELS.block
    )


def build_dense_mask(mask_function: MaskFunction | None, length: int) -> Tensor | None:
    """(1, 1, length, length) of bool, True where a query sees a key."""
    return (
        None
        if mask_function is None
        else create_mask(mask_function, None, None, length, length, device=DEVICE)
    )


def profile_operator_names(attention: Attention, case: AttentionCase) -> list[str]:
    """The operators and compiled kernels that the host launches, forward and backward, once it has compiled
    them.
    """
    case.results(attention)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        case.results(attention)
    return [event.key for event in profiler.key_averages()]


def check_kernel(names: list[str], implementation: str) -> str:
    """Say what ran, or that it was not what was asked for."""
    ran = [name for name in names if name.startswith(OPERATOR_PREFIX) and not name.endswith("_backward")]
    if implementation in BACKEND_OPERATORS:
        matching = [name for name in ran if name.startswith(BACKEND_OPERATORS[implementation])]
        wrong = [name for name in ran if name not in matching]
    elif implementation == "flex" and DEVICE != "cpu":
        matching, wrong = [name for name in names if "triton_" in name or "flex_attention" in name], ran
    else:
        matching, wrong = ["eager matrix products, all scores materialised"], ran
    if wrong or not matching:
        other = ", ".join(wrong) or "no kernel of its own"
        raise RuntimeError(f"rejected: {implementation} was requested, but {other} ran")
    return ", ".join(matching)


def check_numerics(attention: Attention, case: AttentionCase, mask_function: MaskFunction | None) -> float:
    """Give the greatest error against math in fp32, as a ratio of the greatest entry; reject what is wrong.

    Wrong is what FlashAttention's own tests call wrong: a result with more than twice, a gradient with more
    than three times the error of the hand-written form in the same precision
    (``tests/test_flash_attn.py``). An error within what fp32 may differ by is not wrong: another order of
    summation makes as much.
    """
    dtype = case.query.dtype
    mask = build_dense_mask(mask_function, case.query.shape[-2])
    with sdpa_kernel(SDPBackend.MATH):
        exactly = functools.partial(
            scaled_dot_product_attention, attn_mask=mask, enable_gqa=case.query.shape[1] != case.key.shape[1]
        )
        right = case.first_sequence(torch.float32).results(exactly)
    plain = case.first_sequence(dtype).results(functools.partial(textbook_attention, mask=mask))
    greatest = 0.0
    for times, got, other, want in zip((2, 3, 3, 3), case.results(attention), plain, right, strict=False):
        error = max_relative_error(got[:1], want)
        allowed = max(FP32_ROUNDING, times * max_relative_error(other, want))
        if not error <= allowed:
            what = "the result" if times == 2 else "a gradient"
            raise ParityFailed(
                f"{what} is {error:.2g} of its greatest entry away from fp32 math, allowed {allowed:.2g}"
            )
        greatest = max(greatest, error)
    return greatest


def run_timed_backward(
    attention: Attention, case: AttentionCase, *, flush_l2: bool = False
) -> Timing | Absent:
    """The backward pass of one forward pass, again and again over the same graph."""
    if case.no_backward_reason:
        return Absent(case.no_backward_reason)
    out = attention(*case.inputs)

    def backward() -> None:
        torch.autograd.grad(out, case.inputs, case.gradient, retain_graph=True)

    return time_blocks(backward, flush_l2=flush_l2, **KERNELS.timing)
