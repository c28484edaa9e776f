"""Projects and runs: what there is, and how a run arrives."""

from __future__ import annotations

from hashlib import sha256

from perfci.auth.permissions import AccessRequirement, can_read
from perfci.config import check_project_name
from perfci.formats.run_document import RunDocument, dump_run, idempotency_key, run_from_document
from perfci.net.shapes.runs import (
    NewProject,
    ProjectPage,
    ProjectShape,
    RunPage,
    RunQuery,
    RunShape,
    UploadReceipt,
)
from perfci.service.accounts.accounts import register_project
from perfci.service.accounts.backends import serialize_project
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import IncomingRun, store_run
from perfci.store.projects import load_projects
from perfci.store.queries import measurements, paged_lists
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

KEY_HEADER = "Idempotency-Key"


def list_projects(call: Call) -> Reply:
    with call.store.read() as tx:
        found = [serialize_project(one) for one in load_projects(tx) if can_read(call.actor, one)]
    return Reply(ProjectPage(items=tuple(found)))


def get_project(call: Call) -> Reply:
    return Reply(serialize_project(call.required_project))


def create_project(call: Call) -> Reply:
    asked: NewProject = call.body
    name = check_project_name(asked.project)
    act = AuditContext(call.actor, call.now, call.request_id)
    made = call.group_commit.submit(lambda tx: register_project(tx, act, name, asked.visibility))
    return Reply(serialize_project(made), 201)


def list_runs(call: Call) -> Reply:
    asked: RunQuery = call.query
    narrowed = paged_lists.RunFilter(asked.commit, asked.suite, asked.session, asked.since, asked.until)
    with call.store.read() as tx:
        found = paged_lists.load_runs_page(
            tx,
            call.required_project.id,
            narrowed,
            before=pagination.parse_cursor(asked.cursor),
            limit=asked.limit + 1,
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.id)
    return Reply(RunPage(items=tuple(map(_run_shape, items)), next=following))


def get_run(call: Call) -> Reply:
    """A run as the document it arrived as, or would have."""
    with call.store.read() as tx:
        row_id = paged_lists.find_run_id(tx, call.required_project.id, call.path["key"])
        if row_id is None:
            raise ProblemError("not-found", "There is no run of this key here.")
        run = measurements.load_run(tx, row_id)
    return Reply(dump_run(run).encode())


def receive_run(call: Call) -> Reply:
    document: RunDocument = call.body
    key = call.headers.get(KEY_HEADER, "")
    if not key:
        raise ProblemError(
            "bad-request", f"The header {KEY_HEADER} is missing: it makes an upload arrive once."
        )
    run = run_from_document(document)
    if key != idempotency_key(run):
        raise ProblemError(
            "conflict", f"The header {KEY_HEADER} is not the key of this run: was its body changed?"
        )
    project = call.require_project(document.project, AccessRequirement.WRITE_RESULTS)
    act = AuditContext(call.actor, call.now, call.request_id)
    receipt = store_run(
        call.group_commit, IncomingRun(run, key, sha256(call.raw_body).hexdigest(), project, act)
    )
    return Reply(receipt, 201 if receipt.stored else 200)


def _run_shape(line: paged_lists.RunListItem) -> RunShape:
    return RunShape(
        key=line.key,
        session=line.session,
        kind=line.kind,
        commit=line.sha,
        dirty=line.dirty,
        machine=line.machine.label,
        suite=line.suite,
        harness=line.harness,
        started_at=line.started_at,
        finished_at=line.finished_at,
    )


OPERATIONS = (
    Operation(
        "list_projects",
        "GET",
        "/projects",
        AccessRequirement.PUBLIC,
        list_projects,
        "The projects you may see, by name",
        answers={200: ProjectPage},
    ),
    Operation(
        "create_project",
        "POST",
        "/projects",
        AccessRequirement.SERVER,
        create_project,
        "Add a project",
        body=NewProject,
        answers={201: ProjectShape},
    ),
    Operation(
        "get_project",
        "GET",
        "/projects/<project:project>",
        AccessRequirement.READ,
        get_project,
        "One project",
        answers={200: ProjectShape},
        etag=True,
    ),
    Operation(
        "list_runs",
        "GET",
        "/projects/<project:project>/runs",
        AccessRequirement.READ,
        list_runs,
        "Runs, newest first",
        query=RunQuery,
        answers={200: RunPage},
        etag=True,
    ),
    Operation(
        "get_run",
        "GET",
        "/projects/<project:project>/runs/<key:key>",
        AccessRequirement.READ,
        get_run,
        "A whole run as a perfci.run/1 document",
        answers={200: RunDocument},
        etag=True,
    ),
    Operation(
        "upload_run",
        "POST",
        "/runs",
        AccessRequirement.WRITE_RESULTS,
        receive_run,
        "Store a run: 201 new, 200 known with the same content, 409 known with another",
        body=RunDocument,
        answers={201: UploadReceipt, 200: UploadReceipt},
        headers={KEY_HEADER: "^[0-9a-f]{64}$"},
    ),
)
