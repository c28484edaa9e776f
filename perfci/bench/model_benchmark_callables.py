"""Functions that the author of a model benchmark defined (its hooks), bound to one cell and its device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfci.bench.devices.torch_devices import Device

if TYPE_CHECKING:
    from perfci.bench.parity import Tolerance


@dataclass(frozen=True, slots=True)
class BenchmarkSource:
    """Import path of a benchmark class, by which a fresh interpreter finds it again."""

    module: str
    qualname: str


@dataclass(frozen=True, slots=True)
class ModelBenchmarkCallables:
    """The hooks of one model with the parameters of one cell bound, its device, and the author's settings.

    A hook that the author did not define is None. Hooks stay bound to one instance of the benchmark, since
    authors keep state on it (a KV cache, for example).
    """

    parameters: Mapping[str, Any]
    device: Device
    precision: Callable[[], str]
    """Name of the number format of a training step: fp32, tf32, bf16 or fp16."""
    build: Callable[[], Any]
    optimizer: Callable[[Any], Any]
    """Called with the model."""
    autocast: Callable[[], AbstractContextManager[Any]]
    batch: Callable[[int], Any] | None
    """Called with the index of the batch."""
    loss: Callable[[Any, Any], Any] | None
    """Called with the model and a batch."""
    stream: Callable[[Any], Iterable[Any]] | None
    """Called with the model; yields chunks of output."""
    kv_cache: Callable[[Any], Any] | None
    """Called with the model, after a request."""
    postprocess: Callable[[Any, list[Any]], Any] | None
    """Called with the model and the chunks of one request."""
    tokens_of: Callable[[Any], int] | None
    """Tokens in one chunk."""
    audio_seconds: Callable[[Any], float] | None
    """Seconds of audio in one chunk."""
    tokens_per_batch: Callable[[], float | None]
    sla: Mapping[str, float] | None
    requests: int
    steps: int
    tolerance: Tolerance | None
    budget_s: float
    reference: ModelBenchmarkCallables | None
    """The trusted variant of this model; None where this is the reference or the author names none."""
    source: BenchmarkSource

    def require_loss_callable(self) -> Callable[[Any, Any], Any]:
        """Return the ``loss`` hook of a benchmark that trains."""
        assert self.loss is not None
        return self.loss

    def require_batch_callable(self) -> Callable[[int], Any]:
        """Return the ``batch`` hook of a benchmark that trains."""
        assert self.batch is not None
        return self.batch

    def require_stream_callable(self) -> Callable[[Any], Iterable[Any]]:
        """Return the ``stream`` hook of a benchmark that generates."""
        assert self.stream is not None
        return self.stream
