"""Where the time goes: loading and the first call, then prefill, decode and what comes after of every request."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.readings import Absent, Measurement
from perfci.bench.timers.stage_timers import Stages, stage_metrics

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

START_STAGES = ("load", "first_call")
REQUEST_STAGES = ("prefill", "decode", "postprocess")
METRICS = stage_metrics(*START_STAGES, *REQUEST_STAGES)
NO_POSTPROCESS = Absent("it gives no postprocess")


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Time the start once and every request after it; stages that leave out more than 2 % of the whole are invalid.

    Prefill ends with the first chunk, decode with the last. Files are read from a warm page cache wherever the model
    was loaded before on this machine.
    """
    torch.manual_seed(0)
    start, request = Stages(context.target_device), Stages(context.target_device)
    with start:
        with start("load"):
            model = context.build(p)
        with start("first_call"):
            deque(context.stream(model, p), maxlen=0)
    for _ in range(context.requests):
        _time_request(context, model, p, request)
    readings = {**start.readings(START_STAGES), **request.readings(REQUEST_STAGES)}
    if context.postprocess is None:
        readings |= dict.fromkeys(("postprocess", "postprocess_share"), NO_POSTPROCESS)
    return Measurement(readings)


def _time_request(context: ModelBench, model: Any, p: Mapping[str, Any], stages: Stages) -> None:
    with stages:
        with stages("prefill"):
            chunks = iter(context.stream(model, p))
            out = list(islice(chunks, 1))
        with stages("decode"):
            out.extend(chunks)
        if context.postprocess is not None:
            with stages("postprocess"):
                context.postprocess(model, out)
