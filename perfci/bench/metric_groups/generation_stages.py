"""Seconds by stage: load, init and first call once, then prefill, decode and postprocessing per request."""

from __future__ import annotations

from collections import deque
from itertools import islice

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.metric_groups.model_requests import ModelRequests
from perfci.bench.readings import Absent, Measurement
from perfci.bench.timers.stage_timers import Stages, declare_stage_metrics

START_STAGES = ("load", "init", "first_call")
REQUEST_STAGES = ("prefill", "decode", "postprocess")
METRICS = declare_stage_metrics(*START_STAGES, *REQUEST_STAGES)


def measure(hooks: BoundModelHooks) -> Measurement:
    """Time the start once and every request after it; the stages of requests must cover 98 %.

    Load is what ``build`` takes, init what makes the loaded model ready for requests. Prefill ends with the
    first chunk, decode with the last. What a request is given is made before its stages begin. Files are read
    from a warm page cache wherever the model was loaded before on this machine.
    """
    start, request = Stages(hooks.device), Stages(hooks.device)
    with start:
        with start("load"):
            requests = ModelRequests(hooks, ready=False)
        if hooks.init is not None:
            with start("init"):
                requests.make_model_ready()
        with start("first_call"), requests.inference_context():
            deque(requests.open_request(*requests.make_inputs()), maxlen=0)
    for _ in range(hooks.requests):
        inputs = requests.make_inputs()
        with requests.inference_context(), request:
            with request("prefill"):
                chunks = iter(requests.open_request(*inputs))
                output = list(islice(chunks, 1))
            with request("decode"):
                output.extend(chunks)
            if hooks.postprocess is not None:
                with request("postprocess"):
                    hooks.postprocess(requests.model, output)
    # The start is a single run: what another process takes between two of its stages shows nothing.
    readings = {**start.readings(START_STAGES, complete=False), **request.readings(REQUEST_STAGES)}
    for stage, hook in (("init", hooks.init), ("postprocess", hooks.postprocess)):
        if hook is None:
            readings |= dict.fromkeys((stage, f"{stage}_share"), Absent(f"it defines no {stage}"))
    return Measurement(readings)
