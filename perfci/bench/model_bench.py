"""``ModelBench``: a benchmark of a model by its hooks, which gives every metric those hooks allow."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from perfci.bench.bound_model_hooks import BenchmarkSource, BoundModelHooks, bind_step_hook
from perfci.bench.compilers.compile_model import missing_compiler_as_skip, require_compiled_graphs
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.multi_metric_benchmark import Bench
from perfci.bench.readings import Measurement, metrics, skip_exception
from perfci.bench.timers.stage_timers import PhaseMarker, ProfiledWork
from perfci.bench.validate_model_bench import (
    PRECISION_PARAMETERS,
    CellParameters,
    check_attribute_names,
    check_groups,
    check_hooks,
    check_parameters,
    check_step_arguments,
)
from perfci.model import Metric

Parameters = Mapping[str, Any]

HOOK_NAMES = (
    "build",
    "init",
    "batch",
    "loader",
    "loss",
    "step",
    "stream",
    "prompt",
    "audio_in",
    "audio_seconds",
    "tokens_of",
    "sequences",
    "postprocess",
    "kv_cache",
    "optimizer",
    "autocast",
    "compile",
)
VERSIONED_SETTINGS = ("tokens_per_batch", "sla", "reference", "requests", "steps", "tolerance")
COMPILED_GROUPS = ("training", "generation")
"""Metric groups that tell afterwards whether the model was compiled: they call it in this very process."""
OTHER_SETTINGS = ("params", "param_names", "budget_s", "groups", "timeout")


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """Metrics that one run of the model gives together, and the hooks that run requires.

    Of each entry of ``required_hooks`` one name is enough.
    """

    name: str
    required_hooks: tuple[tuple[str, ...], ...]
    metrics: Sequence[Metric]
    measure: Callable[[BoundModelHooks], Measurement]
    build_profiled_work: Callable[[BoundModelHooks], ProfiledWork] | None = None


class ModelBench(Bench, ABC):
    """Base class of model benchmarks: define ``build`` and at least ``batch`` with ``loss``, or ``stream``.

    In place of ``batch`` stands a ``loader``, in place of ``loss`` a whole ``step``.

    Every hook takes ``p``, the parameters of the cell by name. Metrics that need a hook which is not
    defined are omitted; ``perfci run`` and ``perfci doctor`` list them with the reason.

    ``params``
        name to values; every combination is measured in processes of its own. A parameter ``dtype`` or
        ``precision`` (fp32, tf32, bf16 or fp16) is the number format that training steps and requests
        compute in; a parameter ``compile`` (True, False or a mode of ``torch.compile``) compiles the model.
    ``tokens_per_batch``
        tokens in one batch, on this device: gives tokens/s. A number, or a method that takes ``p``.
    ``sla``
        limits of a request, ``{"ttft": 0.5, "e2el_p90": 2.0}``, in seconds: gives attainment and goodput.
    ``reference``
        parameters that make a trusted variant, ``{"dtype": "fp32"}``: every other variant has to agree
        with it in loss and gradients, or it is rejected, whatever its speed.
    ``requests``
        streams measured in one process. 64 are needed for a p90, 662 for a p99.
    ``steps``
        steps after which the loss is compared.
    ``tolerance``
        allowed difference, a ``perfci.bench.parity.Tolerance``; by default that of the variant's precision.
    ``budget_s``
        seconds of timed blocks after which a step is timed no longer.
    ``groups``
        metric groups to measure of those that the hooks allow (``training`` ...); empty is all.
    """

    params: Any = ()
    tokens_per_batch: ClassVar[Any] = None
    sla: ClassVar[Mapping[str, float]] = {}
    reference: ClassVar[Parameters] = {}
    requests: ClassVar[int] = 12
    steps: ClassVar[int] = 3
    tolerance: ClassVar[Any] = None
    timeout: ClassVar[float] = 600.0
    budget_s: ClassVar[float] = 2.0
    groups: ClassVar[Sequence[str]] = ()
    omitted: ClassVar[Mapping[str, str]] = {}
    """Reason by name of each metric group that the hooks do not allow: filled in for every class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        _check_names(cls)
        omitted = {}
        for group in _metric_groups():
            is_chosen = not cls.groups or group.name in cls.groups
            missing = [
                " or ".join(hooks)
                for hooks in group.required_hooks
                if all(getattr(cls, hook) is None for hook in hooks)
            ]
            if is_chosen and missing:
                omitted[group.name] = f"it defines no {' and no '.join(missing)}"
            # None hides the method that a base class with more hooks or groups has.
            method = _build_measure_method(cls, group) if is_chosen and not missing else None
            setattr(cls, f"measure_{group.name}", method)
        cls.omitted = omitted
        super().__init_subclass__(**kwargs)

    @abstractmethod
    def build(self, p: Parameters) -> Any:
        """Make the model, on ``self.device`` and in the state it is trained or served in."""

    init: ClassVar[Any] = None
    """``init(self, model, p)`` makes a loaded model ready, with caches for example: a stage of its own."""

    batch: ClassVar[Any] = None
    """``batch(self, p, i)`` makes the i-th batch, on ``self.device``: equal numbers give equal batches."""

    loader: ClassVar[Any] = None
    """``loader(self, p)`` gives what training iterates over, a ``DataLoader`` for example: data time and
    stall are those of its workers. Its batches are moved to the device."""

    loss: ClassVar[Any] = None
    """``loss(self, model, batch)`` gives the scalar that is trained on."""

    step: ClassVar[Any] = None
    """``step(self, model, batch)`` trains on one batch and returns the loss: with clipping, accumulation,
    schedules, several optimizers. It may name ``optimizer`` (what that hook gave), ``p``, and ``scaler`` (a
    gradient scaler, enabled for fp16) as further arguments, and enters ``self.autocast(p)`` itself."""

    stream: ClassVar[Any] = None
    """``stream(self, model, p)`` yields output as it becomes visible: a token, a chunk of audio.

    It also takes what ``prompt`` made, and the pieces of ``audio_in``, where they are defined.
    """

    prompt: ClassVar[Any] = None
    """``prompt(self, p)`` makes what one request is about, before it is sent: no part of its latency."""

    audio_in: ClassVar[Any] = None
    """``audio_in(self, p)`` makes the sound one request is given: pieces, each with its seconds.

    ``stream`` reads them as they would be spoken, and latencies count from the end of the sound.
    """

    audio_seconds: ClassVar[Any] = None
    """``audio_seconds(self, chunk)`` returns the length of a chunk's sound: gives the real-time factor."""

    tokens_of: ClassVar[Any] = None
    """``tokens_of(self, chunk)`` returns the tokens of each sequence in a chunk, where that is not one."""

    sequences: ClassVar[Any] = None
    """``sequences(self, p)`` returns how many sequences a request answers together: they count in rates.

    Without it a chunk tells: a tensor of token numbers has as many rows.
    """

    postprocess: ClassVar[Any] = None
    """``postprocess(self, model, out)`` turns the list of chunks into the result: a stage of its own."""

    kv_cache: ClassVar[Any] = None
    """``kv_cache(self, model, p)`` gives the tensors of the cache: their bytes are counted."""

    def optimizer(self, model: Any, p: Parameters) -> Any:
        """AdamW in torch's fused implementation, unless you override it; for ``step`` it may be several."""
        import torch

        return torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def autocast(self, p: Parameters) -> contextlib.AbstractContextManager[Any]:
        """Cast to the number format of steps and requests, by the parameter ``dtype`` or ``precision``."""
        from perfci.bench.devices.torch_precision_settings import autocast_to

        return autocast_to(self.precision(p), self.target_device)

    def compile(self, model: Any, p: Parameters) -> Any:
        """Compile what ``build`` made, in place, by the parameter ``compile``; return the model."""
        from perfci.bench.compilers.compile_model import compile_model

        return compile_model(model, p.get("compile"))

    def precision(self, p: Parameters) -> str:
        """The name of that format: fp32 where no parameter names another."""
        return str(next((p[name] for name in PRECISION_PARAMETERS if name in p), "fp32"))

    @property
    def target_device(self) -> Device:
        """The device that is measured, through perfci's device interface."""
        return this_device()

    @property
    def device(self) -> str:
        """The argument of ``.to()`` for models and batches."""
        return self.target_device.torch_device

    def bind_hooks(self, p: Parameters) -> BoundModelHooks:
        """Bind the hooks to the parameters of one cell, for the metric groups."""
        p, reference = CellParameters(p), CellParameters({**p, **self.reference})
        return BoundModelHooks(
            parameters=p,
            device=self.target_device,
            precision=partial(self.precision, p),
            load=lambda: self.compile(self.build(p), p),
            init=None if self.init is None else lambda model: self.init(model, p),
            optimizer=lambda model: self.optimizer(model, p),
            autocast=partial(self.autocast, p),
            float32_precision=partial(self._float32_precision, p),
            batch=self._bind_batch(p),
            loader=None if self.loader is None else partial(self.loader, p),
            loss=self.loss,
            step=None if self.step is None else bind_step_hook(self.step, p),
            stream=None if self.stream is None else lambda model, *inputs: self.stream(model, p, *inputs),
            prompt=None if self.prompt is None else partial(self.prompt, p),
            audio_in=None if self.audio_in is None else partial(self.audio_in, p),
            sequences=None if self.sequences is None else partial(self.sequences, p),
            kv_cache=None if self.kv_cache is None else lambda model: self.kv_cache(model, p),
            postprocess=self.postprocess,
            tokens_of=self.tokens_of,
            audio_seconds=self.audio_seconds,
            tokens_per_batch=lambda: self._count_batch_tokens(p),
            sla=self.sla or None,
            requests=self.requests,
            steps=self.steps,
            tolerance=self.tolerance,
            budget_s=self.budget_s,
            reference=self.bind_hooks(reference) if reference != p else None,
            source=BenchmarkSource(type(self).__module__, type(self).__qualname__),
        )

    def _bind_batch(self, p: Parameters) -> Callable[[int], Any] | None:
        from perfci.bench.loader_batches import FirstBatches

        if self.batch is None and self.loader is not None:
            return FirstBatches(partial(self.loader, p), self.target_device)
        return None if self.batch is None else partial(self.batch, p)

    def _float32_precision(self, p: Parameters) -> contextlib.AbstractContextManager[Any]:
        """Set what products of fp32 tensors are where a parameter says so; else the author's choice stays."""
        from perfci.bench.devices.torch_precision_settings import float32_precision

        if not any(name in p for name in PRECISION_PARAMETERS):
            return contextlib.nullcontext()
        return float32_precision(self.precision(p), self.target_device)

    def _count_batch_tokens(self, p: Parameters) -> float | None:
        if callable(self.tokens_per_batch):
            return self.tokens_per_batch(p)  # type: ignore[no-any-return]
        return self.tokens_per_batch  # type: ignore[no-any-return]


