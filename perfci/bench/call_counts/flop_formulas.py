"""FLOP formulas for operators that torch's counter has no formula for, or one that counts otherwise.

A formula takes the operator's arguments by the names of its schema, and its result. Where a gradient is
computed of both factors of a product, the backward pass takes twice the operations of the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten
Arguments = Mapping[str, Any]
Formula = Callable[[Arguments, Any], int]


def _product(call: Arguments, result: Any) -> int:
    """Each entry of the result sums as many products as the rows of the first factor are long."""
    return 2 * int(result.numel()) * int(call["self"].shape[-1])


def _linear(call: Arguments, result: Any) -> int:
    return 2 * int(result.numel()) * int(call["weight"].shape[-1])


def _linear_backward(call: Arguments, _: Any) -> int:
    once = 2 * call["grad_output"].numel() * call["weight"].shape[-1]
    return int(once * (call["output_mask"][0] + call["output_mask"][1]))


def _dot(call: Arguments, _: Any) -> int:
    return 2 * int(call["self"].numel())


def _matrix_vector(call: Arguments, _: Any) -> int:
    return 2 * int(call["mat"].numel())


def _sum_of_products(call: Arguments, result: Any) -> int:
    return 2 * int(call["batch1"].numel()) * int(result.shape[-1])


def _product_with_bias(call: Arguments, result: Any) -> int:
    return 2 * int(result.numel()) * int(call["mat1"].shape[-1])


def _grouped_product(call: Arguments, _: Any) -> int:
    """Products of groups that lie end to end in one factor, or in both: (groups,) rows x inner x columns."""
    left, right = call["self"].shape, call["mat2"].shape
    groups = left[0] if len(left) == len(right) == 3 else 1
    return int(2 * groups * left[-2] * left[-1] * right[-1])


def _sparse_product(call: Arguments, _: Any) -> int:
    """Counted are the entries that are stored, as a kernel for sparse matrices does."""
    sparse = call["mat1"]
    values = sparse._values() if sparse.layout is torch.sparse_coo else sparse.values()
    return 2 * int(values.numel()) * int(call["mat2"].shape[-1])


def _convolution_backward(call: Arguments, _: Any) -> int:
    """The forward pass once for each wanted gradient, of input and weight.

    torch's own formula leaves the groups out: it counts the weight's gradient of a depthwise convolution as
    many times as there are channels.
    """
    spatial = (call["input"] if call["transposed"] else call["grad_output"]).shape[2:]
    once = 2 * call["input"].shape[0] * math.prod(spatial) * call["weight"].numel()
    return int(once * (call["output_mask"][0] + call["output_mask"][1]))


def attention_flops(query: Any, key: Any, value: Any) -> int:
    """FLOPs of scores and weighted values, shapes (batch, heads, length, width); key heads may be fewer."""
    *batch, length, width = query
    scores = math.prod(batch) * length * key[-2]
    return int(2 * scores * (width + value[-1]))


def _attention(call: Arguments, _: Any) -> int:
    return attention_flops(call["query"].shape, call["key"].shape, call["value"].shape)


def _attention_backward(call: Arguments, result: Any) -> int:
    return 2 * _attention(call, result)


def _flash_attention(call: Arguments, _: Any) -> int:
    """Shapes (batch, length, heads, width), or (sum of lengths, heads, width) with offsets of sequences."""
    query, width = call["query"].shape, call["query"].shape[-1] + call["value"].shape[-1]
    if call["cum_seq_q"] is None:
        return int(2 * query[0] * query[2] * query[1] * call["key"].shape[1] * width)
    lengths, key_lengths = (call[name].diff().tolist() for name in ("cum_seq_q", "cum_seq_k"))
    scores = sum(length * keys for length, keys in zip(lengths, key_lengths, strict=True))
    return int(2 * query[1] * scores * width)


def _flash_attention_backward(call: Arguments, result: Any) -> int:
    return 2 * _flash_attention(call, result)


def _recurrent_layers(call: Arguments, _: Any) -> int:
    """Every weight matrix (input, hidden, projection) multiplies the vector of every step once."""
    rows = _count_steps(call)
    return 2 * rows * sum(int(weight.numel()) for weight in call["weight"] if weight.dim() == 2)


def _recurrent_layers_backward(call: Arguments, result: Any) -> int:
    """Gradients of weights and of vectors; of the first layer's input only where that is wanted."""
    forward = _recurrent_layers(call, result)
    both = 2 * forward
    if not call["output_mask"][0]:
        directions = 1 + call["bidirectional"]
        first = [call["weight"][index * call["weight_stride0"]] for index in range(directions)]
        both -= 2 * _count_steps(call) * sum(int(weight.numel()) for weight in first)
    return both if call["output_mask"][3] else both - forward


