"""Reporting schedules: how often each suite reports, learned or set by hand."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas.suite_reporting_schedules import (
    ReportingScheduleChange,
    ReportingSchedulePage,
    ReportingScheduleShape,
)
from perfci.service.missing_data import edit_suite_reporting_schedule
from perfci.store.incidents.reporting_schedules_and_run_arrivals import (
    ReportingSchedule,
    load_reporting_schedules,
)
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

REPORTING_SCHEDULES_RULE = f"{PROJECT_RULE}/reporting-schedules"


def list_reporting_schedules(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_list_page(tx, call))


def set_reporting_schedule(call: Call) -> Reply:
    request: ReportingScheduleChange = call.body

    def write(tx: Session) -> ReportingSchedulePage:
        if not edit_suite_reporting_schedule.set_suite_reporting_schedule(
            tx,
            call.required_project,
            request.id,
            call.audit_context,
            every_s=request.every_s,
            muted=request.muted,
        ):
            raise ProblemError("not-found", "There is no reporting schedule of this id here.")
        return _list_page(tx, call)

    return Reply(call.group_commit.submit(write))


def _list_page(tx: Session, call: Call) -> ReportingSchedulePage:
    return ReportingSchedulePage(
        items=tuple(map(_build_schedule_payload, load_reporting_schedules(tx, call.required_project.id)))
    )


def _build_schedule_payload(schedule: ReportingSchedule) -> ReportingScheduleShape:
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
        "list_reporting_schedules",
        "GET",
        REPORTING_SCHEDULES_RULE,
        AccessRequirement.READ,
        list_reporting_schedules,
        "How often each suite reports from each machine",
        answers={200: ReportingSchedulePage},
        etag=True,
    ),
    Operation(
        "set_reporting_schedule",
        "PUT",
        REPORTING_SCHEDULES_RULE,
        AccessRequirement.ADMIN,
        set_reporting_schedule,
        "Set how often a suite reports, or expect no reports from it",
        body=ReportingScheduleChange,
        answers={200: ReportingSchedulePage},
    ),
)
