"""The bisects and backfills that were ordered for an incident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from perfci.net.api_schemas.measurement_orders import LikelyCommit, OrderShape
from perfci.service.orders.check_order_content import BACKFILL, BISECT
from perfci.service.orders.order_text import describe_state
from perfci.service.orders.serialize_orders import serialize_order
from perfci.store.jobs.measurement_orders import OPEN_STATES, list_orders_of_incident
from perfci.store.projects import Project

MAX_CANDIDATES, MAX_ORDERS = 5, 5
MIN_PROBABILITY = 0.01


@dataclass(frozen=True, slots=True)
class RangeOrder:
    """A bisect or a backfill of an incident."""

    order: OrderShape

    @property
    def is_open(self) -> bool:
        return self.order.state in OPEN_STATES

    @property
    def text(self) -> str:
        """How far it is, what it found, or why it found nothing."""
        return describe_state(self.order).partition(": ")[2]

    @property
    def candidates(self) -> Sequence[LikelyCommit]:
        """The likeliest commits of a bisect that has begun to search."""
        bisect = self.order.bisect
        if bisect is None or bisect.commits_measured < 3:
            return ()
        return [item for item in bisect.candidates[:MAX_CANDIDATES] if item.probability >= MIN_PROBABILITY]

    @property
    def named_commits(self) -> list[str]:
        """The commits whose subjects are shown."""
        return [item.commit for item in self.candidates]


def load_range_orders(tx: Session, project: Project, number: int) -> list[RangeOrder]:
    """Load the newest bisects and backfills of an incident, the last one first."""
    orders = list_orders_of_incident(tx, project.id, number, (BISECT, BACKFILL))
    return [RangeOrder(serialize_order(order)) for order in orders[:MAX_ORDERS]]
