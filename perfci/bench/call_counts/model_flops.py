"""Floating point operations that a model needs, computed from its shape."""

from __future__ import annotations


def model_flops_per_token(parameters: int, layers: int, heads: int, head_dim: int, length: int) -> int:
    """Work out the operations that training a decoder takes per token: 6N + 12 L H Q T.

    ``parameters`` are those that take part in a matrix product (no embedding that is only looked up),
    ``length`` the tokens of a sequence. Forward and backward, causal attention in full, nothing computed
    twice. Source: PaLM (arXiv:2204.02311), appendix B; torchtitan and nanochat use the same.
    """
    return 6 * parameters + 12 * layers * heads * head_dim * length
