"""Log cost of a change point: its size, positive where things got worse."""

from __future__ import annotations

import math

from perfci.model import ChangePoint


def compute_severity(change: ChangePoint) -> float:
    """Log shift of a step, positive where things got worse; infinite where no ratio exists, as from
    zero."""
    worse = (change.after > change.before) == (change.series.metric.direction == "lower")
    possible = change.before > 0 and change.after > 0
    size = abs(math.log(change.after / change.before)) if possible else math.inf
    return size if worse else -size
