"""Count operators by the lines that called them; in a backward pass by the lines whose gradient it is."""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfci.bench.profiles.line_sampler import SourceLine, SourceLocator
from perfci.bench.timers.stage_timers import ProfiledWork

CALLS = 3

Lines = tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """An operator with the shapes and formats that it read, and the lines that were open, outermost first.

    ``origin`` are the lines of the forward pass whose gradient it computes; empty outside a backward pass.
    """

    phase: str
    lines: Lines
    origin: Lines
    name: str
    inputs: str


@dataclass
class OperatorUse:
    """How often one call runs an operator, and for how many seconds while it is being counted."""

    calls: float = 0.0
    seconds: float = 0.0


def count_operators(
    work: ProfiledWork,
    locator: SourceLocator,
    *,
    before_call: Callable[[], object],
    synchronize: Callable[[], object],
) -> dict[OperatorKey, OperatorUse]:
    """Count in calls of their own, which are far slower; what torch.compile made runs as it was written."""
    counts: list[dict[OperatorKey, OperatorUse]] = []
    with torch.compiler.set_stance("force_eager"):
        for _ in range(CALLS):
            counter = _OperatorCounter(locator)
            before_call()
            with counter.counting():
                work(counter.mark_phase)
            synchronize()
            counts.append(counter.uses)
    return {key: _median_use([uses.get(key) for uses in counts]) for uses in counts for key in uses}


def _median_use(uses: list[OperatorUse | None]) -> OperatorUse:
    """A call now and then is interrupted, or allocates what later ones find."""
    return OperatorUse(
        statistics.median(use.calls if use else 0.0 for use in uses),
        statistics.median(use.seconds if use else 0.0 for use in uses),
    )


@dataclass
class _OperatorCounter:
    locator: SourceLocator
    uses: dict[OperatorKey, OperatorUse] = field(default_factory=dict)
    origin: Lines = ()
    """The lines whose gradient is being computed."""
    _phases: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        with _OriginMode(self), _CountMode(self):
            yield

    @contextlib.contextmanager
    def mark_phase(self, phase: str) -> Iterator[None]:
        self._phases.append(phase)
        try:
            yield
        finally:
            self._phases.pop()

    def open_lines(self) -> Lines:
        return self.locator.find_open_lines(sys._getframe(2))

    def record(self, name: str, inputs: str, seconds: float, lines: Lines) -> None:
        phase = self._phases[-1] if self._phases else ""
        # What checkpointing computes again is part of the node that needs it.
        origin = self.origin if torch._C._current_autograd_node() is not None else ()
        use = self.uses.setdefault(OperatorKey(phase, lines, origin, name, inputs), OperatorUse())
        use.calls += 1
        use.seconds += seconds


class _CountMode(TorchDispatchMode):  # type: ignore[misc]
    """Times each operator, and records it for the lines that are open."""

    def __init__(self, counter: _OperatorCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = perf_counter()
        result = func(*args, **(kwargs or {}))
        seconds = perf_counter() - began
        if func.namespace == "profiler":
            return result
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        inputs = " ".join(map(_describe_input, tensors))
        name = f"aten::{func.overloadpacket.__name__}" if func.namespace == "aten" else str(func)
        self._counter.record(name, inputs, seconds, self._counter.open_lines())
        return result


class _OriginMode(TorchFunctionMode):  # type: ignore[misc]
    """Notes, for each node that a function of torch adds to the graph, the lines that called it."""

    def __init__(self, counter: _OperatorCounter) -> None:
        super().__init__()
        self._counter = counter
        self._noted: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        nodes = [leaf.grad_fn for leaf in tree_leaves(result) if _has_node(leaf)]
        if nodes:
            self._note_nodes(nodes, self._counter.open_lines())
        return result

    def _note_nodes(self, nodes: list[Any], lines: Lines) -> None:
        while nodes:
            node = nodes.pop()
            number = node._sequence_nr()
            # What accumulates a gradient has no number of its own, and no function that made it.
            if number in self._noted or not node.next_functions:
                continue
            self._noted.add(number)
            node.register_prehook(self._start_of(lines))
            nodes += [following for following, _ in node.next_functions if following is not None]

    def _start_of(self, lines: Lines) -> Callable[[Any], None]:
        def note_origin(gradients: Any) -> None:
            self._counter.origin = lines

        return note_origin


def _describe_input(tensor: Any) -> str:
    strided = "" if tensor.layout is not torch.strided or tensor.is_contiguous() else " strided"
    return f"{str(tensor.dtype).removeprefix('torch.')}{tuple(tensor.shape)}{strided}"


def _has_node(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None
