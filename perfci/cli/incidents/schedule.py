"""``perfci alerts expect``: how often each suite reports, as it was learned or as somebody says."""

from __future__ import annotations

import re

import click
from pydantic import ValidationError

from perfci.cli.shared.context import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.project_transaction import local_audit_context, read_from_project, write_to_project
from perfci.model import PerfciError
from perfci.net.shapes.reporting_schedules import ReportingScheduleChange
from perfci.service.incidents.mute_benchmarks import set_reporting_schedule
from perfci.store.incidents.reporting_schedules import ReportingSchedule, load_reporting_schedules

SECONDS_PER_UNIT = {"m": 60, "h": 3600, "d": 86400}


@click.group("expect")
@global_options
def command() -> None:
    """Show how often each suite reports from each machine, and correct it."""


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List what is expected to report, with the numbers that `set` takes."""
    found = read_from_project(lambda tx, project: load_reporting_schedules(tx, project.id))
    lines = [
        f"{one.id}  {one.source.suite} on {one.machine.label}, {one.source.branch}: {_describe_schedule(one)}"
        for one in found
    ]
    nothing = "nothing is expected so far: a cadence is learned from four reports"
    write_list(json_file, [_serialize_schedule(one) for one in found], lines, nothing)


@command.command("set")
@click.argument("number", type=click.IntRange(1))
@click.option("--every", metavar="TIME", help="it reports at least this often: 90m, 12h, 7d")
@click.option("--learn", is_flag=True, help="as often as its reports show")
@click.option("--mute", is_flag=True, help="expect nothing of it")
@global_options
def set_command(number: int, every: str | None, learn: bool, mute: bool) -> None:
    """Say how often one reports, that it is to be learned, or that nothing is expected."""
    if [every is not None, learn, mute].count(True) != 1:
        raise PerfciError("Say one of --every TIME, --learn and --mute.")
    every_s = _parse_interval(every) if every else None

    if not write_to_project(
        lambda tx, project: set_reporting_schedule(
            tx, project, number, local_audit_context(), every_s=every_s, muted=mute
        )
    ):
        raise PerfciError(f"Nothing is expected under the number {number}: see `perfci alerts expect list`.")
    click.echo(
        f"{number}: {'nothing is expected' if mute else f'every {every}' if every else 'learned again'}"
    )


def _parse_interval(text: str) -> float:
    given = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    try:
        asked = ReportingScheduleChange(
            id=1, every_s=int(given[1]) * SECONDS_PER_UNIT[given[2]] if given else 0
        )
    except ValidationError:
        raise PerfciError(
            f"--every takes a time from 1m to 366d, such as 90m, 12h or 7d, found {text!r}"
        ) from None
    return asked.every_s or 0.0


def _describe_schedule(schedule: ReportingSchedule) -> str:
    if schedule.muted:
        return "nothing is expected"
    if schedule.every_s is None:
        return "too few reports to know how often"
    who = "" if schedule.set_by == "learned" else f", as {schedule.set_by} said"
    return f"at least every {schedule.every_s / 3600:.3g} hours{who}"


def _serialize_schedule(schedule: ReportingSchedule) -> dict[str, object]:
    """As the API tells it."""
    plain = {
        name: getattr(schedule, name)
        for name in ("id", "every_s", "set_by", "series", "last_run_at", "muted")
    }
    return plain | {
        "suite": schedule.source.suite,
        "machine": schedule.machine.label,
        "branch": schedule.source.branch,
    }
