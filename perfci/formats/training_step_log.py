"""Parse the step log of a training script, one JSON object per line, into numbers per step."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.formats.bounded_files import read_decompressed

STEP_FIELDS = ("step", "t", "step_time", "tokens", "loss", "data_time", "memory")

MAX_SHOWN_LENGTH = 60
"""Characters of an invalid value that an error message quotes."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of a training loop; all numbers are of one step, in seconds, tokens and bytes.

    ``seconds`` runs from the end of the step before to the end of this one, the wait for data
    (``data_seconds``) included; it is None where the step before is unknown.
    """

    number: int
    seconds: float | None = None
    tokens: float | None = None
    loss: float | None = None
    data_seconds: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class StepLog:
    """The valid steps of a log, an error for each invalid line, and where the loss became infinite or NaN.

    ``unknown_keys`` are keys that perfci has no meaning for.
    """

    steps: tuple[TrainingStep, ...] = ()
    errors: tuple[str, ...] = ()
    divergence: str = ""
    unknown_keys: tuple[str, ...] = ()


class StepLineError(ValueError):
    """An error in one line of a step log; the other lines are kept."""


def read_step_log(path: Path, existing: bytes = b"") -> StepLog:
    """Read the step log of a script, without the content that was there before it ran (``existing``)."""
    return parse_step_log(read_decompressed(path).removeprefix(existing)) if path.exists() else StepLog()


def parse_step_log(body: bytes) -> StepLog:
    """Parse lines of ``{"step": 7, "t": 12.3}`` or ``{"step": 7, "step_time": 0.1}``; see ``STEP_FIELDS``.

    ``t`` is any monotonic clock: a step's seconds are its difference to the line before, divided by the
    number of steps between the two. ``step_time`` takes precedence. A step number that returns to the first
    one begins a new epoch, whose first step has no time by ``t``, since the time before it was not spent in
    a step.
    """
    reader = _StepReader()
    for number, line in enumerate(body.split(b"\n"), start=1):
        if line.strip():
            reader.read_line(number, line)
    return StepLog(
        tuple(reader.steps), tuple(reader.errors), reader.divergence, tuple(sorted(reader.unknown_keys))
    )


class _StepReader:
    """Parses line after line, keeping the number and time of the last step for the next one."""

    def __init__(self) -> None:
        self.steps: list[TrainingStep] = []
        self.errors: list[str] = []
        self.divergence = ""
        self.unknown_keys: set[str] = set()
        self._first: int | None = None
        self._last: int | None = None
        self._last_t: float | None = None

    def read_line(self, line_number: int, line: bytes) -> None:
        """Add the step of a line, or an error if the line is invalid."""
        try:
            values = _parse_object(line)
            step = self._parse_step(line_number, values)
        except StepLineError as error:
            self._add_error(line_number, str(error))
            return
        self.unknown_keys.update(name for name in values if name not in STEP_FIELDS)
        self.steps.append(step)

    def _parse_step(self, line_number: int, values: Mapping[str, Any]) -> TrainingStep:
        number = _parse_whole(values, "step")
        tokens, memory = _parse_non_negative(values, "tokens"), _parse_non_negative(values, "memory")
        t = _parse_finite(values, "t")
        step_time = _parse_non_negative(values, "step_time")
        data_time = _parse_non_negative(values, "data_time")
        loss = _parse_number(values, "loss")
        if t is None and step_time is None:
            raise StepLineError('has neither "t" nor "step_time"')
        steps_since = self._count_steps_since(number)
        seconds = step_time
        if seconds is None and t is not None and self._last_t is not None and steps_since is not None:
            seconds = (t - self._last_t) / steps_since
        if self._first is None:
            self._first = number
        self._last, self._last_t = number, t
        if seconds is not None and not 0 < seconds < math.inf:
            self._add_error(line_number, _invalid_time_message(seconds, step_time))
            seconds = None
        if data_time is not None and seconds is not None and data_time > seconds:
            self._add_error(
                line_number,
                f"data_time {data_time:g} is longer than its step of {seconds:g} s, which includes it",
            )
            data_time = None
        if loss is not None and not math.isfinite(loss):
            self.divergence = self.divergence or f"the loss is {loss} at step {number} (line {line_number})"
            loss = None
        return TrainingStep(number, seconds, tokens, loss, data_time, memory)

    def _count_steps_since(self, number: int) -> int | None:
        """Count the steps since the line before; None at the start of an epoch."""
        if self._last is None or (number == self._first and number < self._last):
            return None
        if number <= self._last:
            raise StepLineError(
                f"is step {number} after step {self._last}; only one process may write steps, in order"
            )
        return number - self._last

    def _add_error(self, line_number: int, message: str) -> None:
        self.errors.append(f"line {line_number} {message}")


def _invalid_time_message(seconds: float, step_time: float | None) -> str:
    if step_time is not None:
        return f'has "step_time": {step_time:g}; seconds above 0 were expected'
    if seconds == 0:
        return 'has the same "t" as the line before'
    return f'has a "t" that goes {"back" if seconds < 0 else "on"} by {abs(seconds):g} s'


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise StepLineError(f"is not JSON: {_truncate(line.decode(errors='replace').strip())}") from None
    if not isinstance(value, dict):
        raise StepLineError(f"is no JSON object: {_truncate(line.decode(errors='replace').strip())}")
    return value


def _parse_whole(values: Mapping[str, Any], name: str) -> int:
    value = _parse_finite(values, name)
    if value is None or value != int(value):
        raise StepLineError(f'has no whole number "{name}"')
    return int(value)


def _parse_non_negative(values: Mapping[str, Any], name: str) -> float | None:
    """Parse a time, a count or a number of bytes, none of which may be negative."""
    value = _parse_finite(values, name)
    if value is not None and value < 0:
        raise StepLineError(f'has "{name}": {value:g}, which is below zero')
    return value


def _parse_finite(values: Mapping[str, Any], name: str) -> float | None:
    value = _parse_number(values, name)
    if value is not None and not math.isfinite(value):
        raise StepLineError(f'has "{name}": {value}, which is not finite')
    return value


def _parse_number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StepLineError(f'has "{name}": {_truncate(json.dumps(value))}, which is no number')
    try:
        return float(value)
    except OverflowError:  # JSON has whole numbers of any length
        return math.inf


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_LENGTH else text[: MAX_SHOWN_LENGTH - 1] + "…"
