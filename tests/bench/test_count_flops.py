"""Floating point operations, held against counts made by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import tiny_gpt as tiny
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from perfci.bench.call_counts.count_flops import count_flops, count_flops_by_format, require_flops
from perfci.bench.call_counts.flop_count_by_format import FlopCount
from perfci.bench.call_counts.flop_counter import operator_number_format
from perfci.bench.call_counts.flop_formulas import FLOP_FORMULAS
from perfci.bench.call_counts.missing_flop_formulas import may_multiply_big_tensors
from perfci.bench.call_counts.model_flops import model_flops_per_token
from perfci.bench.call_counts.utilisation import mbu, utilisation_readings
from perfci.bench.devices.torch_precision_settings import Float32Switches
from perfci.bench.memory_use.fake_tensors import fake_tensors
from perfci.bench.readings import Absent, informational
from perfci.model import PerfciError

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
    query = torch.empty(2, 4, 32, 16, device="meta")
    names = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")

    for name in names:
        backward = FLOP_FORMULAS[getattr(torch.ops.aten, f"_scaled_dot_product_{name}_backward")]

        assert backward({"query": query, "key": query, "value": query}, None) == 4 * 2 * (
            2 * 4 * 32 * 32 * 16
        )


def test_shapes_that_are_inferred_on_fake_tensors_are_no_work() -> None:
    def infer_and_multiply() -> None:
        with FakeTensorMode():
            torch.ones(8, 8) @ torch.ones(8, 8)
        torch.ones(8, 8) @ torch.ones(8, 8)

    assert count_flops(infer_and_multiply) == 2 * 8**3
    with fake_tensors():
        assert count_flops(lambda: torch.ones(8, 8) @ torch.ones(8, 8)) == 2 * 8**3


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


# ------------------------------------------------------------------ operators that torch's counter leaves out


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        (lambda: torch._int_mm(*[torch.ones(32, 32, dtype=torch.int8)] * 2), 2 * 32**3),
        (lambda: torch.ones(30, 50) @ torch.ones(50), 2 * 30 * 50),
        (lambda: torch.ones(50) @ torch.ones(50), 2 * 50),
        (lambda: torch.vdot(torch.ones(50), torch.ones(50)), 2 * 50),
        (lambda: torch.addmv(torch.ones(30), torch.ones(30, 50), torch.ones(50)), 2 * 30 * 50),
        (lambda: torch.ones(3, 4, 5) @ torch.ones(3, 5, 6), 2 * 3 * 4 * 5 * 6),
        (lambda: torch.addbmm(torch.ones(4, 6), torch.ones(3, 4, 5), torch.ones(3, 5, 6)), 2 * 3 * 4 * 5 * 6),
        (lambda: torch.ones(4, 6).addmm_(torch.ones(4, 5), torch.ones(5, 6)), 2 * 4 * 5 * 6),
        (lambda: torch.einsum("ij,kj->ik", torch.ones(4, 5), torch.ones(6, 5)), 2 * 4 * 5 * 6),
        (lambda: torch.sparse.mm(torch.eye(8).to_sparse(), torch.ones(8, 5)), 2 * 8 * 5),
        (lambda: torch.ones(8, 8).cumsum(0).softmax(1).sort().values.sum(), 0),
        (lambda: torch.fft.fft(torch.ones(4, 64, dtype=torch.complex64)), 5 * 4 * 64 * 6),
        (lambda: torch.fft.irfft(torch.fft.rfft(torch.ones(4, 64))), 2 * 2.5 * 4 * 64 * 6),
    ],
    ids=[
        "int8",
        "mv",
        "dot",
        "vdot",
        "addmv",
        "bmm",
        "addbmm",
        "addmm_",
        "einsum",
        "sparse",
        "cheap",
        "fft",
        "rfft",
    ],
)
def test_agrees_with_a_product_by_hand(product: Callable[[], object], expected: int) -> None:
    assert count_flops(product) == expected


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_counts_recurrent_layers_by_their_weights(cell: Callable[..., torch.nn.Module]) -> None:
    layers = cell(32, 64, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(4, 10, 32)
    weights = sum(weight.numel() for weight in layers.parameters() if weight.ndim == 2)

    with torch.no_grad():
        inferred = count_flops(lambda: layers(x))

    assert inferred == count_flops(lambda: layers(x)) == 2 * 4 * 10 * weights


@pytest.mark.parametrize("input_needs_gradient", [True, False])
def test_counts_a_fused_lstm_as_the_operators_it_replaces(input_needs_gradient: bool) -> None:
    lstm = torch.nn.LSTM(32, 64, num_layers=2, bidirectional=True)
    x = torch.randn(10, 4, 32, requires_grad=input_needs_gradient)

    fused = count_flops(lambda: lstm(x)[0].sum().backward())
    torch.backends.mkldnn.set_flags(_enabled=False)
    try:
        with FlopCounterMode(display=False) as torchs_own:
            lstm(x)[0].sum().backward()
    finally:
        torch.backends.mkldnn.set_flags(_enabled=True)

    assert fused == torchs_own.get_total_flops() > 0


def test_counts_the_lstm_of_a_gpu_by_its_weights() -> None:
    hidden, features, steps, batch = 64, 32, 10, 4
    lstm = torch.nn.LSTM(features, hidden, num_layers=2, bidirectional=True, device="meta")
    weights = list(lstm.parameters())
    call = {
        "input": torch.empty(steps, batch, features, device="meta"),
        "weight": weights,
        "weight_stride0": 4,
        "bidirectional": True,
        "output_mask": (True, True, True, True),
    }
    forward = 2 * steps * batch * sum(weight.numel() for weight in weights if weight.ndim == 2)
    of_first_input = 2 * steps * batch * 2 * 4 * hidden * features

    assert FLOP_FORMULAS[torch.ops.aten._cudnn_rnn](call, None) == forward
    backward = FLOP_FORMULAS[torch.ops.aten._cudnn_rnn_backward]
    assert backward(call, None) == 2 * forward
    assert backward(call | {"output_mask": (False, False, False, True)}, None) == 2 * forward - of_first_input


def an_encoder() -> torch.nn.TransformerEncoder:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2).eval()


def test_counts_the_fused_layers_of_an_encoder_as_those_it_trains_with() -> None:
    encoder, x = an_encoder(), torch.randn(2, 16, 64)
    per_layer = 2 * 32 * (3 * 64 * 64 + 64 * 64 + 2 * 64 * 256) + 4 * 2 * 16 * 16 * 64

    with torch.no_grad():
        fused = count_flops(lambda: encoder(x))

    assert fused == count_flops(lambda: encoder(x)) == 2 * per_layer


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_counts_a_padded_batch_by_the_tokens_that_are_not_padding() -> None:
    encoder, x = an_encoder(), torch.randn(2, 16, 64)
    padding = torch.arange(16).expand(2, 16) >= torch.tensor([[16], [10]])
    per_layer = 2 * 26 * (3 * 64 * 64 + 64 * 64 + 2 * 64 * 256) + 4 * 2 * 16 * 16 * 64

    with torch.no_grad():
        assert count_flops(lambda: encoder(x, src_key_padding_mask=padding)) == 2 * per_layer


def test_counts_attention_that_returns_its_weights() -> None:
    attention, x = torch.nn.MultiheadAttention(64, 4, batch_first=True).eval(), torch.randn(2, 16, 64)

    with torch.no_grad():
        assert count_flops(lambda: attention(x, x, x)) == 2 * 32 * 4 * 64 * 64 + 4 * 2 * 16 * 16 * 64


@pytest.mark.parametrize(
    ("layer", "once"),
    [
        (torch.nn.Conv2d(8, 6, 3), 2 * 2 * 14 * 14 * 8 * 6 * 9),
        (torch.nn.Conv2d(8, 6, 3, stride=2, padding=1), 2 * 2 * 8 * 8 * 8 * 6 * 9),
        (torch.nn.Conv2d(8, 8, 3, groups=8), 2 * 2 * 14 * 14 * 8 * 9),
        (torch.nn.Conv2d(8, 12, 3, groups=2), 2 * 2 * 14 * 14 * 12 * 4 * 9),
        (torch.nn.ConvTranspose2d(8, 6, 3, stride=2), 2 * 2 * 16 * 16 * 8 * 6 * 9),
        (torch.nn.ConvTranspose2d(8, 8, 3, groups=8), 2 * 2 * 16 * 16 * 8 * 9),
    ],
    ids=["plain", "strided", "depthwise", "grouped", "transposed", "transposed-depthwise"],
)
def test_training_a_convolution_takes_three_times_its_forward_pass(layer: torch.nn.Module, once: int) -> None:
    x = torch.randn(2, 8, 16, 16, requires_grad=True)

    assert count_flops(lambda: layer(x)) == once
    assert count_flops(lambda: layer(x).sum().backward()) == 3 * once


# ------------------------------------------------------------------ operators without a formula


@pytest.fixture(scope="module")
def square() -> Callable[[torch.Tensor], torch.Tensor]:
    @torch.library.custom_op("squares::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    return square


def test_an_operator_without_a_formula_leaves_no_count_and_is_named(
    square: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    counted = count_flops(lambda: [square(torch.ones(64, 64)) for _ in range(2)])

    assert counted == Absent(
        "there is no FLOP formula for squares::square (2 calls); "
        "torch.utils.flop_counter.register_flop_formula adds one"
    )
    with pytest.raises(PerfciError, match="squares::square"):
        require_flops(lambda: square(torch.ones(64, 64)))


def test_small_tensors_do_not_matter(square: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert count_flops(lambda: square(torch.ones(8, 8)) @ torch.ones(8, 8)) == 2 * 8**3


def test_takes_a_formula_that_was_registered_with_torch(
    square: Callable[[torch.Tensor], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import flop_counter

    packet = torch.ops.squares.square
    monkeypatch.setitem(flop_counter.flop_registry, packet, lambda x, out_val: 2 * x.shape[0] ** 3)

    assert count_flops(lambda: square(torch.ones(64, 64))) == 2 * 64**3


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: torch.linalg.cholesky(torch.eye(64)), "aten::linalg_cholesky_ex"),
        (lambda x: torch.cdist(x, x), "aten::_euclidean_dist"),
        (lambda x: torch.nn.functional.bilinear(x, x, torch.ones(4, 64, 64)), "aten::_trilinear"),
        (lambda x: torch.sparse.sampled_addmm(x.to_sparse_csr(), x, x), "aten::sparse_sampled_addmm"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_names_what_torch_multiplies_beside_products(
    call: Callable[[torch.Tensor], torch.Tensor], name: str
) -> None:
    counted = count_flops(lambda: call(torch.ones(64, 64)))

    assert isinstance(counted, Absent)
    assert f"{name} (1 calls)" in counted.reason


def test_a_model_of_cheap_layers_around_products_has_a_count() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.GroupNorm(4, 16),
        torch.nn.SiLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.LayerNorm(256),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(256, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8)

    def step() -> None:
        torch.nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()

    of_convolution, of_linear = 2 * 8 * 32 * 32 * 3 * 16 * 9, 2 * 8 * 256 * 10
    assert count_flops(step) == 2 * of_convolution + 3 * of_linear  # nobody asks for the gradient of images


CHEAP = """
    _embedding_bag linalg_vector_norm linalg_cross upsample_linear1d upsample_trilinear3d _fused_adamw_
    _convert_weight_to_int4pack _thnn_fused_lstm_cell _cudnn_rnn_flatten_weight native_layer_norm_backward
    grid_sampler_2d _ctc_loss topk cumsum scatter_add _to_copy native_dropout _transform_bias_rescale_qkv
    _foreach_norm im2col
