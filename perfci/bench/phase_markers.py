"""Callbacks that open a named phase of a step, without importing torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

PhaseMarker = Callable[[str], contextlib.AbstractContextManager[Any]]
"""Opens a named phase: a stage timer, a range of a profiler, or nothing while the step is timed as a
whole.
"""

ProfiledWork = Callable[[PhaseMarker], object]
"""Work to profile: called with the marker that opens a named phase around each part of it."""

_NULL_CONTEXT = contextlib.nullcontext()


def no_phase(phase: str) -> contextlib.AbstractContextManager[None]:
    """Open nothing. One shared context manager, so that a timed step does not pay for making one."""
    return _NULL_CONTEXT
