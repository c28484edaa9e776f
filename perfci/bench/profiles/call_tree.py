"""The tree of lines that a benchmark calls: time, operators and sources, as a document to compare by."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfci.bench.profiles.line_sampler import SampledCalls, SampledStack, SourceLine, SourceLocator
from perfci.bench.profiles.operators_by_line import Lines, OperatorKey, OperatorUse

MAX_SOURCE_BYTES = 4_000_000
"""Bytes of all sources that a document holds, the shortest files first."""

MAX_OPERATOR_ROWS = 5_000


def build_call_tree(
    sampled: SampledCalls, operators: Mapping[OperatorKey, OperatorUse], missing_operators: str = ""
) -> dict[str, Any]:
    """Stacks with their seconds in one call, operators with their counts, and the files they are lines of.

    Lines are numbers of rows in ``lines``. The time of a backward pass is divided among the lines of the
    forward pass, whose gradients it computes, by the time of their operators.
    """
    numbers = _LineNumbers(sampled.locator)
    largest = sorted(operators.items(), key=lambda row: -row[1].seconds)[:MAX_OPERATOR_ROWS]
    return {
        "stacks": [
            [phase, numbers.number_lines(lines), numbers.number_lines(origin), cpu_s, wall_s]
            for phase, lines, origin, cpu_s, wall_s in _divide_backward(sampled.stacks, operators)
        ],
        "operators": [
            [
                key.phase,
                numbers.number_lines(key.lines),
                numbers.number_lines(key.origin),
                key.name,
                key.inputs,
                use.calls,
                use.seconds,
            ]
            for key, use in largest
        ],
        "missing_operators": missing_operators,
        "calls_s": sampled.calls_s,
        "graph_breaks": _list_graph_breaks(numbers),
        "lines": [list(line) for line in numbers.rows],
        "sources": _read_sources(sampled.locator),
    }


class _LineNumbers:
    """Numbers lines as they come, each with the path that it is shown by."""

    def __init__(self, locator: SourceLocator) -> None:
        self._locator = locator
        self.rows: dict[SourceLine, int] = {}

    def number_lines(self, lines: Lines) -> list[int]:
        shown = [(self._locator.display_path(name), line) for name, line in lines]
        return [self.rows.setdefault(line, len(self.rows)) for line in shown]


def _divide_backward(
    stacks: tuple[SampledStack, ...], operators: Mapping[OperatorKey, OperatorUse]
) -> Iterator[tuple[str, Lines, Lines, float, float]]:
    seconds: dict[tuple[str, Lines], dict[Lines, float]] = defaultdict(lambda: defaultdict(float))
    for key, use in operators.items():
        seconds[key.phase, key.lines][key.origin] += use.seconds
    for stack in stacks:
        by_origin = seconds.get((stack.phase, stack.lines), {(): 1.0})
        whole = sum(by_origin.values()) or 1.0
        for origin, origin_s in by_origin.items():
            share = origin_s / whole if len(by_origin) > 1 else 1.0
            yield stack.phase, stack.lines, origin, stack.cpu_s * share, stack.wall_s * share


def _list_graph_breaks(numbers: _LineNumbers) -> list[dict[str, Any]]:
    """The places at which dynamo gave code back to Python while this process compiled it."""
    if "torch._dynamo.utils" not in sys.modules:
        return []
    reasons = sys.modules["torch._dynamo.utils"].graph_break_reasons
    return [
        {"reason": str(reason.reason).split("\n")[0], "lines": numbers.number_lines(_user_lines(reason))}
        for reason in reasons
        if reason.user_stack
    ]


def _user_lines(reason: Any) -> Lines:
    return tuple((frame.filename, frame.lineno) for frame in reason.user_stack)


def _read_sources(locator: SourceLocator) -> dict[str, str]:
    """The files of the project that this process imported."""
    files = {str(getattr(module, "__file__", "") or "") for module in list(sys.modules.values())}
    texts: dict[str, str] = {}
    for file in files:
        if os.path.isabs(file) and file.endswith(".py") and locator.is_project_file(file):
            texts[locator.display_path(file)] = Path(file).read_text(errors="replace")
    kept: dict[str, str] = {}
    for path, text in sorted(texts.items(), key=lambda row: len(row[1])):
        if sum(map(len, kept.values())) + len(text) <= MAX_SOURCE_BYTES:
            kept[path] = text
    return kept
