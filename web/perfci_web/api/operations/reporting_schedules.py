"""How often suites report: learned, and corrected by people."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.shapes.reporting_schedules import (
    ReportingScheduleChange,
    ReportingSchedulePage,
    ReportingScheduleShape,
)
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.mute_benchmarks import set_reporting_schedule
from perfci.store.incidents.reporting_schedules import ReportingSchedule, load_reporting_schedules
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

REPORTING_SCHEDULES_RULE = "/projects/<project:project>/expectations"


def list_reporting_schedules(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_list_page(tx, call))


def put_reporting_schedule(call: Call) -> Reply:
    asked: ReportingScheduleChange = call.body
    by = AuditContext(call.actor, call.now, call.request_id)

    def write(tx: Session) -> ReportingSchedulePage:
        if not set_reporting_schedule(
            tx, call.required_project, asked.id, by, every_s=asked.every_s, muted=asked.muted
        ):
            raise ProblemError("not-found", "There is no expectation of this id here.")
        return _list_page(tx, call)

    return Reply(call.group_commit.submit(write))


def _list_page(tx: Session, call: Call) -> ReportingSchedulePage:
    return ReportingSchedulePage(
        items=tuple(map(_schedule_shape, load_reporting_schedules(tx, call.required_project.id)))
    )


def _schedule_shape(schedule: ReportingSchedule) -> ReportingScheduleShape:
    return ReportingScheduleShape(
        id=schedule.id,
        suite=schedule.source.suite,
        machine=schedule.machine.label,
        branch=schedule.source.branch,
        every_s=schedule.every_s,
        set_by=schedule.set_by,
        series_count=schedule.series,
        last_run_at=schedule.last_run_at,
        muted=schedule.muted,
    )


OPERATIONS = (
    Operation(
        "list_expectations",
        "GET",
        REPORTING_SCHEDULES_RULE,
        AccessRequirement.READ,
        list_reporting_schedules,
        "How often each suite reports from each machine",
        answers={200: ReportingSchedulePage},
        etag=True,
    ),
    Operation(
        "set_expectation",
        "PUT",
        REPORTING_SCHEDULES_RULE,
        AccessRequirement.ADMIN,
        put_reporting_schedule,
        "Say how often one reports, or expect nothing of it",
        body=ReportingScheduleChange,
        answers={200: ReportingSchedulePage},
    ),
)
