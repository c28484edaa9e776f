"""From a request to an answer, in the same order for every operation."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_origin

from flask import Request, Response
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from perfci.auth.permissions import Actor, Decision, Denied, Need, decide, decide_before
from perfci.config import Settings, project_name
from perfci.model import PerfciError
from perfci.net.jwks import IssuerKeys
from perfci.net.shapes import Asked
from perfci.net.shapes.problem_details import Fault
from perfci.report.escaping import printable
from perfci.service.accounts.accounts import first_seen
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.projects import Project, project
from perfci.store.writes.group_commit import Group, Unavailable
from perfci_web.api.calls import Call, Reply
from perfci_web.api.etags import etag_of, is_known
from perfci_web.api.operation import Operation
from perfci_web.api.problems import OF_STATUS, Declined, of_faults
from perfci_web.api.rate_limit import Allowance
from perfci_web.api.request_body import Bodies, Raw, parsed

NO_BODY = Raw(b"", 0)


class Writer:
    """The writing thread of this process, started with the first request: one from before a fork is in no worker."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._group: Group | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Group:
        with self._lock:
            if self._group is None:
                self._group = Group(self._store)
            return self._group

    def close(self) -> None:
        """Store what waits; a server calls this when it ends."""
        with self._lock:
            if self._group is not None:
                self._group.close()


class Nothing(Asked):
    """What an operation is asked beside its address, where that is nothing."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What the API serves from."""

    store: Store
    group: Writer
    identify: Callable[[Request], Actor]
    clock: Callable[[], datetime]
    settings: Settings
    keys: IssuerKeys
    bodies: Bodies
    requests: Allowance
    uploads: Allowance


def answer(serving: Serving, operation: Operation, request: Request, path: Mapping[str, Any], name: str) -> Response:
    """Serve one request; whatever stands against it is raised as ``Declined``."""
    actor = _known(serving, request)
    act = AuditContext(actor, serving.clock(), name)
    of_path = _admitted(serving, act, str(path["project"]), operation.need) if operation.of_project else None
    if not operation.of_project:
        _allow(decide_before(actor, operation.need))
    etag = etag_of(of_path, request, actor) if operation.etag and of_path else ""
    if etag and is_known(etag, request):
        return _tagged(Response(status=304), etag)
    query = _query(operation, request)
    headers = {name: request.headers[name] for name in operation.headers if name in request.headers}
    with ExitStack() as held:
        raw = held.enter_context(serving.bodies.reading(request)) if operation.body else NO_BODY
        call = Call(
            store=serving.store,
            group=serving.group(),
            actor=actor,
            project=of_path,
            path=path,
            query=query,
            body=parsed(raw.body, operation.body) if operation.body else None,
            now=act.at,
            request_id=name,
            admit=lambda slug, need: _admitted(serving, act, slug, need, raw.wire, begins=True),
            raw=raw.body,
            headers=headers,
            revision=_revision(request) if operation.revision else 0,
            settings=serving.settings,
            key_of=serving.keys.key,
        )
        return _tagged(_response(_handled(operation, call)), etag)


def _known(serving: Serving, request: Request) -> Actor:
    """Who asks, if he did not ask too much already."""
    address = f"address:{request.remote_addr}"
    try:
        actor = serving.identify(request)
    except Denied as error:
        _spend(serving.requests, address)
        raise Declined(OF_STATUS[error.status], str(error)) from None
    if actor.kind != "local":
        _spend(serving.requests, actor.name or address)
    return actor


def _spend(allowance: Allowance, name: str, amount: float = 1.0) -> None:
    if wait := allowance.wait_s(name, amount):
        raise Declined("rate", f"Too much in one minute: try again in {wait} s.", headers={"Retry-After": str(wait)})


