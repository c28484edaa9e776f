"""Where messages about incidents go, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from perfci.auth.permissions import Need
from perfci.config import Secrets
from perfci.net.shapes.destinations import (
    DeliveryFilter,
    DeliveryPage,
    DestinationKind,
    DestinationPage,
    DestinationShape,
    NewDestination,
    Quiet,
    Routes,
    TestAnswer,
)
from perfci.net.shapes.incidents import DeliveryShape
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.serialize_incidents import delivery_fields
from perfci.service.notify.manage_destinations import drop_destination, keep_destination, note_trial, try_destination
from perfci.service.notify.senders import means_of
from perfci.store.jobs import delivery_queue
from perfci.store.jobs.delivery_queue import Destination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

P = "/projects/<project:project>"
NAMED = f"{P}/destinations/<name:destination>"
NONE = "There is no destination of this name here."


def list_destinations(call: Call) -> Reply:
    with call.store.read() as tx:
        found = delivery_queue.destinations(tx, call.the_project.id)
    return Reply(DestinationPage(items=tuple(_shape(one) for one in found)))


def set_destination(call: Call) -> Reply:
    asked: NewDestination = call.body
    wanted = Destination(
        name=call.path["destination"],
        kind=asked.kind,
        address=asked.address,
        routes=asked.routes.model_dump(mode="json", exclude_defaults=True),
        quiet=_hours(asked),
        digest=asked.digest,
        enabled=asked.enabled,
    )
    new = call.group.submit(lambda tx: keep_destination(tx, call.the_project, wanted, _by(call), secret=asked.secret))
    return Reply(_shape(_named(call)), 201 if new else 200)


def remove_destination(call: Call) -> Reply:
    name = call.path["destination"]
    if not call.group.submit(lambda tx: drop_destination(tx, call.the_project, name, _by(call))):
        raise Declined("not-found", NONE)
    return Reply(None)


def test_destination(call: Call) -> Reply:
    wanted = _named(call)
    if wanted.kind == "email" and call.settings.notify.smtp_user:
        raise Declined("conflict", "Only the process that sends knows the password of the mail server.")
    call.group.submit(lambda tx: note_trial(tx, call.the_project, wanted.name, _by(call)))
    problem = try_destination(call.the_project.slug, wanted, means_of(call.settings, Secrets()), call.now)
    return Reply(TestAnswer(sent=not problem, problem=problem))


def list_deliveries(call: Call) -> Reply:
    with call.store.read() as tx:
        found = delivery_queue.deliveries(tx, call.the_project.id, limit=call.query.limit)
    return Reply(DeliveryPage(items=tuple(DeliveryShape(**delivery_fields(one)) for one in found)))


def _named(call: Call) -> Destination:
    with call.store.read() as tx:
        found = delivery_queue.destination(tx, call.the_project.id, call.path["destination"])
    if found is None:
        raise Declined("not-found", NONE)
    return found


def _by(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _hours(asked: NewDestination) -> dict[str, str]:
    if asked.quiet is None:
        return {"tz": asked.tz}
    return {"tz": asked.quiet.tz, "from": asked.quiet.begin, "to": asked.quiet.end}


def _shape(found: Destination) -> DestinationShape:
    quiet: Mapping[str, Any] = found.quiet
    return DestinationShape(
        name=found.name,
        kind=cast(DestinationKind, found.kind),
        address=_shown(found),
        has_secret=bool(found.secret),
        routes=Routes(**found.routes),
        quiet=Quiet(tz=quiet["tz"], begin=quiet["from"], end=quiet["to"]) if "from" in quiet else None,
        digest=found.digest,
        tz=quiet.get("tz", "UTC"),
        enabled=found.enabled,
    )


def _shown(found: Destination) -> str:
    """The path of a hook is its password: who may read it may write there."""
    if found.kind not in ("slack", "webhook"):
        return found.address
    parts = urlsplit(found.address)
    return f"{parts.scheme}://{parts.netloc}/…"


OPERATIONS = (
    Operation(
        "list_destinations", "GET", f"{P}/destinations", Need.ADMIN, list_destinations, "Where messages go",
        answers={200: DestinationPage},
    ),
    Operation(
        "set_destination", "PUT", NAMED, Need.ADMIN, set_destination, "Add or change a destination",
        body=NewDestination, answers={200: DestinationShape, 201: DestinationShape},
    ),
    Operation(
        "remove_destination", "DELETE", NAMED, Need.ADMIN, remove_destination,
        "Remove a destination and what waits for it", answers={204: None},
    ),
    Operation(
        "test_destination", "POST", f"{NAMED}/test", Need.ADMIN, test_destination,
        "Send a message that only tries the way", answers={200: TestAnswer},
    ),
    Operation(
        "list_deliveries", "GET", f"{P}/deliveries", Need.ADMIN, list_deliveries,
        "What was and will be sent, newest first", query=DeliveryFilter, answers={200: DeliveryPage},
    ),
)  # fmt: skip
