"""The ten-line way to benchmark a model: give build, batch, loss, stream, and get every metric they allow."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from perfci.bench.base_class import Bench
from perfci.bench.readings import Measured, metrics, not_here
from perfci.model import Metric

if TYPE_CHECKING:
    from perfci.bench.devices.torch_devices import Device

Parameters = Mapping[str, Any]

HOOKS = (
    "build", "batch", "loss", "stream", "audio_seconds", "tokens_of", "postprocess", "kv_cache", "optimizer",
    "autocast",
)  # fmt: skip
NOT_CHOSEN = "its groups do not name it"
SAID = ("tokens_per_batch", "sla", "reference", "requests", "steps", "tolerance")


@dataclass(frozen=True, slots=True)
class Group:
    """Metrics that one run of the model gives together, and the hooks it cannot do without."""

    name: str
    hooks: tuple[str, ...]
    metrics: Sequence[Metric]
    measure: Callable[[Any, Parameters], Measured]
    profiled: Callable[[Any, Parameters], Any] | None = None


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
        reasons = {group.name: _why_not(cls, group) for group in _groups()}
        for group in _groups():
            given = _measuring(cls, group) if not reasons[group.name] else None
            setattr(cls, f"measure_{group.name}", given)
        cls.omitted = {name: reason for name, reason in reasons.items() if reason and reason != NOT_CHOSEN}
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
        from perfci.bench.devices.number_formats import precision

        return precision(self.precision(p), self.shim)

    def precision(self, p: Parameters) -> str:
        """The name of that format: fp32 where no parameter says another."""
        return str(p.get("dtype", p.get("precision", "fp32")))

    @property
    def shim(self) -> Device:
        """The device that is measured, as perfci sees it."""
        from perfci.bench.devices.torch_devices import this_device

        return this_device()

    @property
    def device(self) -> str:
        """Where models and batches belong: what ``.to()`` takes."""
        return self.shim.torch_device


def _groups() -> tuple[Group, ...]:
    """Imported when a first model is described: from here on torch is needed."""
    from perfci.bench.groups import cold_start, generation, numerics, stages, step_counts, stream_counts, training

    return (
        Group("training", ("batch", "loss"), training.METRICS, training.measure, training.profiled),
        Group("step_counts", ("batch", "loss"), step_counts.METRICS, step_counts.measure),
        Group("numerics", ("batch", "loss"), numerics.METRICS, numerics.measure),
        Group("generation", ("stream",), generation.METRICS, generation.measure, generation.profiled),
        Group("stream_counts", ("stream",), stream_counts.METRICS, stream_counts.measure),
        Group("stages", ("stream",), stages.METRICS, stages.measure),
        Group("cold_start", (), cold_start.METRICS, cold_start.measure),
    )


def _why_not(cls: type[ModelBench], group: Group) -> str:
    if cls.groups and group.name not in cls.groups:
        return NOT_CHOSEN
    missing = [hook for hook in group.hooks if getattr(cls, hook) is None]
    return f"it gives no {' and no '.join(missing)}" if missing else ""


def _measuring(cls: type[ModelBench], group: Group) -> Any:
    """The measuring function of one class: its version follows the hooks the class gives."""

    @metrics(*group.metrics)
    def measure(self: ModelBench, *values: Any) -> Measured:
        return group.measure(self, dict(zip(self.param_names, values, strict=True)))

    def profiled(self: ModelBench, *values: Any) -> Any:
        if group.profiled is None:
            raise not_here(f"{group.name} is no work that a profile would explain; profile training or generation")
        return group.profiled(self, dict(zip(self.param_names, values, strict=True)))

    measure.__name__ = f"measure_{group.name}"
    measure.__qualname__ = f"{cls.__qualname__}.{measure.__name__}"
    measure.__module__ = cls.__module__
    measure.pretty_source = _said(cls)  # type: ignore[attr-defined]
    measure.profiled = profiled  # type: ignore[attr-defined]
    measure.anchor = cls.build  # type: ignore[attr-defined]
    return measure


def _said(cls: type[ModelBench]) -> str:
    """All that the class and those it derives from say of the model: another text is another benchmark."""
    hooks = [getattr(cls, name) for name in HOOKS if callable(getattr(cls, name))]
    sources = [inspect.getsource(hook) for hook in hooks if hook.__module__ != __name__]
    return "\n".join([*(f"{name} = {getattr(cls, name)!r}" for name in SAID), *sources])