def _admitted(
    serving: Serving, act: AuditContext, slug: str, need: Need, size: int = 0, *, begins: bool = False
) -> Project:
    """The project of this name, where the actor may do this with it; one that a body names begins with that."""
    with serving.store.read() as tx:
        found = project(tx, slug)
    if found is None and begins and need is Need.WRITE_RESULTS and decide(act.actor, None, Need.SERVER).allowed:
        name = project_name(slug)
        found = serving.group().submit(lambda tx: first_seen(tx, act, name))
    _require(act.actor, found, need)
    assert found is not None
    if need is Need.WRITE_RESULTS and act.actor.kind != "local":
        _spend(serving.uploads, slug, size)
    return found


def _require(actor: Actor, found: Project | None, need: Need) -> None:
    _allow(decide(actor, found, need))


def _allow(decision: Decision) -> None:
    if not decision.allowed:
        raise Declined(OF_STATUS[decision.status], decision.reason)


def _query(operation: Operation, request: Request) -> BaseModel:
    shape = operation.query or Nothing
    try:
        return shape.model_validate(_asked(shape, request))
    except ValidationError as error:
        raise of_faults(error, "The query does not fit") from None


def _asked(shape: type[BaseModel], request: Request) -> dict[str, Any]:
    """The query as values: a name that nobody knows is a mistake, and one given twice where one value is expected."""
    if unknown := [name for name in request.args if name not in shape.model_fields]:
        taken = ", ".join(shape.model_fields) or "nothing"
        told = Fault(place=printable(unknown[0], 60), message=f"is no name here, this takes {taken}")
        raise Declined("bad-request", f"The query does not fit: {told.place} {told.message}.", errors=[told])
    several = {field for field, about in shape.model_fields.items() if get_origin(about.annotation) in (tuple, list)}
    asked: dict[str, Any] = {}
    for name, given in request.args.lists():
        if name not in several and len(given) > 1:
            raise Declined("bad-request", "The query does not fit: a name is given twice.")
        asked[name] = given if name in several else given[0]
    return asked


def _revision(request: Request) -> int:
    given = request.headers.get("If-Match", "")
    if not given:
        raise Declined("revision-missing", 'The header If-Match: "<revision>" is missing: send the one you saw.')
    text = given.strip('"')
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise Declined("bad-request", 'The header If-Match was expected to be a revision such as "3".')
    return int(text)


def _handled(operation: Operation, call: Call) -> Reply:
    try:
        return operation.handler(call)
    except Unavailable as error:
        wait = {"Retry-After": str(math.ceil(error.retry_after))}
        raise Declined("unavailable", _told(call, error), headers=wait) from error
    except Denied as error:
        raise Declined(OF_STATUS[error.status], str(error)) from error
    except PerfciError as error:
        of_database = isinstance(error.__cause__, SQLAlchemyError)  # gone or busy for a moment: nobody's mistake
        raise Declined("unavailable" if of_database else "conflict", _told(call, error)) from error


def _told(call: Call, error: PerfciError) -> str:
    """A database's address may hold a password, and is no client's business anyway."""
    return str(error).replace(call.store.url, "of this server").replace(call.store.shown, "of this server")


def _response(reply: Reply) -> Response:
    if reply.value is None:
        return Response(status=204 if reply.status == 200 else reply.status, headers=dict(reply.headers))
    if isinstance(reply.value, BaseModel):
        body: Any = reply.value.model_dump_json(exclude_none=True)
    else:
        body = reply.value
    streams = not isinstance(body, str | bytes)
    return Response(
        body, reply.status, headers=dict(reply.headers), content_type=reply.content_type, direct_passthrough=streams
    )


def _tagged(response: Response, etag: str) -> Response:
    """Answers belong to whoever asked; an ETag lets him ask again for nothing."""
    if etag and response.status_code in (200, 304):
        response.set_etag(etag, weak=True)
        response.headers.setdefault("Cache-Control", "private, no-cache")
    else:
        response.headers.setdefault("Cache-Control", "no-store")
    response.vary.update(("Authorization", "Cookie"))
    return response
