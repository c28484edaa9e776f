"""Take turns with the process that is measured beside this one, so that the two never run at once."""

from __future__ import annotations

import sys
from time import perf_counter
from types import ModuleType


def offer_turn() -> float:
    """Between two samples: let the process that is measured beside this one take one of its own.

    Returns the seconds this process waited, which no budget of its own should pay for: 0 where it is
    measured by itself. Call it where nothing is being timed, as often on every side: the k-th samples of
    both sides are compared.
    """
    harness = _turns_module()
    if harness is None:
        return 0.0
    begin = perf_counter()
    harness.process_turns.offer_turn()
    return perf_counter() - begin


def agree_on_call_count(calls: int) -> int:
    """The number of calls a sample has, the same on every side: that of whoever is asked first.

    The first call after another's turn finds caches full of strangers; a mean over twice as many calls
    would be less of it. Every side has to ask for its numbers in the same order.
    """
    harness = _turns_module()
    return calls if harness is None else int(harness.process_turns.agree_on_number(calls))


def _turns_module() -> ModuleType | None:
    """There in a process that perfci's runner started, else nowhere."""
    return sys.modules.get("perfci_harness.turn_slots")
