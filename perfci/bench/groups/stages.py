"""Where the time goes: loading and the first call, then prefill, decode and what comes after of every request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.readings import Absent, Measured
from perfci.bench.timers.stage_timers import Stages, stage_metrics

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

START = ("load", "first_call")
REQUEST = ("prefill", "decode", "postprocess")
METRICS = stage_metrics(*START, *REQUEST)
NO_POSTPROCESS = Absent("it gives no postprocess")


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Time the start once and every request after it; stages that leave out more than 2 % of the whole are invalid.

    Prefill ends with the first chunk, decode with the last. Files are read from a warm page cache wherever the model
    was loaded before on this machine.
    """
    torch.manual_seed(0)
    start, request = Stages(bench.shim), Stages(bench.shim)
    with start:
        with start("load"):
            model = bench.build(p)
        with start("first_call"):
            deque(bench.stream(model, p), maxlen=0)
    for _ in range(bench.requests):
        _serve(bench, model, p, request)
    readings = {**start.readings(START), **request.readings(REQUEST)}
    if bench.postprocess is None:
        readings |= dict.fromkeys(("postprocess", "postprocess_share"), NO_POSTPROCESS)
    return Measured(readings)


def _serve(bench: ModelBench, model: Any, p: Mapping[str, Any], stages: Stages) -> None:
    with stages:
        with stages("prefill"):
            chunks = iter(bench.stream(model, p))
            out = list(islice(chunks, 1))
        with stages("decode"):
            out.extend(chunks)
        if bench.postprocess is not None:
            with stages("postprocess"):
                bench.postprocess(model, out)
