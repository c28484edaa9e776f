"""``perfci compare BASE [HEAD]``: interleaved pairs on one machine, and a verdict for every benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.compare.ablation import compare_ablation
from perfci.cli.compare.comparison_options import WORSE, ComparisonOptions, comparison_exit_code
from perfci.cli.compare.recorded_files import compare_recorded_files
from perfci.cli.compare.variants import compare_variants
from perfci.cli.shared.context import (
    current_repository,
    load_repository_config,
    lock_machine_and_open_store,
    open_store_to_read,
    write_json,
)
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    parse_budget,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.measure.check_goals import judge_commit_goals, parse_goals, require_known_metrics
from perfci.measure.compare_commits import CommitComparison, run_comparison
from perfci.measure.open_session import create_runner, prepare_session_scope
from perfci.model import Commit, PerfciError, Status
from perfci.policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pooled_text import format_pooled_verdict
from perfci.report.pulls.comparison_findings import IDENTICAL_INPUTS_NOTE, Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_comment
from perfci.report.verdict_table import format_comparison
from perfci.runner.git_repository import GitRepository
from perfci.service.incidents.reconcile_incidents import evaluate_local_project
from perfci.service.pulls.artifact_files import write_runs
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.policy import Policy


@click.command("compare")
@click.argument("base", default="", metavar="[BASE]")
@click.argument("head", default="", metavar="[HEAD]")
@click.option(
    "--vary", "axes", multiple=True, metavar="NAME=A,B", help="variants of one commit, each against A"
)
@click.option(
    "--ablation",
    default="",
    metavar="NAME",
    help="measure each step of an [[ablation]] in perfci.toml on its own",
)
@click.option(
    "--files",
    "recorded_files",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="A B",
    help="two recorded runs",
)
@click.option(
    "--at", default="", metavar="REV", help="the commit whose variants are compared  [default: working tree]"
)
@suite_option
@bench_option
@smoke_option
@click.option(
    "--budget", default="", metavar="TIME", help="stop measuring further pairs after this long, e.g. 20m"
)
@click.option("--strict", is_flag=True, help="whole interval beyond the bar; inconclusive exits with 3")
@wait_option
@click.option(
    "--markdown", type=click.Path(path_type=Path), metavar="FILE", help="write the report as Markdown"
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="write the measured runs to DIR/runs, for `perfci upload`",
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

    BASE and HEAD (the working tree when absent) are measured in interleaved pairs, and so are variants of
    one commit (--vary) or the steps of an ablation (--ablation). Recorded runs (--files) are judged as they
    are. Commits that differ in no file a benchmark reads ([suite] ignored_files) are treated as an A/A run:
    they measure noise and cannot fail.

    Exit code 0 no regression, 1 regression (also: the base works and the head fails, a variant is rejected,
    a goal is broken), 2 usage, 3 inconclusive, undecided or not comparable under --strict, 4 nothing
    measured.
    """
    budget_s = parse_budget(budget)
    options = ComparisonOptions(suite, bench, smoke, budget_s, strict, no_wait, markdown, json_file)
    modes = {"BASE": base, "--vary": axes, "--ablation": ablation, "--files": recorded_files}
    require_one_mode(modes, at, results)
    if recorded_files:
        return compare_recorded_files(*recorded_files, options)
    if ablation:
        return compare_ablation(ablation, at, options)
    if axes:
        return compare_variants(axes, at, options)
    return compare_commits(base, head, options, results)


def require_one_mode(modes: Mapping[str, object], at: str, results: Path | None) -> None:
    """Reject no or several kinds of comparison, and options that belong to another kind."""
    modes_set = [name for name, value in modes.items() if value]
    if not modes_set:
        raise PerfciError("nothing to compare: give BASE, --vary NAME=A,B, --ablation NAME or --files A B")
    if len(modes_set) > 1:
        raise PerfciError(f"{' and '.join(modes_set)} are different comparisons: give one of them")
    if at and modes_set[0] not in ("--vary", "--ablation"):
        raise PerfciError("--at says whose variants are compared: it belongs to --vary and --ablation")
    if results and modes_set[0] != "BASE":
        raise PerfciError(f"--results is for comparisons of commits: it does not go with {modes_set[0]}")