"""


@pytest.mark.parametrize("name", CHEAP.split())
def test_what_moves_looks_up_or_normalises_is_cheap_at_any_size(name: str) -> None:
    operator = getattr(torch.ops.aten, name)
    overload = getattr(operator, operator.overloads()[0])

    assert not may_multiply_big_tensors(overload, [torch.empty(1 << 20, device="meta")])


@pytest.mark.parametrize(
    "name", ["conv_depthwise3d", "_cdist_forward", "linalg_qr", "quantized_lstm", "_foreach_mm"]
)
def test_what_multiplies_has_a_name_that_says_so(name: str) -> None:
    operator = getattr(torch.ops.aten, name)
    overload = getattr(operator, operator.overloads()[0])

    assert may_multiply_big_tensors(overload, [torch.empty(1 << 20, device="meta")])
    assert not may_multiply_big_tensors(overload, [torch.empty(1 << 10, device="meta")])


# ------------------------------------------------------------------ utilisation

H200 = "NVIDIA H200"


def test_a_model_is_held_to_the_peak_of_the_format_it_computes_in() -> None:
    model = tiny.TinyGPT().to(torch.bfloat16)

    count = count_flops_by_format(lambda: model.loss(tiny.some_tokens()).backward())

    assert count.main_format == "bf16"
    assert utilisation_readings(FlopCount({"bf16": 400_000}, 0, {}), 1e-9, H200)["mfu"] == informational(
        400e12 / 989.4e12
    )
    assert utilisation_readings(FlopCount({"fp32": 40_000}, 0, {}), 1e-9, H200)["mfu"] == informational(
        40e12 / 66.9e12
    )


def test_autocast_counts_its_products_in_the_narrow_format() -> None:
    model = tiny.TinyGPT()

    with torch.autocast("cpu", torch.bfloat16):
        count = count_flops_by_format(lambda: model.loss(tiny.some_tokens()))

    assert set(count.by_format) == {"bf16"}


@pytest.mark.parametrize(("tf32", "expected"), [(True, "tf32"), (False, "fp32")])
def test_products_of_fp32_on_cuda_are_tf32_where_torch_rounds_them(tf32: bool, expected: str) -> None:
    on_cuda = [SimpleNamespace(dtype=torch.float32, device=torch.device("cuda"))]
    operators = [getattr(torch.ops.aten, name).default for name in ("mm", "convolution", "_cudnn_rnn")]
    before = Float32Switches.read()
    Float32Switches.with_all_set_to(tf32=tf32).apply()
    try:
        formats = {operator_number_format(operator, on_cuda) for operator in operators}
    finally:
        before.apply()

    assert formats == {expected}


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_checkpointing_computes_again_is_hardware_work_and_none_of_the_models(reentrant: bool) -> None:
    block, x = tiny.Block(), torch.randn(tiny.BATCH, tiny.LENGTH, tiny.WIDTH, requires_grad=True)

    def step() -> None:
        torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)[0].sum().backward()

    count, plain = count_flops_by_format(step), count_flops(lambda: block(x)[0].sum().backward())

    assert count.model == plain
    assert count.total == plain + count.recomputed
    assert count.recomputed > tiny.block_flops(TOKENS, tiny.LENGTH) / 2


def test_gradients_of_gradients_are_the_models_own_work() -> None:
    layer, x = torch.nn.Linear(8, 8), torch.randn(4, 8, requires_grad=True)

    def penalty() -> None:
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
        gradient.square().sum().backward()

    assert count_flops_by_format(penalty).recomputed == 0


def test_utilisation_leaves_out_what_was_recomputed() -> None:
    readings = utilisation_readings(FlopCount({"bf16": 600}, recomputed=100, uncounted={}), 1e-12, H200)

    assert readings["flop_per_s"] == informational(600e12)
    assert readings["mfu"] == informational(500e12 / 989.4e12)
    assert readings["hfu"] == informational(600e12 / 989.4e12)


def test_no_device_does_more_than_its_peak() -> None:
    readings = utilisation_readings(FlopCount({"bf16": 1100}, recomputed=200, uncounted={}), 1e-12, H200)

    assert readings["mfu"] == informational(900e12 / 989.4e12)
    assert readings["hfu"] == Absent(
        "1.1e+15 FLOP/s in bf16 would be 1.11 times the peak of NVIDIA H200: "
        "the time is too short, or that peak is another board's"
    )


@pytest.mark.parametrize(
    ("count", "device", "reason"),
    [
        (
            FlopCount({"bf16": 1}, 0, {}),
            "A device of tomorrow",
            "the bf16 peak of A device of tomorrow",
        ),
        (FlopCount({"float8_e4m3fn": 1}, 0, {}), H200, "the float8_e4m3fn peak of NVIDIA H200 is not known"),
        (FlopCount({"bf16": 1}, 0, {"mamba::scan": 3}), H200, "no FLOP formula for mamba::scan (3 calls)"),
    ],
)
def test_there_is_no_utilisation_without_a_peak_or_a_count(
    count: FlopCount, device: str, reason: str
) -> None:
    utilisation = utilisation_readings(count, 1.0, device)["mfu"]

    assert isinstance(utilisation, Absent)
    assert reason in utilisation.reason


def test_bandwidth_utilisation_is_what_was_achieved_of_the_peak() -> None:
    assert mbu(10e9, 0.01, 4e12) == 0.25
    assert mbu(1e9, 1.0, None) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_rejects_a_time_of_zero(seconds: float) -> None:
    with pytest.raises(ValueError, match="above 0 seconds"):
        utilisation_readings(FlopCount({"bf16": 1}, 0, {}), seconds, H200)
    with pytest.raises(ValueError, match="above 0 seconds"):
        mbu(1e12, seconds, 1e15)
