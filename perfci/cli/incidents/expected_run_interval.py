"""``perfci incidents schedule``: how often each suite reports, learned from its runs or set."""

from __future__ import annotations

import click
from pydantic import ValidationError

from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.options import global_options, json_option, parse_duration
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    run_read_transaction,
    run_write_transaction,
)
from perfci.model import PerfciError
from perfci.net.api_schemas.suite_reporting_schedules import ReportingScheduleChange
from perfci.service.missing_data.edit_suite_reporting_schedule import set_suite_reporting_schedule
from perfci.store.incidents.reporting_schedules_and_run_arrivals import (
    ReportingSchedule,
    load_reporting_schedules,
)


@click.group("schedule")
@global_options
def run_interval_group() -> None:
    """Show and set reporting schedules of suites."""


@run_interval_group.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List reporting schedules, with the numbers that `set` takes."""
    schedules = run_read_transaction(lambda tx, project: load_reporting_schedules(tx, project.id))
    lines = [
        f"{schedule.id}  {schedule.source.suite} on {schedule.machine.label}, {schedule.source.branch}: "
        f"{_describe_schedule(schedule)}"
        for schedule in schedules
    ]
    empty_message = "no schedules yet: one is learned after four reports"
    write_list(json_file, [_serialize_schedule(schedule) for schedule in schedules], lines, empty_message)


@run_interval_group.command("set")
@click.argument("number", type=click.IntRange(1))
@click.option("--every", metavar="TIME", help="expected reporting interval: 90m, 12h, 7d")
@click.option("--learn", is_flag=True, help="learn it from past reports")
@click.option("--mute", is_flag=True, help="do not expect reports")
@global_options
def set_command(number: int, every: str | None, learn: bool, mute: bool) -> None:
    """Set a reporting schedule, learn it again, or stop expecting reports."""
    if [every is not None, learn, mute].count(True) != 1:
        raise PerfciError("Give one of --every TIME, --learn or --mute.")
    every_s = None
    if every:
        try:
            # The limits are those of the API's own shape; its id is not looked at here.
            every_s = ReportingScheduleChange(id=1, every_s=parse_duration(every, "mhd") or 0).every_s
        except ValidationError:
            raise PerfciError(
                f"--every takes a time from 1m to 366d, such as 90m, 12h or 7d, found {every!r}"
            ) from None
    if not run_write_transaction(
        lambda tx, project: set_suite_reporting_schedule(
            tx, project, number, local_user_audit_context(), every_s=every_s, muted=mute
        )
    ):
        raise PerfciError(f"There is no schedule {number}: see `perfci incidents schedule list`.")
    if mute:
        click.echo(f"{number}: muted")
    else:
        click.echo(f"{number}: {f'every {every}' if every else 'learned from reports'}")


def _describe_schedule(schedule: ReportingSchedule) -> str:
    if schedule.muted:
        return "muted"
    if schedule.every_s is None:
        return "too few reports to learn an interval"
    origin = "" if schedule.set_by == "learned" else f" (set by {schedule.set_by})"
    return f"at least every {schedule.every_s / 3600:.3g} hours{origin}"


def _serialize_schedule(schedule: ReportingSchedule) -> dict[str, object]:
    """The fields that the API gives."""
    return {
        "id": schedule.id,
        "every_s": schedule.every_s,
        "set_by": schedule.set_by,
        "series_count": schedule.series,
        "last_run_at": schedule.last_run_at,
        "muted": schedule.muted,
        "suite": schedule.source.suite,
        "machine": schedule.machine.label,
        "branch": schedule.source.branch,
    }
