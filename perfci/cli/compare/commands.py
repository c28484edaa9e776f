"""``perfci compare``: parse the options and run the kind of comparison that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from perfci.cli.compare.commits import compare_commits
from perfci.cli.compare.options_and_exit_code import ComparisonOptions
from perfci.cli.compare.recorded_files import compare_recorded_files
from perfci.cli.compare.stepwise_ablation import compare_ablation
from perfci.cli.compare.variants import compare_variants
from perfci.cli.shared.options import (
    SuiteChoice,
    bench_option,
    global_options,
    json_option,
    parse_time_budget,
    smoke_option,
    suite_choice_option,
    wait_option,
)
from perfci.model import PerfciError


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
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="A B",
    help="two recorded files or folders; again for further files of both commits",
)
@click.option(
    "--at", default="", metavar="REV", help="the commit whose variants are compared  [default: working tree]"
)
@suite_choice_option
@bench_option
@smoke_option
@click.option(
    "--budget", default="", metavar="TIME", help="stop measuring further pairs after this long, e.g. 20m"
)
@click.option("--strict", is_flag=True, help="whole interval beyond the threshold; inconclusive exits with 3")
@wait_option
@click.option(
    "--markdown", type=click.Path(path_type=Path), metavar="FILE", help="write the report as Markdown"
)
@click.option("--quantiles", is_flag=True, help="show by how much every decile of the samples moved")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="write the measured runs and their verdicts on variants and goals to DIR/runs, for `perfci upload`",
)
@json_option
@global_options
def compare_command(
    base: str,
    head: str,
    axes: tuple[str, ...],
    ablation: str,
    recorded_files: tuple[tuple[Path, Path], ...],
    at: str,
    suite: SuiteChoice,
    bench: str,
    smoke: bool,
    budget: str,
    strict: bool,
    no_wait: bool,
    markdown: Path | None,
    quantiles: bool,
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
    budget_s = parse_time_budget(budget)
    options = ComparisonOptions(
        suite.folder,
        bench,
        smoke,
        budget_s,
        strict,
        no_wait,
        markdown,
        json_file,
        default_only=suite.is_default_suite_only(bench),
        quantiles=quantiles,
    )
    modes = {"BASE": base, "--vary": axes, "--ablation": ablation, "--files": recorded_files}
    require_one_mode(modes, at, results, quantiles=quantiles)
    if recorded_files:
        return compare_recorded_files(recorded_files, options)
    if ablation:
        return compare_ablation(ablation, at, options, results)
    if axes:
        return compare_variants(axes, at, options, results)
    return compare_commits(base, head, options, results)


def require_one_mode(modes: Mapping[str, object], at: str, results: Path | None, *, quantiles: bool) -> None:
    """Reject no or several kinds of comparison, and options that belong to another kind."""
    modes_set = [name for name, value in modes.items() if value]
    if not modes_set:
        raise PerfciError("nothing to compare: give BASE, --vary NAME=A,B, --ablation NAME or --files A B")
    if len(modes_set) > 1:
        raise PerfciError(f"{' and '.join(modes_set)} are different comparisons: give one of them")
    if at and modes_set[0] not in ("--vary", "--ablation"):
        raise PerfciError("--at says whose variants are compared: it belongs to --vary and --ablation")
    if quantiles and modes_set[0] != "BASE":
        raise PerfciError(f"--quantiles is for comparisons of commits: it does not go with {modes_set[0]}")
    if results and modes_set[0] == "--files":
        raise PerfciError("--results is for what is measured: it does not go with --files")
