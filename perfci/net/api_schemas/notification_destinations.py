"""API schemas of notification destinations; a secret goes in and never comes out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfci.net.api_schemas import (
    DEFAULT_PAGE_SIZE,
    MAX_PAGE_SIZE,
    VISIBLE_LINE_PATTERN,
    Page,
    RequestShape,
    Shape,
)
from perfci.net.api_schemas.incidents import DeliveryShape, IncidentKindName, IncidentStateName

DestinationKind = Literal["slack", "webhook", "email", "github_issue"]
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
TimeZoneName = Annotated[str, Field(max_length=60, pattern=r"^[A-Za-z0-9_+/-]*$")]


class NotificationRoutes(RequestShape):
    """Of what a destination hears: nothing said means regressions and missing data, when they begin.

    ``benchmarks`` are names with ``*``; ``urgent`` messages do not wait for the end of the quiet hours.
    """

    kinds: Annotated[tuple[IncidentKindName, ...], Field(max_length=7)] = ()
    states: Annotated[tuple[IncidentStateName, ...], Field(max_length=10)] = ()
    benchmarks: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)], ...],
        Field(max_length=50),
    ] = ()
    urgent: bool = False


class QuietHours(RequestShape):
    """Between these times of day nothing is sent; it leaves when they end."""

    tz: TimeZoneName = "UTC"
    begin: TimeOfDay
    end: TimeOfDay


class NewDestination(RequestShape):
    """``address`` is a URL for slack and webhook, a mail address for email, ``owner/name`` for github_issue.

    ``secret`` signs the body of a webhook and is the token of github_issue; left out it stays as it is.
    """

    kind: DestinationKind
    address: Annotated[str, Field(min_length=1, max_length=1000, pattern=VISIBLE_LINE_PATTERN)]
    secret: Annotated[str, Field(max_length=500, pattern=r"^[\x21-\x7e]*$")] | None = None
    routes: NotificationRoutes = NotificationRoutes()
    quiet: QuietHours | None = None
    digest: Annotated[str, Field(pattern=r"^(daily@([01][0-9]|2[0-3]):[0-5][0-9])?$")] = ""
    tz: TimeZoneName = "UTC"
    enabled: bool = True


class DestinationShape(Shape):
    """``address`` of a slack hook is cut short: whoever knows the whole of it may write there."""

    name: str
    kind: DestinationKind
    address: str
    has_secret: bool
    routes: NotificationRoutes
    quiet: QuietHours | None = None
    digest: str = ""
    tz: str = "UTC"
    enabled: bool


class DestinationPage(Page):
    items: tuple[DestinationShape, ...]


class DeliveryQuery(RequestShape):
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = DEFAULT_PAGE_SIZE


class DeliveryPage(Page):
    items: tuple[DeliveryShape, ...]


class DestinationTestResult(Shape):
    """What became of a message that only tries a destination."""

    sent: bool
    problem: str = ""