def compare_commits(base: str, head: str, options: ComparisonOptions, results: Path | None) -> int:
    """Compare two commits, and return the exit code."""
    repository = current_repository()
    config = load_repository_config(repository)
    before = repository.read_commit(repository.resolve(base))
    after = repository.read_commit(repository.resolve(head)) if head else repository.snapshot_working_tree()
    findings, comparison = measure_comparison(repository, config, before, after, options)
    write_report(findings, options)
    if results:
        with closing(open_store_to_read(config)) as store:
            write_runs(results, store, comparison.sessions)
    return exit_code(findings, comparison.statuses, strict=options.strict)


def measure_comparison(
    repository: GitRepository, config: Config, before: Commit, after: Commit, options: ComparisonOptions
) -> tuple[Findings, CommitComparison]:
    """Measure and judge two commits: the findings, and the measurements they rest on."""
    goals, policy = parse_goals(config), build_policy(config.settings, strict=options.strict)
    progress = TerminalProgress()
    with create_runner(repository, config, options.suite, smoke=options.smoke) as workbench:
        commits = list({commit.sha: commit for commit in (before, after)}.values())
        subject = prepare_session_scope(workbench, commits, options.bench, progress.report)
        require_known_metrics(goals, subject.discovery, progress.report)
        with lock_machine_and_open_store(
            config, "perfci compare", progress, no_wait=options.no_wait
        ) as store:
            comparison = run_comparison(
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
            goal_verdicts = judge_commit_goals(goals, comparison, store, policy) if goals else []
    return build_findings(comparison, goal_verdicts, policy, options), comparison


def write_report(findings: Findings, options: ComparisonOptions) -> None:
    """Write the findings as JSON, Markdown and text, as far as the options ask for it."""
    if options.json_file:
        names = ("base", "head", "verdicts", "pooled", "goals", "identical_inputs")
        write_json(options.json_file, {name: getattr(findings, name) for name in names})
    if options.markdown:
        options.markdown.write_text(render_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        click.echo(f"base {findings.base.short_sha} {findings.base.subject}")
        click.echo(f"head {findings.head.short_sha} {findings.head.subject}\n")
        pooled = format_pooled_verdict(findings.pooled) if findings.pooled else ""
        note = IDENTICAL_INPUTS_NOTE if findings.identical_inputs else ""
        parts = (format_comparison(findings.verdicts), pooled, format_goals(findings.goals), note)
        click.echo("\n".join(part for part in parts if part))


def build_findings(
    comparison: CommitComparison, goals: Sequence[GoalVerdict], policy: Policy, options: ComparisonOptions
) -> Findings:
    """The comparison as the findings that every report is written from."""
    spent_budget = ""
    if comparison.hit_deadline and options.budget_s is not None:
        spent_budget = f"{options.budget_s / 60:.3g} min"
    return Findings(
        comparison.verdicts,
        comparison.base,
        comparison.head,
        measurement_order="in turns" if comparison.in_turns else "interleaved",
        pooled=comparison.pooled,
        goals=goals,
        environment_changes=comparison.environment,
        spent_budget=spent_budget,
        bars=compute_verdict_bars(comparison.verdicts, policy),
        strict=policy.default.strict,
        smoke=options.smoke,
        identical_inputs=comparison.identical_inputs and comparison.base.sha != comparison.head.sha,
    )


def exit_code(findings: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    """The exit code of a comparison of commits: those with identical inputs cannot fail, their goals can."""
    kinds = {verdict.kind for verdict in findings.verdicts}
    failures = () if findings.identical_inputs else WORSE
    return comparison_exit_code(statuses, kinds, findings.goals, strict=strict, failures=failures)
