"""API schemas of the verdict on what a pull request uploaded."""

from __future__ import annotations

from typing import Literal

from perfci.net.api_schemas import RequestShape, Shape
from perfci.net.api_schemas.series import OptionalShaPrefix

PullRequestState = Literal["passed", "worse", "accepted", "open", "identical", "not_run", "broken"]


class PullRequestVerdictQuery(RequestShape):
    """``head`` is the commit asked for; without it, the one that was uploaded last."""

    head: OptionalShaPrefix = ""


class PullRequestVerdictShape(Shape):
    """What was decided about a head of a pull request; ``pending`` while an upload waits to be judged.

    ``state`` is that of its check, ``markdown`` its comment. Both are absent where nothing was judged, as
    where the main branch has no run to compare with.
    """

    number: int
    head: str
    uploads: int
    pending: bool
    base: str | None = None
    state: PullRequestState | None = None
    title: str = ""
    markdown: str = ""
