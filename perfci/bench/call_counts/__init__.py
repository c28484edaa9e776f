"""Exact counts of one call, which need no GPU and repeat in every process: what a change did before anybody timed it.

None alone is an improvement: losing the KV cache lowers the operator count while the FLOPs grow several times over.
"""

from perfci.bench.call_counts.count_call import PROXY_METRICS, Proxies, count, count_operators
from perfci.bench.memory_use.fake_tensors import NO_DEVICE, fake_tensors

__all__ = ["NO_DEVICE", "PROXY_METRICS", "Proxies", "count", "count_operators", "fake_tensors"]
