"""The steps of a script as it wrote them, one JSON object per line, become numbers per step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.formats.input_files import read_bytes

FIELDS = ("step", "t", "step_time", "tokens", "loss", "data_time", "memory")

LONGEST_SHOWN = 60
"""Characters of a wrong value that a sentence repeats."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a training loop; all numbers are of one step, in seconds, tokens and bytes.

    ``seconds`` runs from the end of the step before to the end of this one, the wait for data (``data_seconds``)
    included; it is absent where nothing before it is known.
    """

    number: int
    seconds: float | None = None
    tokens: float | None = None
    loss: float | None = None
    data_seconds: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class StepLog:
    """All steps that could be read, a sentence for each line that could not, and where the loss stopped being finite.

    ``unused`` names keys that perfci has no meaning for.
    """

    steps: tuple[Step, ...] = ()
    faults: tuple[str, ...] = ()
    diverged: str = ""
    unused: tuple[str, ...] = ()


class Fault(ValueError):
    """What is wrong with one line; the other lines are kept."""


def read_steps(path: Path, already: bytes = b"") -> StepLog:
    """Read what a script wrote; lines that were in the file before it ran (``already``) are not its own."""
    return parse_steps(read_bytes(path).removeprefix(already)) if path.exists() else StepLog()


def parse_steps(body: bytes) -> StepLog:
    """Read lines of ``{"step": 7, "t": 12.3}`` or ``{"step": 7, "step_time": 0.1}``; ``FIELDS`` are all that is read.

    ``t`` is any clock that only goes forward: a step's seconds are its difference to the line before, shared among the
    steps between the two. ``step_time`` is believed before it. A step number that returns to the first one begins a
    new epoch, whose first step has no time by ``t``: what came before it was no step.
    """
    reader = _Reader()
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            reader.read(number, line)
    return StepLog(tuple(reader.steps), tuple(reader.faults), reader.diverged, tuple(sorted(reader.unused)))


class _Reader:
    """Takes one line after the other and remembers what the next one needs: the step and time before it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.faults: list[str] = []
        self.diverged = ""
        self.unused: set[str] = set()
        self._first: int | None = None
        self._last: int | None = None
        self._last_t: float | None = None

    def read(self, line_number: int, line: bytes) -> None:
        try:
            values = _object(line)
            step = self._step(line_number, values)
        except Fault as fault:
            self._complain(line_number, str(fault))
            return
        self.unused.update(name for name in values if name not in FIELDS)
        self.steps.append(step)

    def _step(self, line_number: int, values: Mapping[str, Any]) -> Step:
        number = _whole(values, "step")
        tokens, memory = _measured(values, "tokens"), _measured(values, "memory")
        t, given, waited = _finite(values, "t"), _measured(values, "step_time"), _measured(values, "data_time")
        loss = _number(values, "loss")
        if t is None and given is None:
            raise Fault('has neither "t" nor "step_time"')
        since = self._steps_since(number)
        elapsed = None if t is None or self._last_t is None or since is None else t - self._last_t
        self._first, self._last, self._last_t = number if self._first is None else self._first, number, t
        seconds = given if given is not None or elapsed is None or since is None else elapsed / since
        if seconds is not None and not 0 < seconds < math.inf:
            self._complain(line_number, _no_time(seconds, given))
            seconds = None
        if waited is not None and seconds is not None and waited > seconds:
            self._complain(
                line_number, f"data_time {waited:g} is longer than its step of {seconds:g} s, which includes it"
            )
            waited = None
        if loss is not None and not math.isfinite(loss):
            self.diverged = self.diverged or f"the loss is {loss} at step {number} (line {line_number})"
            loss = None
        return Step(number, seconds, tokens, loss, waited, memory)

    def _steps_since(self, number: int) -> int | None:
        """How many steps this line ends since the line before; None at the start of an epoch."""
        if self._last is None or (number == self._first and number < self._last):
            return None
        if number <= self._last:
            raise Fault(f"is step {number} after step {self._last}; only one process may write steps, in order")
        return number - self._last

    def _complain(self, line_number: int, what: str) -> None:
        self.faults.append(f"line {line_number} {what}")


def _no_time(seconds: float, given: float | None) -> str:
    if given is not None:
        return f'has "step_time": {given:g}; seconds above 0 were expected'
    if seconds == 0:
        return 'has the same "t" as the line before'
    return f'has a "t" that goes {"back" if seconds < 0 else "on"} by {abs(seconds):g} s'


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise Fault(f"is not JSON: {_shown(line.decode(errors='replace').strip())}") from None
    if not isinstance(value, dict):
        raise Fault(f"is no JSON object: {_shown(line.decode(errors='replace').strip())}")
    return value


def _whole(values: Mapping[str, Any], name: str) -> int:
    value = _finite(values, name)
    if value is None or value != int(value):
        raise Fault(f'has no whole number "{name}"')
    return int(value)


def _measured(values: Mapping[str, Any], name: str) -> float | None:
    """A time, a count or a number of bytes: none of them is below zero."""
    value = _finite(values, name)
    if value is not None and value < 0:
        raise Fault(f'has "{name}": {value:g}, which is below zero')
    return value


def _finite(values: Mapping[str, Any], name: str) -> float | None:
    value = _number(values, name)
    if value is not None and not math.isfinite(value):
        raise Fault(f'has "{name}": {value}, which is not finite')
    return value


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f'has "{name}": {_shown(json.dumps(value))}, which is no number')
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
