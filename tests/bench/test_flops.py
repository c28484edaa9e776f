"""Floating point operations, held against counts made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tiny_gpt as tiny
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from perfci.bench.call_counts.flops import count_flops, create_flop_counter, mbu, mfu, model_flops_per_token
from perfci.bench.devices.peak_rates import peak_flops

TOKENS = tiny.BATCH * tiny.LENGTH


def attention(heads: int = 4, key_heads: int = 4, length: int = 32, keys: int = 32) -> Callable[[], None]:
    query = torch.randn(2, heads, length, 16, requires_grad=True)
    key, value = (torch.randn(2, key_heads, keys, 16, requires_grad=True) for _ in range(2))
    return lambda: scaled_dot_product_attention(query, key, value, enable_gqa=True).sum().backward()


def under_math(function: Callable[[], None]) -> int:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as torchs_own:
        function()
    return int(torchs_own.get_total_flops())


def test_counts_a_product_as_a_multiplication_and_an_addition_each() -> None:
    assert count_flops(lambda: torch.ones(3, 5) @ torch.ones(5, 7)) == 2 * 3 * 5 * 7


def test_agrees_with_the_flops_of_a_block_by_hand() -> None:
    block = tiny.Block()
    x = torch.randn(tiny.BATCH, tiny.LENGTH, tiny.WIDTH, requires_grad=True)

    forward = count_flops(lambda: block(x))
    both = count_flops(lambda: block(x)[0].sum().backward())

    assert forward == tiny.block_flops(TOKENS, tiny.LENGTH)
    assert both == 3 * forward  # the gradients of both factors of every product


@pytest.mark.parametrize(
    "shape",
    [{}, {"key_heads": 1}, {"key_heads": 2}, {"length": 1, "keys": 48}],
    ids=["plain", "mqa", "gqa", "decode"],
)
def test_counts_attention_on_a_cpu_as_attention_under_math(shape: dict[str, int]) -> None:
    run = attention(**shape)

    assert count_flops(run) == under_math(run) > 0


def test_sees_what_torchs_own_counter_misses_on_a_cpu() -> None:
    run = attention()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), FlopCounterMode(display=False) as torchs_own:
        run()

    assert torchs_own.get_total_flops() == 0
    assert count_flops(run) == 3 * 2 * 2 * (2 * 4 * 32 * 32 * 16)


def test_counts_the_same_where_the_function_chose_its_kernel() -> None:
    def chosen(backend: SDPBackend) -> int:
        run = attention()
        with sdpa_kernel(backend):
            return count_flops(run)

    assert chosen(SDPBackend.FLASH_ATTENTION) == chosen(SDPBackend.MATH)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda q: torch.ops.aten._scaled_dot_product_flash_attention(q, q, q),
        lambda q: torch.ops.aten._scaled_dot_product_efficient_attention(q, q, q, None, True),
        lambda q: torch.ops.aten._scaled_dot_product_cudnn_attention(q, q, q, None, True),
    ],
    ids=["flash", "efficient", "cudnn"],
)
def test_counts_the_same_for_the_kernels_of_gpus(kernel: Callable[[torch.Tensor], object]) -> None:
    query = torch.empty(2, 4, 32, 16, device="meta", dtype=torch.bfloat16)

    assert count_flops(lambda: kernel(query)) == 2 * 2 * (2 * 4 * 32 * 32 * 16)


def test_counts_no_second_time_the_scores_that_a_fused_backward_computes_again() -> None:
    formulas = create_flop_counter().flop_registry
    query = torch.empty(2, 4, 32, 16, device="meta")
    names = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")

    for name in names:
        backward = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_backward")

        assert formulas[backward](query, query, query, query, out_val=None) == 4 * 2 * (2 * 4 * 32 * 32 * 16)


def test_counts_attention_in_inference_mode() -> None:
    query = torch.randn(2, 4, 32, 16)

    @torch.inference_mode()
    def run() -> None:
        scaled_dot_product_attention(query, query, query)

    assert count_flops(run) == 2 * 2 * (2 * 4 * 32 * 32 * 16)


def test_counts_what_checkpointing_computes_again() -> None:
    def step(checkpointing: bool) -> int:
        model = tiny.TinyGPT(checkpointing=checkpointing)
        return count_flops(lambda: model.loss(tiny.some_tokens()).backward())

    # The last product of a block is not computed again: nothing in the backward pass needs its result.
    again = tiny.block_flops(TOKENS, tiny.LENGTH) - 2 * TOKENS * 4 * tiny.WIDTH * tiny.WIDTH
    assert step(True) - step(False) == tiny.LAYERS * again


def test_counts_compiled_code_as_the_code_it_was_and_keeps_the_compilation() -> None:
    compilations = []

    def backend(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., object]:
        compilations.append(graph)
        return lambda *inputs: (torch.ones(()),)  # as opaque as a kernel

    compiled = torch.compile(lambda x: (x @ x).sum(), backend=backend)
    x = torch.ones(8, 8)
    compiled(x)

    assert count_flops(lambda: compiled(x)) == 2 * 8**3
    assert compiled(x) == 1
    assert len(compilations) == 1
    torch._dynamo.reset()


def test_agrees_with_the_formula_of_palm_on_a_whole_training_step() -> None:
    model = tiny.TinyGPT()
    parameters = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, torch.nn.Linear))

    per_token = model_flops_per_token(
        parameters, tiny.LAYERS, tiny.HEADS, tiny.WIDTH // tiny.HEADS, tiny.LENGTH
    )

    assert count_flops(lambda: model.loss(tiny.some_tokens()).backward()) == TOKENS * per_token


def test_gives_the_formula_of_palm_for_gpt2() -> None:
    assert model_flops_per_token(124_000_000, layers=12, heads=12, head_dim=64, length=1024) == (
        744_000_000 + 113_246_208
    )


def test_utilisation_is_what_was_achieved_of_the_peak() -> None:
    assert mfu(400e12, 2.0, 1000e12) == 0.2
    assert mbu(10e9, 0.01, 4e12) == 0.25


def test_there_is_no_utilisation_without_a_peak() -> None:
    assert mfu(1e12, 1.0, peak_flops("A device of tomorrow", "bf16")) is None
    assert mfu(1e12, 1.0, peak_flops("NVIDIA H100 80GB HBM3", "fp8")) is None
    assert mbu(1e9, 1.0, None) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_rejects_a_time_of_zero(seconds: float) -> None:
    with pytest.raises(ValueError, match="above 0 seconds"):
        mfu(1e12, seconds, 1e15)
