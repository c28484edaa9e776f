"""``perfci compare BASE [HEAD]``: interleaved pairs on one machine, and a verdict for every benchmark."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.context import config_for, repository_here, store_to_write, write_json
from perfci.cli.options import bench_option, global_options, json_option, smoke_option, suite_option, wait_option
from perfci.cli.progress import Progress
from perfci.model import PerfciError, Status, VerdictKind
from perfci.report.markdown import comparison_markdown
from perfci.report.text import comparison_text
from perfci.runner.lock import machine_lock
from perfci.service.comparing import Comparison, run_comparison
from perfci.service.opening import open_subject, open_workbench

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@click.command("compare")
@click.argument("base")
@click.argument("head", default="", metavar="[HEAD]")
@suite_option
@bench_option
@smoke_option
@click.option("--budget", default="", metavar="TIME", help="stop buying pairs after this long, e.g. 20m")
@click.option("--strict", is_flag=True, help="whole interval beyond the bar; inconclusive exits with 3")
@wait_option
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="write the report as Markdown")
@json_option
@global_options
def command(
    base: str, head: str, suite: Path | None, bench: str, smoke: bool, budget: str, strict: bool, no_wait: bool,
    markdown: Path | None, json_file: str | None,
) -> int:  # fmt: skip
    """Measure BASE and HEAD (the working tree when absent) in interleaved pairs.

    Exit code 0 no regression, 1 regression (also: the base works and the head fails), 2 usage,
    3 inconclusive or not comparable under --strict, 4 nothing measured.
    """
    budget_s = seconds(budget) if budget else None
    repository = repository_here()
    config = config_for(repository)
    before = repository.commit(repository.resolve(base))
    after = repository.commit(repository.resolve(head)) if head else repository.working_tree()
    progress = Progress()
    with open_workbench(repository, config, suite, smoke=smoke) as workbench:
        subject = open_subject(workbench, list({c.sha: c for c in (before, after)}.values()), bench, progress.say)
        owner = f"perfci compare in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not no_wait, waiting=progress.say),
            closing(store_to_write(config)) as store,
        ):
            found = run_comparison(
                store, workbench, config, subject, before, after, progress, strict=strict, budget_s=budget_s
            )
    report(found, json_file, markdown)
    return exit_code(found, strict=strict)


def report(found: Comparison, json_file: str | None, markdown: Path | None) -> None:
    if json_file:
        write_json(json_file, {"base": found.base, "head": found.head, "verdicts": found.verdicts})
    if markdown:
        markdown.write_text(comparison_markdown(found.verdicts, base=found.base.sha, head=found.head.sha))
    if json_file != "-":
        click.echo(f"base {found.base.short} {found.base.subject}\nhead {found.head.short} {found.head.subject}\n")
        click.echo(comparison_text(found.verdicts))


def exit_code(found: Comparison, *, strict: bool) -> int:
    kinds = {verdict.kind for verdict in found.verdicts}
    if not any(status is Status.OK for status in found.statuses):
        return 4
    if kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return 1
    return 3 if strict and kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE} else 0


def seconds(text: str) -> float:
    """``90s``, ``20m``, ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise PerfciError(f"--budget {text!r}: a number with a unit was expected, such as 90s, 20m or 1h")
    return float(match[1]) * UNITS_S[match[2]]
