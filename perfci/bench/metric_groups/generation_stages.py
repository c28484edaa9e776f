"""Seconds by stage: load and first call once, then prefill, decode and postprocessing per request."""

from __future__ import annotations

from collections import deque
from itertools import islice

import torch

from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
from perfci.bench.readings import Absent, Measurement
from perfci.bench.timers.stage_timers import Stages, declare_stage_metrics

START_STAGES = ("load", "first_call")
REQUEST_STAGES = ("prefill", "decode", "postprocess")
METRICS = declare_stage_metrics(*START_STAGES, *REQUEST_STAGES)
NO_POSTPROCESS = Absent("it defines no postprocess")


@torch.no_grad()  # type: ignore[untyped-decorator]
def measure(callables: ModelBenchmarkCallables) -> Measurement:
    """Time the start once and every request after it; the stages must cover 98 % of the whole.

    Prefill ends with the first chunk, decode with the last. Files are read from a warm page cache wherever
    the model was loaded before on this machine.
    """
    torch.manual_seed(0)
    start, request = Stages(callables.device), Stages(callables.device)
    with start:
        with start("load"):
            model = callables.build()
        with start("first_call"):
            deque(callables.require_stream_callable()(model), maxlen=0)
    stream = callables.require_stream_callable()
    for _ in range(callables.requests):
        with request:
            with request("prefill"):
                chunks = iter(stream(model))
                output = list(islice(chunks, 1))
            with request("decode"):
                output.extend(chunks)
            if callables.postprocess is not None:
                with request("postprocess"):
                    callables.postprocess(model, output)
    readings = {**start.readings(START_STAGES), **request.readings(REQUEST_STAGES)}
    if callables.postprocess is None:
        readings |= dict.fromkeys(("postprocess", "postprocess_share"), NO_POSTPROCESS)
    return Measurement(readings)
