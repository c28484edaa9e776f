"""Turns: where perfci measures two commits beside each other, their processes run by turns, never at once."""

from __future__ import annotations

import sys
from time import perf_counter


def offer_turn() -> float:
    """Between two samples: let the process that is measured beside this one take one of its own.

    Returns the seconds this process waited, which no budget of its own should pay for: 0 where it is measured by
    itself. Call it where nothing is being timed, as often on every side: the k-th samples of both sides are compared.
    """
    harness = sys.modules.get("perfci_harness.turns")  # there in a process that perfci's runner started, else nowhere
    if harness is None:
        return 0.0
    begin = perf_counter()
    harness.turns.offer()
    return perf_counter() - begin
