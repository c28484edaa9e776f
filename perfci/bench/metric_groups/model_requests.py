"""Requests to a user's model: answered in the number format of the benchmark, without gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.devices.torch_precision_settings import AUTOCAST_DTYPES


class ModelRequests:
    """The model of a benchmark that streams, and its requests. Equal seeds give equal weights."""

    def __init__(self, hooks: BoundModelHooks, *, seed: int = 0, ready: bool = True) -> None:
        torch.manual_seed(seed)
        self._hooks = hooks
        with torch.no_grad():
            self.model = hooks.build_ready_model() if ready else hooks.load()

    def make_model_ready(self) -> None:
        """Make a model that was only loaded ready for requests."""
        if self._hooks.init is not None:
            with torch.no_grad():
                self._hooks.init(self.model)

    def inference_context(self) -> contextlib.AbstractContextManager[None]:
        """Context in which requests are sent: no gradients, and the number format of the benchmark."""
        return infer_in_precision(self._hooks, self.model)

    def make_inputs(self) -> list[Any]:
        """What one request is given: its prompt, and its sound with all pieces there at once."""
        return make_request_inputs(self._hooks)

    def open_request(self, *inputs: Any) -> Iterable[Any]:
        """Start one request; it runs as its chunks are read. Equal inputs may be given again."""
        return open_request(self._hooks, self.model, inputs)

    def count_sequences(self, chunk: Any) -> int | None:
        """Sequences that advance with a chunk: as the author says, else as it shows; None if neither does."""
        if self._hooks.sequences is not None:
            return int(self._hooks.sequences())
        return infer_sequence_count(chunk, self._hooks.parameters.get("batch", 1))


def make_request_inputs(hooks: BoundModelHooks) -> list[Any]:
    """Make the inputs of one request in the order in which ``stream`` takes them."""
    inputs = [] if hooks.prompt is None else [hooks.prompt()]
    if hooks.audio_in is not None:
        inputs.append([piece for piece, _ in hooks.audio_in()])
    return inputs


def open_request(hooks: BoundModelHooks, model: Any, inputs: Sequence[Any]) -> Iterable[Any]:
    """Start one request with its inputs; ``stream`` gets sound as an iterator, which can be read once."""
    if hooks.audio_in is not None:
        *others, pieces = inputs
        inputs = (*others, iter(pieces))
    return hooks.require_stream_hook()(model, *inputs)


@contextlib.contextmanager
def infer_in_precision(hooks: BoundModelHooks, model: Any) -> Iterator[None]:
    """Turn gradients off and compute in the benchmark's number format, as a training step does.

    A model whose floating-point parameters all have that format already (``.to(torch.bfloat16)``) computes
    in it by itself: autocast would widen its normalisations again. Both hold for the thread that reads the
    stream.
    """
    has_format = all_parameters_have_format(model, hooks.precision())
    with torch.no_grad(), contextlib.nullcontext() if has_format else hooks.autocast():
        yield


def all_parameters_have_format(model: Any, precision: str) -> bool:
    """Whether all floating-point parameters of a module are in a format of 16 bits, by its name."""
    if precision not in AUTOCAST_DTYPES or not isinstance(model, torch.nn.Module):
        return False
    held = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return held == {AUTOCAST_DTYPES[precision]}


def infer_sequence_count(chunk: Any, batch: Any) -> int | None:
    """Read from a chunk how many sequences advance with it, where ``batch`` is the parameter of that name.

    Tokens are a tensor of integers: (sequences, tokens), or (sequences,) where that is as long as the batch.
    Anything else is one sequence, unless the batch is larger: then it is not known.
    """
    if torch.is_tensor(chunk) and not chunk.is_floating_point():
        if chunk.ndim > 1:
            return int(chunk.shape[0])
        if chunk.ndim == 1 and chunk.shape[0] == batch:
            return int(batch)
    return 1 if batch == 1 else None
