"""``perfci doctor``: check the setup, the suite and the machine's noise."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option, suite_option
from perfci.cli.shared.repository_and_config import current_config, current_repository
from perfci.doctor import CheckLevel, DoctorFinding, DoctorTarget, run_checks
from perfci.model import PerfciError
from perfci.number_format import format_count
from perfci.runner.git_repository import GitRepository

COLOURS = {CheckLevel.OK: "green", CheckLevel.WARNING: "yellow", CheckLevel.PROBLEM: "red"}
TEXT_WIDTH = 120
"""Columns of the output."""

INDENT = 22
"""Columns of level and subject."""


@click.command("doctor")
@click.option("--quick", is_flag=True, help="skip the one-minute A/A measurement")
@suite_option
@json_option
@global_options
def doctor_command(quick: bool, suite: Path | None, json_file: str | None) -> int:
    """Check the tools, the suite and the machine, with advice for every finding.

    Exit code 0 no problem (warnings allowed), 1 a problem was found, 2 usage.
    """
    if suite is not None and not suite.is_dir():
        raise PerfciError(f"there is no suite folder {suite}; name the folder of the benchmarks with --suite")
    target = DoctorTarget(current_config(), current_repository_or_none(), suite, quick)
    findings = []
    for finding in run_checks(target, lambda line: click.echo(line, err=True)):
        findings.append(finding)
        if json_file != "-":
            click.echo(format_doctor_finding(finding))
    if json_file:
        write_json(json_file, {"findings": findings})
    if json_file != "-":
        click.echo("\n" + format_problem_counts(findings))
    return 1 if any(finding.level is CheckLevel.PROBLEM for finding in findings) else 0


def current_repository_or_none() -> GitRepository | None:
    """The git repository of this folder; None outside of one."""
    try:
        return current_repository()
    except PerfciError:
        return None


def format_doctor_finding(finding: DoctorFinding) -> str:
    """``warning  load         0.92 tasks ...``, wrapped, with the advice below it."""
    level = click.style(f"{finding.level.value:<9}", fg=COLOURS[finding.level])
    lines = _wrap(finding.sentence)
    if finding.advice:
        lines += _wrap(f"-> {finding.advice}", subsequent_indent="   ")
    head = f"{level}{finding.subject:<13}"
    return "\n".join((head if index == 0 else " " * INDENT) + line for index, line in enumerate(lines))


def _wrap(text: str, subsequent_indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        TEXT_WIDTH - INDENT,
        subsequent_indent=subsequent_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_problem_counts(findings: list[DoctorFinding]) -> str:
    """The number of problems and warnings."""
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(CheckLevel.PROBLEM), levels.count(CheckLevel.WARNING)
    if not problems and not warnings:
        return "no problems found"
    return f"{format_count(problems, 'problem')}, {format_count(warnings, 'warning')}"