def _recurrent_layer(call: Arguments, _: Any) -> int:
    return 2 * _count_steps(call) * int(call["weight0"].numel() + call["weight1"].numel())


def _recurrent_layer_backward(call: Arguments, _: Any) -> int:
    """oneDNN's backward pass of one layer: its first two weights are those of input and hidden state."""
    steps, first_hidden = _count_steps(call), call["hx_"].numel() // call["hx_"].shape[-1]
    of_input, of_hidden = call["weight1"], call["weight2"]
    forward = 2 * steps * int(of_input.numel() + of_hidden.numel())
    unwanted = 0 if call["input"].requires_grad else 2 * steps * int(of_input.numel())
    if not call["hx_"].requires_grad:
        unwanted += 2 * int(first_hidden * of_hidden.numel())
    return 2 * forward - unwanted


def _count_steps(call: Arguments) -> int:
    """Vectors that the first layer reads: all time steps of all sequences."""
    return int(call["input"].numel()) // int(call["input"].shape[-1])


def _complex_transform(call: Arguments, _: Any) -> int:
    return _transform_flops(call["self"].shape, call["dim"], per_value=5.0)


def _real_transform(call: Arguments, _: Any) -> int:
    return _transform_flops(call["self"].shape, call["dim"], per_value=2.5)


def _inverse_real_transform(call: Arguments, result: Any) -> int:
    return _transform_flops(result.shape, call["dim"], per_value=2.5)


def _transform_flops(shape: Any, dimensions: Any, per_value: float) -> int:
    """5 N log2 N for a complex transform of N values, half of it for a real one: the convention of FFTW's
    ``benchFFT`` (http://www.fftw.org/speed/method.html).
    """
    length = math.prod(shape[dimension] for dimension in dimensions)
    return round(per_value * math.prod(shape) * math.log2(length)) if length > 1 else 0


def _named(forms: Mapping[str, Formula]) -> dict[Any, Formula]:
    """Look operators of ATen up by name; another release of torch may lack some."""
    return {getattr(aten, name): formula for name, formula in forms.items() if hasattr(aten, name)}


FUSED_ATTENTION = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")

FLOP_FORMULAS: dict[Any, Formula] = _named(
    {
        "_int_mm": _product,
        "mv": _product,
        "_weight_int8pack_mm": _product,
        "_weight_int4pack_mm": _product,
        "_weight_int4pack_mm_for_cpu": _product,
        "_scaled_mm_v2": _product,
        "mkldnn_linear": _product,
        "linear": _linear,
        "linear_backward": _linear_backward,
        "dot": _dot,
        "vdot": _dot,
        "addmv": _matrix_vector,
        "addmv_": _matrix_vector,
        "addbmm": _sum_of_products,
        "addbmm_": _sum_of_products,
        "_addmm_activation": _product_with_bias,
        "addmm_": _product_with_bias,
        "baddbmm_": _sum_of_products,
        "_grouped_mm": _grouped_product,
        "_scaled_grouped_mm": _grouped_product,
        "_scaled_grouped_mm_v2": _grouped_product,
        "_sparse_addmm": _sparse_product,
        "convolution_backward": _convolution_backward,
        "_flash_attention_forward": _flash_attention,
        "_flash_attention_backward": _flash_attention_backward,
        "_scaled_dot_product_fused_attention_overrideable": _attention,
        "_scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
        "_scaled_dot_product_attention_math_for_mps": _attention,
        **{f"_scaled_dot_product_{kernel}": _attention for kernel in FUSED_ATTENTION},
        **{f"_scaled_dot_product_{kernel}_backward": _attention_backward for kernel in FUSED_ATTENTION},
        "_cudnn_rnn": _recurrent_layers,
        "_cudnn_rnn_backward": _recurrent_layers_backward,
        "miopen_rnn": _recurrent_layers,
        "miopen_rnn_backward": _recurrent_layers_backward,
        "mkldnn_rnn_layer": _recurrent_layer,
        "mkldnn_rnn_layer_backward": _recurrent_layer_backward,
        "_fft_c2c": _complex_transform,
        "_fft_r2c": _real_transform,
        "_fft_c2r": _inverse_real_transform,
    }
)
"""Formulas by operator (all its overloads), which take precedence over torch's own."""