def _metric_groups() -> tuple[MetricGroup, ...]:
    """All metric groups, imported when a first model benchmark is defined: they import torch."""
    from perfci.bench.metric_groups import (
        cold_start,
        generation_latency,
        generation_stages,
        stream_request_counts,
        training_numerics,
        training_step,
        training_step_counts,
    )

    trains, streams = (("batch", "loader"), ("loss", "step")), (("stream",),)
    return (
        MetricGroup(
            "training",
            trains,
            training_step.METRICS,
            training_step.measure,
            training_step.build_profiled_step,
        ),
        MetricGroup("step_counts", trains, training_step_counts.METRICS, training_step_counts.measure),
        MetricGroup("numerics", trains, training_numerics.METRICS, training_numerics.measure),
        MetricGroup(
            "generation",
            streams,
            generation_latency.METRICS,
            generation_latency.measure,
            generation_latency.build_profiled_request,
        ),
        MetricGroup("stream_counts", streams, stream_request_counts.METRICS, stream_request_counts.measure),
        MetricGroup("stages", streams, generation_stages.METRICS, generation_stages.measure),
        MetricGroup("cold_start", (), cold_start.METRICS, cold_start.measure),
    )


def _check_names(cls: type[ModelBench]) -> None:
    """Raise ``PerfciError`` for a group, hook, setting or parameter that the class names and nobody knows."""
    from perfci.bench.devices.torch_precision_settings import PRECISIONS

    own = {name: value for name, value in vars(cls).items() if not hasattr(ModelBench, name)}
    settings = (*VERSIONED_SETTINGS, *OTHER_SETTINGS)
    free = [name for name in (*HOOK_NAMES, *settings) if getattr(cls, name) is getattr(ModelBench, name)]
    check_hooks(cls.__qualname__, {name: getattr(cls, name) for name in HOOK_NAMES})
    check_groups(cls.__qualname__, cls.groups, [group.name for group in _metric_groups()])
    check_attribute_names(cls.__qualname__, own, set(free) & set(HOOK_NAMES), set(free) & set(settings))
    grid = cls.params
    if not isinstance(grid, Mapping):
        grid = dict(zip(cls.param_names, cls.params, strict=False))
    check_parameters(cls.__qualname__, grid, cls.reference, PRECISIONS)
    if cls.step is not None:
        check_step_arguments(cls.__qualname__, cls.step)


