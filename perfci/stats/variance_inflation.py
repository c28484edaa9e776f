"""Autocorrelation: how much less neighbouring points say than independent ones."""

from __future__ import annotations


def ar1_variance_inflation(r: float) -> float:
    """(1 + r) / (1 - r) for a first-order autoregressive process with lag-1 autocorrelation r."""
    return (1 + r) / (1 - r)
