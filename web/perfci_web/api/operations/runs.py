"""Projects and runs: what there is, and how a run arrives."""

from __future__ import annotations

from hashlib import sha256

from perfci.auth.permissions import Need, may_see
from perfci.config import project_name
from perfci.formats.run_document import RunDocument, idempotency_key, run_of, write
from perfci.net.shapes.runs import NewProject, ProjectPage, ProjectShape, Receipt, RunFilter, RunPage, RunShape
from perfci.service.accounts.accounts import new_project
from perfci.service.accounts.backends import project_shape
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import Arrival, receive
from perfci.store.projects import projects
from perfci.store.queries import measurements, paged_lists
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

KEY_HEADER = "Idempotency-Key"


def list_projects(call: Call) -> Reply:
    with call.store.read() as tx:
        found = [project_shape(one) for one in projects(tx) if may_see(call.actor, one)]
    return Reply(ProjectPage(items=tuple(found)))


def get_project(call: Call) -> Reply:
    return Reply(project_shape(call.the_project))


def create(call: Call) -> Reply:
    asked: NewProject = call.body
    name = project_name(asked.project)
    act = AuditContext(call.actor, call.now, call.request_id)
    made = call.group.submit(lambda tx: new_project(tx, act, name, asked.visibility))
    return Reply(project_shape(made), 201)


def list_runs(call: Call) -> Reply:
    asked: RunFilter = call.query
    narrowed = paged_lists.RunFilter(asked.commit, asked.suite, asked.session, asked.since, asked.until)
    with call.store.read() as tx:
        found = paged_lists.runs_page(
            tx, call.the_project.id, narrowed, before=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.page(found, asked.limit, lambda one: one.id)
    return Reply(RunPage(items=tuple(map(_run_shape, items)), next=following))


def get_run(call: Call) -> Reply:
    """A run as the document it arrived as, or would have."""
    with call.store.read() as tx:
        row_id = paged_lists.run_id_of(tx, call.the_project.id, call.path["key"])
        if row_id is None:
            raise Declined("not-found", "There is no run of this key here.")
        run = measurements.load_run(tx, row_id)
    return Reply(write(run).encode())


def receive_run(call: Call) -> Reply:
    document: RunDocument = call.body
    key = call.headers.get(KEY_HEADER, "")
    if not key:
        raise Declined("bad-request", f"The header {KEY_HEADER} is missing: it makes an upload arrive once.")
    run = run_of(document)
    if key != idempotency_key(run):
        raise Declined("conflict", f"The header {KEY_HEADER} is not the key of this run: was its body changed?")
    project = call.admit(document.project, Need.WRITE_RESULTS)
    act = AuditContext(call.actor, call.now, call.request_id)
    receipt = receive(call.group, Arrival(run, key, sha256(call.raw).hexdigest(), project, act))
    return Reply(receipt, 201 if receipt.stored else 200)


def _run_shape(line: paged_lists.RunLine) -> RunShape:
    return RunShape(
        key=line.key, session=line.session, kind=line.kind, commit=line.sha, dirty=line.dirty,
        machine=line.machine.label, suite=line.suite, harness=line.harness,
        started_at=line.started_at, finished_at=line.finished_at,
    )  # fmt: skip


OPERATIONS = (
    Operation(
        "list_projects", "GET", "/projects", Need.PUBLIC, list_projects, "The projects you may see, by name",
        answers={200: ProjectPage},
    ),
    Operation(
        "create_project", "POST", "/projects", Need.SERVER, create, "Add a project",
        body=NewProject, answers={201: ProjectShape},
    ),
    Operation(
        "get_project", "GET", "/projects/<project:project>", Need.READ, get_project, "One project",
        answers={200: ProjectShape}, etag=True,
    ),
    Operation(
        "list_runs", "GET", "/projects/<project:project>/runs", Need.READ, list_runs, "Runs, newest first",
        query=RunFilter, answers={200: RunPage}, etag=True,
    ),
    Operation(
        "get_run", "GET", "/projects/<project:project>/runs/<key:key>", Need.READ, get_run,
        "A whole run as a perfci.run/1 document", answers={200: RunDocument}, etag=True,
    ),
    Operation(
        "upload_run", "POST", "/runs", Need.WRITE_RESULTS, receive_run,
        "Store a run: 201 new, 200 known with the same content, 409 known with another",
        body=RunDocument, answers={201: Receipt, 200: Receipt}, headers={KEY_HEADER: "^[0-9a-f]{64}$"},
    ),
)  # fmt: skip