def _build_measure_method(cls: type[ModelBench], group: MetricGroup) -> Any:
    """Build the ``measure_*`` method of one class; its version follows the hooks the class defines."""

    @metrics(*group.metrics)
    def measure(self: ModelBench, *values: Any) -> Measurement:
        hooks = _bind_cell_hooks(self, values)
        with missing_compiler_as_skip(), hooks.float32_precision():
            measured = group.measure(hooks)
        if group.name in COMPILED_GROUPS and cls.compile is ModelBench.compile:
            require_compiled_graphs(hooks.parameters.get("compile"))
        return measured

    def build_profiled_work(self: ModelBench, *values: Any) -> ProfiledWork:
        if group.build_profiled_work is None:
            raise skip_exception(f"the group {group.name} cannot be profiled; profile training or generation")
        hooks = _bind_cell_hooks(self, values)
        work = group.build_profiled_work(hooks)

        def work_in_precision(mark_phase: PhaseMarker) -> object:
            with hooks.float32_precision():
                return work(mark_phase)

        return work_in_precision

    measure.__name__ = f"measure_{group.name}"
    measure.__qualname__ = f"{cls.__qualname__}.{measure.__name__}"
    measure.__module__ = cls.__module__
    measure.pretty_source = _version_source(cls)  # type: ignore[attr-defined]
    measure.build_profiled_work = build_profiled_work  # type: ignore[attr-defined]
    # asv tells setup_caches apart by their line of source: here that of build.
    measure.anchor = cls.build  # type: ignore[attr-defined]
    return measure


def _bind_cell_hooks(benchmark: ModelBench, values: Sequence[Any]) -> BoundModelHooks:
    return benchmark.bind_hooks(dict(zip(benchmark.param_names, values, strict=True)))


def _version_source(cls: type[ModelBench]) -> str:
    """Source that versions the benchmark: another text of a hook or a setting is another benchmark."""
    hooks = [getattr(cls, name) for name in HOOK_NAMES if callable(getattr(cls, name))]
    # Hooks that ModelBench itself provides are left out: a new release must not begin every series anew.
    sources = [inspect.getsource(hook) for hook in hooks if hook.__module__ != __name__]
    return "\n".join([*(f"{name} = {getattr(cls, name)!r}" for name in VERSIONED_SETTINGS), *sources])
