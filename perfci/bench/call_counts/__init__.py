"""Exact counts of one call, which need no GPU and repeat in every process.

None alone is an improvement: losing the KV cache lowers the operator count while the FLOPs grow several
times over.
"""

from perfci.bench.call_counts.count_call import COUNT_METRICS, CallCounts, count_call, count_operators
from perfci.bench.memory_use.fake_tensors import FAKE_DEVICE, fake_tensors

__all__ = ["COUNT_METRICS", "FAKE_DEVICE", "CallCounts", "count_call", "count_operators", "fake_tensors"]
