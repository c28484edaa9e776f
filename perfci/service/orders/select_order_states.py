"""Select the states of orders that a list shows."""

from __future__ import annotations

from collections.abc import Collection

from perfci.store.jobs.measurement_orders import CLOSED_STATES, OPEN_STATES


def select_order_states(state: str | None) -> Collection[str]:
    """The states of ``open`` or ``closed`` orders, one state alone, or none for all."""
    if state is None:
        return ()
    return {"open": OPEN_STATES, "closed": CLOSED_STATES}.get(state, (state,))
