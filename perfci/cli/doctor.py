"""``perfci doctor``: is everything there that measuring needs, and is this machine quiet enough?"""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from perfci.cli.shared.context import current_config, current_repository, write_json
from perfci.cli.shared.options import global_options, json_option, suite_option
from perfci.doctor import CheckLevel, DoctorFinding, DoctorTarget, run_checks
from perfci.doctor.findings import format_count
from perfci.model import PerfciError
from perfci.runner.git_repository import GitRepository

COLOURS = {CheckLevel.OK: "green", CheckLevel.WARNING: "yellow", CheckLevel.PROBLEM: "red"}
TEXT_WIDTH = 120


@click.command("doctor")
@click.option("--quick", is_flag=True, help="leave out the minute of measuring equals")
@suite_option
@json_option
@global_options
def command(quick: bool, suite: Path | None, json_file: str | None) -> int:
    """Examine what measures, the suite and the machine; say what is wrong and what to do about it.

    Exit code 0 no problem (warnings are none), 1 a problem was found, 2 usage.
    """
    if suite is not None and not suite.is_dir():
        raise PerfciError(f"there is no suite folder {suite}; name the folder of the benchmarks with --suite")
    patient = DoctorTarget(current_config(), repository_or_none(), suite, quick)
    found = []
    for finding in run_checks(patient, lambda line: click.echo(line, err=True)):
        found.append(finding)
        if json_file != "-":
            click.echo(format_finding(finding))
    if json_file:
        write_json(json_file, {"findings": found})
    if json_file != "-":
        click.echo("\n" + format_conclusion(found))
    return 1 if any(finding.level is CheckLevel.PROBLEM for finding in found) else 0


def repository_or_none() -> GitRepository | None:
    try:
        return current_repository()
    except PerfciError:
        return None


def format_finding(finding: DoctorFinding) -> str:
    """``warning  load         0.92 tasks ...`` with what to do below it."""
    level = click.style(f"{finding.level.value:<9}", fg=COLOURS[finding.level])
    head = f"{level}{finding.subject:<13}"
    lines = textwrap.wrap(finding.sentence, TEXT_WIDTH - 22, break_long_words=False, break_on_hyphens=False)
    lines += (
        textwrap.wrap(
            f"-> {finding.advice}",
            TEXT_WIDTH - 22,
            subsequent_indent="   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.advice
        else []
    )
    return "\n".join((head if index == 0 else " " * 22) + line for index, line in enumerate(lines))


def format_conclusion(findings: list[DoctorFinding]) -> str:
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(CheckLevel.PROBLEM), levels.count(CheckLevel.WARNING)
    if not problems and not warnings:
        return "everything is as it should be"
    return f"{format_count(problems, 'problem')}, {format_count(warnings, 'warning')}"
