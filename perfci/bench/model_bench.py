"""The ten-line way to benchmark a model: give build, batch, loss, stream, and get every metric they allow."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from perfci.bench.base_class import Bench
from perfci.bench.readings import Measurement, metrics, skip_exception
from perfci.model import Metric

if TYPE_CHECKING:
    from perfci.bench.devices.torch_devices import Device

Parameters = Mapping[str, Any]

HOOK_NAMES = (
    "build",
    "batch",
    "loss",
    "stream",
    "audio_seconds",
    "tokens_of",
    "postprocess",
    "kv_cache",
    "optimizer",
    "autocast",
)
GROUP_NOT_CHOSEN = "its groups do not name it"
VERSIONED_SETTINGS = ("tokens_per_batch", "sla", "reference", "requests", "steps", "tolerance")


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """Metrics that one run of the model gives together, and the hooks it cannot do without."""

    name: str
    required_hooks: tuple[str, ...]
    metrics: Sequence[Metric]
    measure: Callable[[Any, Parameters], Measurement]
    build_profiled_work: Callable[[Any, Parameters], Any] | None = None


class ModelBench(Bench, ABC):
    """Derive from it, give ``build`` and at least ``batch`` with ``loss``, or ``stream``.

    Every hook takes ``p``, the parameters of the cell by name. What a hook would have given and no other can is left
    out, and said: ``perfci run`` and ``perfci doctor`` list it.

    ``params``
        name to values; every combination is measured in processes of its own. Where one of them is called ``dtype``
        or ``precision`` with values among fp32, tf32, bf16 and fp16, the training step computes in it.
    ``tokens_per_batch``
        tokens in one batch, on this device: gives tokens/s. A number, or a method that takes ``p``.
    ``sla``
        what a request may take: ``{"ttft": 0.5, "e2el_p90": 2.0}``, seconds: gives attainment and goodput.
    ``reference``
        parameters that make a trusted variant, ``{"dtype": "fp32"}``: every other variant has to agree with it in loss
        and gradients, or it is rejected, whatever its speed.
    ``requests``
        streams measured in one process. 64 are needed for a p90, 662 for a p99.
    ``steps``
        steps after which the loss is compared.
    ``tolerance``
        what a variant may differ, a ``perfci.bench.parity.Tolerance``; by default what its precision allows.
    ``budget_s``
        seconds of timed blocks after which a step is known well enough, or as well as it will be.
    ``groups``
        what to measure of all that the hooks allow (``training``, ``generation`` ...); empty is everything.
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
    """What its hooks do not allow to measure, and why: filled in for every class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        reasons = {group.name: _missing_reason(cls, group) for group in _metric_groups()}
        for group in _metric_groups():
            given = _build_measure_method(cls, group) if not reasons[group.name] else None
            setattr(cls, f"measure_{group.name}", given)
        cls.omitted = {
            name: reason for name, reason in reasons.items() if reason and reason != GROUP_NOT_CHOSEN
        }
        super().__init_subclass__(**kwargs)

    @abstractmethod
    def build(self, p: Parameters) -> Any:
        """Make the model, on ``self.device`` and in the state it is trained or served in."""

    batch: ClassVar[Any] = None
    """``batch(self, p, i)`` makes the i-th batch, on ``self.device``: the same one whenever it is asked again."""

    loss: ClassVar[Any] = None
    """``loss(self, model, batch)`` gives the scalar that is trained on."""

    stream: ClassVar[Any] = None
    """``stream(self, model, p)`` yields output as it becomes visible: a token, a chunk of audio."""

    audio_seconds: ClassVar[Any] = None
    """``audio_seconds(self, chunk)`` says how long a chunk plays: gives the real-time factor."""

    tokens_of: ClassVar[Any] = None
    """``tokens_of(self, chunk)`` says how many tokens a chunk holds, where that is not one."""

    postprocess: ClassVar[Any] = None
    """``postprocess(self, model, out)`` turns the list of chunks into what the caller gets: a stage of its own."""

    kv_cache: ClassVar[Any] = None
    """``kv_cache(self, model, p)`` gives the tensors of the cache: their bytes are counted."""

    def optimizer(self, model: Any, p: Parameters) -> Any:
        """AdamW in torch's fused implementation, unless you override it."""
        import torch

        return torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def autocast(self, p: Parameters) -> contextlib.AbstractContextManager[Any]:
        """The number format the training step computes in, by the parameter ``dtype`` or ``precision``."""
        from perfci.bench.devices.number_formats import compute_in

        return compute_in(self.precision(p), self.target_device)

    def precision(self, p: Parameters) -> str:
        """The name of that format: fp32 where no parameter says another."""
        return str(p.get("dtype", p.get("precision", "fp32")))

    @property
    def target_device(self) -> Device:
        """The device that is measured, as perfci sees it."""
        from perfci.bench.devices.torch_devices import this_device

        return this_device()

    @property
    def device(self) -> str:
        """Where models and batches belong: what ``.to()`` takes."""
        return self.target_device.torch_device


