"""How often suites report: learned, and corrected by people."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import Need
from perfci.net.shapes.reporting_schedules import ExpectationPage, ExpectationShape, NewExpectation
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.mute_benchmarks import expect
from perfci.store.incidents.reporting_schedules import Expectation, expectations
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

RULE = "/projects/<project:project>/expectations"


def list_expectations(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_page(tx, call))


def put_expectation(call: Call) -> Reply:
    asked: NewExpectation = call.body
    by = AuditContext(call.actor, call.now, call.request_id)

    def write(tx: Session) -> ExpectationPage:
        if not expect(tx, call.the_project, asked.id, by, every_s=asked.every_s, muted=asked.muted):
            raise Declined("not-found", "There is no expectation of this id here.")
        return _page(tx, call)

    return Reply(call.group.submit(write))


def _page(tx: Session, call: Call) -> ExpectationPage:
    return ExpectationPage(items=tuple(map(_shape, expectations(tx, call.the_project.id))))


def _shape(one: Expectation) -> ExpectationShape:
    return ExpectationShape(
        id=one.id,
        suite=one.source.suite,
        machine=one.machine.label,
        branch=one.source.branch,
        every_s=one.every_s,
        set_by=one.set_by,
        series=one.series,
        last_run_at=one.last_run_at,
        muted=one.muted,
    )


OPERATIONS = (
    Operation(
        "list_expectations", "GET", RULE, Need.READ, list_expectations,
        "How often each suite reports from each machine", answers={200: ExpectationPage}, etag=True,
    ),
    Operation(
        "set_expectation", "PUT", RULE, Need.ADMIN, put_expectation,
        "Say how often one reports, or expect nothing of it", body=NewExpectation, answers={200: ExpectationPage},
    ),
)  # fmt: skip
