"""Exact counts of one call, which need no GPU and repeat in every process: what a change did before anybody timed it.

None alone is an improvement: losing the KV cache lowers the operator count while the FLOPs grow several times over.
"""

from perfci.bench.proxies.counting import PROXY_METRICS, Proxies, count

__all__ = ["PROXY_METRICS", "Proxies", "count"]
