"""Destinations of notifications, and the deliveries to them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from perfci.auth.permissions import AccessRequirement
from perfci.config import Secrets, Settings
from perfci.net.api_schemas.incidents import DeliveryShape
from perfci.net.api_schemas.notification_destinations import (
    DeliveryPage,
    DeliveryQuery,
    DestinationKind,
    DestinationPage,
    DestinationShape,
    DestinationTestResult,
    NewDestination,
    NotificationRoutes,
    QuietHours,
)
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.serialize_incidents import serialize_delivery
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.service.notify.manage_destinations import (
    audit_test_message,
    delete_destination,
    save_destination,
    send_test_message,
)
from perfci.service.notify.senders import build_sender_config
from perfci.store.jobs import notification_destinations, notification_queue
from perfci.store.jobs.notification_destinations import Destination
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

DESTINATION_RULE = f"{PROJECT_RULE}/destinations/<name:destination>"
NO_DESTINATION = "There is no destination of this name here."

test_messages = threading.BoundedSemaphore(2)
"""Test messages of a process at once: each occupies a thread for as long as its receiver likes."""


def list_destinations(call: Call) -> Reply:
    with call.store.read() as tx:
        destinations = [
            decrypt_destination(tx, destination, call.secret_key)
            for destination in notification_destinations.load_destinations(tx, call.required_project.id)
        ]
    return Reply(DestinationPage(items=tuple(map(_build_destination_payload, destinations))))


def set_destination(call: Call) -> Reply:
    request: NewDestination = call.body
    destination = Destination(
        name=call.path["destination"],
        kind=request.kind,
        address=request.address,
        routes=request.routes.model_dump(mode="json", exclude_defaults=True),
        quiet=_quiet_hours(request),
        digest=request.digest,
        enabled=request.enabled,
    )
    is_new = call.group_commit.submit(
        lambda tx: save_destination(
            tx,
            call.required_project,
            destination,
            call.audit_context,
            secret=request.secret,
            secret_key=call.secret_key,
        )
    )
    return Reply(_build_destination_payload(_require_destination(call)), 201 if is_new else 200)


def remove_destination(call: Call) -> Reply:
    name = call.path["destination"]
    if not call.group_commit.submit(
        lambda tx: delete_destination(tx, call.required_project, name, call.audit_context)
    ):
        raise ProblemError("not-found", NO_DESTINATION)
    return Reply(None)


def send_test_notification(call: Call) -> Reply:
    destination = _require_destination(call)
    problem = try_destination(
        call.required_project, destination, call.settings, call.group_commit, call.audit_context
    )
    return Reply(DestinationTestResult(sent=not problem, problem=problem))


def try_destination(
    project: Project,
    destination: Destination,
    settings: Settings,
    group_commit: GroupCommitter,
    context: AuditContext,
) -> str:
    """Send a test message to a decrypted destination; return the error, or an empty text."""
    if destination.kind == "email" and settings.notify.smtp_user:
        raise ProblemError("conflict", "Only the process that sends knows the password of the mail server.")
    if not test_messages.acquire(blocking=False):
        raise ProblemError("unavailable", "Other test messages are being sent: try again in a moment.")
    try:
        group_commit.submit(lambda tx: audit_test_message(tx, project, destination.name, context))
        return send_test_message(
            project.slug, destination, build_sender_config(settings, Secrets()), context.at
        )
    finally:
        test_messages.release()


def list_deliveries(call: Call) -> Reply:
    with call.store.read() as tx:
        deliveries = notification_queue.load_deliveries(tx, call.required_project.id, limit=call.query.limit)
    items = tuple(DeliveryShape(**serialize_delivery(delivery)) for delivery in deliveries)
    return Reply(DeliveryPage(items=items))


def _require_destination(call: Call) -> Destination:
    with call.store.read() as tx:
        destination = notification_destinations.find_destination(
            tx, call.required_project.id, call.path["destination"]
        )
        if destination is None:
            raise ProblemError("not-found", NO_DESTINATION)
        return decrypt_destination(tx, destination, call.secret_key)


def _quiet_hours(new_destination: NewDestination) -> dict[str, str]:
    if new_destination.quiet is None:
        return {"tz": new_destination.tz}
    return {
        "tz": new_destination.quiet.tz,
        "from": new_destination.quiet.begin,
        "to": new_destination.quiet.end,
    }


def _build_destination_payload(destination: Destination) -> DestinationShape:
    quiet: Mapping[str, Any] = destination.quiet
    return DestinationShape(
        name=destination.name,
        kind=cast(DestinationKind, destination.kind),
        address=_masked_address(destination),
        has_secret=bool(destination.secret),
        routes=NotificationRoutes(**destination.routes),
        quiet=QuietHours(tz=quiet["tz"], begin=quiet["from"], end=quiet["to"]) if "from" in quiet else None,
        digest=destination.digest,
        tz=quiet.get("tz", "UTC"),
        enabled=destination.enabled,
    )


def _masked_address(destination: Destination) -> str:
    """Return the address without the path of a hook, which is its password."""
    if destination.kind not in ("slack", "webhook"):
        return destination.address
    parts = urlsplit(destination.address)
    return f"{parts.scheme}://{parts.netloc}/…"


OPERATIONS = (
    Operation(
        "list_destinations",
        "GET",
        f"{PROJECT_RULE}/destinations",
        AccessRequirement.ADMIN,
        list_destinations,
        "Where messages go",
        answers={200: DestinationPage},
    ),
    Operation(
        "set_destination",
        "PUT",
        DESTINATION_RULE,
        AccessRequirement.ADMIN,
        set_destination,
        "Add or change a destination",
        body=NewDestination,
        answers={200: DestinationShape, 201: DestinationShape},
    ),
    Operation(
        "remove_destination",
        "DELETE",
        DESTINATION_RULE,
        AccessRequirement.ADMIN,
        remove_destination,
        "Remove a destination and what waits for it",
        answers={204: None},
    ),
    Operation(
        "test_destination",
        "POST",
        f"{DESTINATION_RULE}/test",
        AccessRequirement.ADMIN,
        send_test_notification,
        "Send a test message",
        answers={200: DestinationTestResult},
    ),
    Operation(
        "list_deliveries",
        "GET",
        f"{PROJECT_RULE}/deliveries",
        AccessRequirement.ADMIN,
        list_deliveries,
        "What was and will be sent, newest first",
        query=DeliveryQuery,
        answers={200: DeliveryPage},
    ),
)
