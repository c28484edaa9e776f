"""``perfci compare BASE [HEAD]``: interleaved pairs on one machine, and a verdict for every benchmark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.compare.ablation import compare_ablation
from perfci.cli.compare.recorded_files import compare_recorded_files
from perfci.cli.compare.variants import ComparisonOptions, compare_variants, exit_code_with_goals
from perfci.cli.shared.context import (
    current_repository,
    load_repository_config,
    open_store_to_read,
    open_store_to_write,
    write_json,
)
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.measure.check_goals import judge_commit_goals, parse_goals, require_known_metrics
from perfci.measure.compare_commits import CommitComparison, run_comparison
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.model import Commit, PerfciError, Status, VerdictKind
from perfci.policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pooled_text import format_pooled
from perfci.report.pulls.comparison_findings import IDENTICAL_INPUTS_NOTE, Findings, compute_bars
from perfci.report.pulls.pull_comment import render_comment
from perfci.report.text_tables import format_comparison
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import machine_lock
from perfci.service.incidents.local_incidents import evaluate_local_project
from perfci.service.pulls.results_artifact import write_runs
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.policy import Policy

SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0}


@click.command("compare")
@click.argument("base", default="", metavar="[BASE]")
@click.argument("head", default="", metavar="[HEAD]")
@click.option(
    "--vary", "axes", multiple=True, metavar="NAME=A,B", help="variants of one commit, each against A"
)
@click.option(
    "--ladder", default="", metavar="NAME", help="the steps of a [[ladder]] of perfci.toml, each by itself"
)
@click.option(
    "--files", "recorded", nargs=2, type=click.Path(path_type=Path), metavar="A B", help="two recorded runs"
)
@click.option(
    "--at", default="", metavar="REV", help="the commit whose variants are compared  [default: working tree]"
)
@suite_option
@bench_option
@smoke_option
@click.option("--budget", default="", metavar="TIME", help="stop buying pairs after this long, e.g. 20m")
@click.option("--strict", is_flag=True, help="whole interval beyond the bar; inconclusive exits with 3")
@wait_option
@click.option(
    "--markdown", type=click.Path(path_type=Path), metavar="FILE", help="write the report as Markdown"
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="leave what was measured in DIR/runs, for `perfci upload`",
)
@json_option
@global_options
def command(
    base: str,
    head: str,
    axes: tuple[str, ...],
    ablation: str,
    recorded_files: tuple[Path, Path] | None,
    at: str,
    suite: Path | None,
    bench: str,
    smoke: bool,
    budget: str,
    strict: bool,
    no_wait: bool,
    markdown: Path | None,
    results: Path | None,
    json_file: str | None,
) -> int:
    """Compare two commits, variants of one commit or two recorded runs: a verdict for every benchmark.

    BASE and HEAD (the working tree when absent) are measured in interleaved pairs, and so are variants of one commit
    (--vary) or the steps of a ladder (--ladder). Recorded runs (--files) are judged as they are. Commits that differ in
    no file a benchmark reads ([suite] unseen) are equals: they tell the noise, and no regression of theirs fails.

    Exit code 0 no regression, 1 regression (also: the base works and the head fails, a variant is rejected, a goal is
    broken), 2 usage, 3 inconclusive, undecided or not comparable under --strict, 4 nothing measured.
    """
    budget_s = parse_duration(budget) if budget else None
    asked = ComparisonOptions(suite, bench, smoke, budget_s, strict, no_wait, markdown, json_file)
    require_one_mode(
        {"BASE": base, "--vary": axes, "--ladder": ablation, "--files": recorded_files}, at, results
    )
    if recorded_files:
        return compare_recorded_files(*recorded_files, asked)
    if ablation:
        return compare_ablation(ablation, at, asked)
    return compare_variants(axes, at, asked) if axes else compare_commits(base, head, asked, results)


def require_one_mode(modes: Mapping[str, object], at: str, results: Path | None) -> None:
    given = [name for name, value in modes.items() if value]
    if not given:
        raise PerfciError("nothing to compare: give BASE, --vary NAME=A,B, --ladder NAME or --files A B")
    if len(given) > 1:
        raise PerfciError(f"{' and '.join(given)} are different comparisons: give one of them")
    if at and given[0] not in ("--vary", "--ladder"):
        raise PerfciError("--at says whose variants are compared: it belongs to --vary and --ladder")
    if results and given[0] != "BASE":
        raise PerfciError(f"--results is for comparisons of commits: it does not go with {given[0]}")


def compare_commits(base: str, head: str, options: ComparisonOptions, results: Path | None) -> int:
    """Compare two commits."""
    repository = current_repository()
    config = load_repository_config(repository)
    before = repository.commit(repository.resolve(base))
    after = repository.commit(repository.resolve(head)) if head else repository.working_tree_commit()
    found, comparison = measure_comparison(repository, config, before, after, options)
    write_report(found, options)
    if results:
        with closing(open_store_to_read(config)) as store:
            write_runs(results, store, comparison.sessions)
    return exit_code(found, comparison.statuses, strict=options.strict)


def measure_comparison(
    repository: GitRepository, config: Config, before: Commit, after: Commit, options: ComparisonOptions
) -> tuple[Findings, CommitComparison]:
    """All that a comparison of two commits came to, and what was measured for it."""
    goals, policy = parse_goals(config), build_policy(config, strict=options.strict)
    progress = TerminalProgress()
    with open_workbench(repository, config, options.suite, smoke=options.smoke) as workbench:
        subject = prepare_scope(
            workbench, list({c.sha: c for c in (before, after)}.values()), options.bench, progress.report
        )
        require_known_metrics(goals, subject.discovery, progress.report)
        owner = f"perfci compare in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not options.no_wait, on_wait=progress.report),
            closing(open_store_to_write(config)) as store,
        ):
            found = run_comparison(
                store,
                workbench,
                config,
                subject,
                before,
                after,
                progress,
                strict=options.strict,
                budget_s=options.budget_s,
            )
            evaluate_local_project(store, config)
            judged = judge_commit_goals(goals, found, store, policy) if goals else []
    return build_findings(found, judged, policy, options), found


def write_report(findings: Findings, options: ComparisonOptions) -> None:
    if options.json_file:
        told = {
            name: getattr(findings, name) for name in ("base", "head", "verdicts", "pooled", "goals", "alike")
        }
        write_json(options.json_file, told)
    if options.markdown:
        options.markdown.write_text(render_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        click.echo(
            f"base {findings.base.short_sha} {findings.base.subject}\nhead {findings.head.short_sha} {findings.head.subject}\n"
        )
        together = format_pooled(findings.pooled) if findings.pooled else ""
        alike = IDENTICAL_INPUTS_NOTE if findings.identical_inputs else ""
        parts = (format_comparison(findings.verdicts), together, format_goals(findings.goals), alike)
        click.echo("\n".join(part for part in parts if part))


def build_findings(
    comparison: CommitComparison, goals: Sequence[GoalVerdict], policy: Policy, options: ComparisonOptions
) -> Findings:
    return Findings(
        comparison.verdicts,
        comparison.base,
        comparison.head,
        measurement_order="in turns" if comparison.in_turns else "interleaved",
        pooled=comparison.pooled,
        goals=goals,
        environment_changes=comparison.environment,
        spent_budget=f"{options.budget_s / 60:.3g} min"
        if comparison.hit_deadline and options.budget_s is not None
        else "",
        bars=compute_bars(comparison.verdicts, policy),
        strict=policy.default.strict,
        smoke=options.smoke,
        identical_inputs=comparison.identical_inputs and comparison.base.sha != comparison.head.sha,
    )


def exit_code(findings: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    """What got worse between commits that look alike fails nothing; their goals hold as ever."""
    return exit_code_with_goals(
        _verdicts_exit_code(findings, statuses, strict=strict), findings.goals, strict=strict
    )


def _verdicts_exit_code(findings: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    kinds = {verdict.kind for verdict in findings.verdicts}
    if not any(status is Status.OK for status in statuses):
        return 4
    if not findings.identical_inputs and kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return 1
    return 3 if strict and kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE} else 0


def parse_duration(text: str) -> float:
    """``90s``, ``20m``, ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise PerfciError(f"--budget {text!r}: a number with a unit was expected, such as 90s, 20m or 1h")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]
