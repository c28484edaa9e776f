"""Functions that the author of a model benchmark defined (its hooks), bound to one cell and its device."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfci.bench.devices.torch_devices import Device
from perfci.bench.streams.arriving_audio import AudioPieces

if TYPE_CHECKING:
    from perfci.bench.parity import Tolerance


STEP_ARGUMENTS = ("optimizer", "p", "scaler")
"""What a ``step`` hook is given where its signature names it, beside the model and the batch."""


@dataclass(frozen=True, slots=True)
class BenchmarkSource:
    """Import path of a benchmark class, by which a fresh interpreter finds it again."""

    module: str
    qualname: str


@dataclass(frozen=True, slots=True)
class BoundModelHooks:
    """The hooks of one model with the parameters of one cell bound, its device, and the author's settings.

    A hook that the author did not define is None. Hooks stay bound to one instance of the benchmark, since
    authors keep state on it (a KV cache, for example).
    """

    parameters: Mapping[str, Any]
    device: Device
    precision: Callable[[], str]
    """Name of the number format that steps and requests compute in: fp32, tf32, bf16 or fp16."""
    load: Callable[[], Any]
    """Makes the model, compiled where a parameter says so."""
    init: Callable[[Any], object] | None
    """Makes a loaded model ready for its first step or request."""
    optimizer: Callable[[Any], Any]
    """Called with the model."""
    autocast: Callable[[], AbstractContextManager[Any]]
    """Entered around the computation of a loss."""
    float32_precision: Callable[[], AbstractContextManager[Any]]
    """Entered around everything: what products of fp32 tensors are, in backward passes too."""
    batch: Callable[[int], Any] | None
    """Called with the index of the batch; where the author gives a loader only, its first batches."""
    loader: Callable[[], Iterable[Any]] | None
    """Gives the batches of an epoch."""
    loss: Callable[[Any, Any], Any] | None
    """Called with the model and a batch."""
    step: Callable[[Any, Any, Any, Any], Any] | None
    """Called with the model, a batch, what ``optimizer`` gave and a gradient scaler."""
    stream: Callable[..., Iterable[Any]] | None
    """Called with the model, the prompt and the sound, where there are any; yields chunks of output."""
    prompt: Callable[[], Any] | None
    """Makes the prompt of one request."""
    audio_in: Callable[[], AudioPieces] | None
    """Makes the sound of one request: pieces with their seconds."""
    sequences: Callable[[], int] | None
    """Sequences that one request answers together."""
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
    reference: BoundModelHooks | None
    """The trusted variant of this model; None where this is the reference or the author names none."""
    source: BenchmarkSource

    def build_ready_model(self) -> Any:
        """Make the model, ready for its first step or request."""
        model = self.load()
        if self.init is not None:
            self.init(model)
        return model

    def require_batch_hook(self) -> Callable[[int], Any]:
        """Return the ``batch`` hook of a benchmark that trains."""
        assert self.batch is not None
        return self.batch

    def require_stream_hook(self) -> Callable[..., Iterable[Any]]:
        """Return the ``stream`` hook of a benchmark that generates."""
        assert self.stream is not None
        return self.stream


def bind_step_hook(step: Callable[..., Any], p: Mapping[str, Any]) -> Callable[[Any, Any, Any, Any], Any]:
    """Bind a ``step`` hook to its parameters, and pass on those of the further arguments that it names."""
    names = [name for name in inspect.signature(step).parameters if name in STEP_ARGUMENTS]

    def train_on_batch(model: Any, batch: Any, optimizer: Any, scaler: Any) -> Any:
        offered = {"optimizer": optimizer, "p": p, "scaler": scaler}
        return step(model, batch, **{name: offered[name] for name in names})

    return train_on_batch
