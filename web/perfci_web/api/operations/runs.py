"""Runs: listed, read and uploaded."""

from __future__ import annotations

from hashlib import sha256

from perfci.auth.permissions import AccessRequirement
from perfci.formats.run_document import dump_run, idempotency_key, run_from_document
from perfci.formats.run_document_schema import RunDocument
from perfci.net.api_schemas.runs import RunPage, RunQuery, RunShape, UploadReceipt
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.uploads.series_quota import SeriesQuota
from perfci.store.queries import measured_samples, paged_lists
from perfci.store.queries.runs_and_sessions import find_project_run_id
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

KEY_HEADER = "Idempotency-Key"


def list_runs(call: Call) -> Reply:
    query: RunQuery = call.query
    run_filter = paged_lists.RunFilter(query.commit, query.suite, query.session, query.since, query.until)
    with call.store.read() as tx:
        runs = paged_lists.load_runs_page(
            tx,
            call.required_project.id,
            run_filter,
            before=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(RunPage, runs, query.limit, lambda run: run.id, _build_run_payload)


def get_run(call: Call) -> Reply:
    """Return a run as a run document, as an upload of it would look."""
    with call.store.read() as tx:
        row_id = find_project_run_id(tx, call.required_project.id, call.path["key"])
        if row_id is None:
            raise ProblemError("not-found", "There is no run of this key here.")
        run = measured_samples.load_run(tx, row_id)
    return Reply(dump_run(run).encode())


def upload_run(call: Call) -> Reply:
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
    grant, limits = call.audit_context.actor.grant, call.settings.server
    pull_request = f"#{grant.pull_request}" if grant and grant.pull_request else ""
    quota = SeriesQuota(
        limits.new_series_per_day,
        limits.new_series_per_pull_request,
        pull_request or "of run " + dict(run.origin).get("run_id", "unknown"),
    )
    body_hash = sha256(call.raw_body).hexdigest()
    incoming = IncomingRun(run, key, body_hash, project, call.audit_context, quota)
    receipt = call.group_commit.submit_batch_item(store_uploaded_runs, incoming)
    return Reply(receipt, 201 if receipt.stored else 200)


def _build_run_payload(item: paged_lists.RunListItem) -> RunShape:
    return RunShape(
        key=item.key,
        session=item.session,
        kind=item.kind,
        commit=item.sha,
        dirty=item.dirty,
        machine=item.machine.label,
        suite=item.suite,
        harness=item.harness,
        started_at=item.started_at,
        finished_at=item.finished_at,
    )


OPERATIONS = (
    Operation(
        "list_runs",
        "GET",
        f"{PROJECT_RULE}/runs",
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
        f"{PROJECT_RULE}/runs/<key:key>",
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
        upload_run,
        "Store a run: 201 new, 200 known with the same content, 409 known with another",
        body=RunDocument,
        answers={201: UploadReceipt, 200: UploadReceipt},
        headers={KEY_HEADER: "^[0-9a-f]{64}$"},
    ),
)