def _metric_groups() -> tuple[MetricGroup, ...]:
    """Imported when a first model is described: from here on torch is needed."""
    from perfci.bench.groups import (
        cold_start,
        generation,
        numerics,
        stages,
        step_counts,
        stream_counts,
        training,
    )

    return (
        MetricGroup(
            "training", ("batch", "loss"), training.METRICS, training.measure, training.build_profiled_step
        ),
        MetricGroup("step_counts", ("batch", "loss"), step_counts.METRICS, step_counts.measure),
        MetricGroup("numerics", ("batch", "loss"), numerics.METRICS, numerics.measure),
        MetricGroup(
            "generation",
            ("stream",),
            generation.METRICS,
            generation.measure,
            generation.build_profiled_request,
        ),
        MetricGroup("stream_counts", ("stream",), stream_counts.METRICS, stream_counts.measure),
        MetricGroup("stages", ("stream",), stages.METRICS, stages.measure),
        MetricGroup("cold_start", (), cold_start.METRICS, cold_start.measure),
    )


def _missing_reason(cls: type[ModelBench], group: MetricGroup) -> str:
    if cls.groups and group.name not in cls.groups:
        return GROUP_NOT_CHOSEN
    missing = [hook for hook in group.required_hooks if getattr(cls, hook) is None]
    return f"it gives no {' and no '.join(missing)}" if missing else ""


def _build_measure_method(cls: type[ModelBench], group: MetricGroup) -> Any:
    """The measuring function of one class: its version follows the hooks the class gives."""

    @metrics(*group.metrics)
    def measure(self: ModelBench, *values: Any) -> Measurement:
        return group.measure(self, dict(zip(self.param_names, values, strict=True)))

    def build_profiled_work(self: ModelBench, *values: Any) -> Any:
        if group.build_profiled_work is None:
            raise skip_exception(
                f"{group.name} is no work that a profile would explain; profile training or generation"
            )
        return group.build_profiled_work(self, dict(zip(self.param_names, values, strict=True)))

    measure.__name__ = f"measure_{group.name}"
    measure.__qualname__ = f"{cls.__qualname__}.{measure.__name__}"
    measure.__module__ = cls.__module__
    measure.pretty_source = _version_source(cls)  # type: ignore[attr-defined]
    measure.profiled = build_profiled_work  # type: ignore[attr-defined]
    measure.anchor = cls.build  # type: ignore[attr-defined]
    return measure


def _version_source(cls: type[ModelBench]) -> str:
    """All that the class and those it derives from say of the model: another text is another benchmark."""
    hooks = [getattr(cls, name) for name in HOOK_NAMES if callable(getattr(cls, name))]
    sources = [inspect.getsource(hook) for hook in hooks if hook.__module__ != __name__]
    return "\n".join([*(f"{name} = {getattr(cls, name)!r}" for name in VERSIONED_SETTINGS), *sources])
