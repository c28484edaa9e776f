"""``perfci compare BASE [HEAD]``: interleaved pairs on one machine, and a verdict for every benchmark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.compare.ablation import climb
from perfci.cli.compare.recorded_files import files
from perfci.cli.compare.variants import Asked, vary, with_goals
from perfci.cli.shared.context import config_for, repository_here, store_to_read, store_to_write, write_json
from perfci.cli.shared.options import bench_option, global_options, json_option, smoke_option, suite_option, wait_option
from perfci.cli.shared.terminal_progress import Progress
from perfci.config import Config
from perfci.measure.check_goals import goals_of, goals_of_commits, require_known
from perfci.measure.compare_commits import Comparison, run_comparison
from perfci.measure.open_session import open_subject, open_workbench
from perfci.model import Commit, PerfciError, Status, VerdictKind
from perfci.policies import policy_of
from perfci.report.goal_text import goals_text
from perfci.report.pooled_text import pooled_text
from perfci.report.pulls.comparison_findings import ALIKE, Findings, bars_of
from perfci.report.pulls.pull_comment import comment
from perfci.report.text_tables import comparison_text
from perfci.runner.git_repository import Repository
from perfci.runner.locks import machine_lock
from perfci.service.incidents.local_incidents import look_again
from perfci.service.pulls.results_artifact import hand_over_runs
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.policy import Policy

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@click.command("compare")
@click.argument("base", default="", metavar="[BASE]")
@click.argument("head", default="", metavar="[HEAD]")
@click.option("--vary", "axes", multiple=True, metavar="NAME=A,B", help="variants of one commit, each against A")
@click.option("--ladder", default="", metavar="NAME", help="the steps of a [[ladder]] of perfci.toml, each by itself")
@click.option("--files", "recorded", nargs=2, type=click.Path(path_type=Path), metavar="A B", help="two recorded runs")
@click.option("--at", default="", metavar="REV", help="the commit whose variants are compared  [default: working tree]")
@suite_option
@bench_option
@smoke_option
@click.option("--budget", default="", metavar="TIME", help="stop buying pairs after this long, e.g. 20m")
@click.option("--strict", is_flag=True, help="whole interval beyond the bar; inconclusive exits with 3")
@wait_option
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="write the report as Markdown")
@click.option("--results", type=click.Path(path_type=Path), metavar="DIR",
              help="leave what was measured in DIR/runs, for `perfci upload`")  # fmt: skip
@json_option
@global_options
def command(
    base: str, head: str, axes: tuple[str, ...], ladder: str, recorded: tuple[Path, Path] | None, at: str,
    suite: Path | None, bench: str, smoke: bool, budget: str, strict: bool, no_wait: bool, markdown: Path | None,
    results: Path | None, json_file: str | None,
) -> int:  # fmt: skip
    """Compare two commits, variants of one commit or two recorded runs: a verdict for every benchmark.

    BASE and HEAD (the working tree when absent) are measured in interleaved pairs, and so are variants of one commit
    (--vary) or the steps of a ladder (--ladder). Recorded runs (--files) are judged as they are. Commits that differ in
    no file a benchmark reads ([suite] unseen) are equals: they tell the noise, and no regression of theirs fails.

    Exit code 0 no regression, 1 regression (also: the base works and the head fails, a variant is rejected, a goal is
    broken), 2 usage, 3 inconclusive, undecided or not comparable under --strict, 4 nothing measured.
    """
    budget_s = seconds(budget) if budget else None
    asked = Asked(suite, bench, smoke, budget_s, strict, no_wait, markdown, json_file)
    require_one_kind({"BASE": base, "--vary": axes, "--ladder": ladder, "--files": recorded}, at, results)
    if recorded:
        return files(*recorded, asked)
    if ladder:
        return climb(ladder, at, asked)
    return vary(axes, at, asked) if axes else commits(base, head, asked, results)


def require_one_kind(kinds: Mapping[str, object], at: str, results: Path | None) -> None:
    given = [name for name, value in kinds.items() if value]
    if not given:
        raise PerfciError("nothing to compare: give BASE, --vary NAME=A,B, --ladder NAME or --files A B")
    if len(given) > 1:
        raise PerfciError(f"{' and '.join(given)} are different comparisons: give one of them")
    if at and given[0] not in ("--vary", "--ladder"):
        raise PerfciError("--at says whose variants are compared: it belongs to --vary and --ladder")
    if results and given[0] != "BASE":
        raise PerfciError(f"--results is for comparisons of commits: it does not go with {given[0]}")


def commits(base: str, head: str, asked: Asked, results: Path | None) -> int:
    """Compare two commits."""
    repository = repository_here()
    config = config_for(repository)
    before = repository.commit(repository.resolve(base))
    after = repository.commit(repository.resolve(head)) if head else repository.working_tree()
    found, comparison = measured(repository, config, before, after, asked)
    report(found, asked)
    if results:
        with closing(store_to_read(config)) as store:
            hand_over_runs(results, store, comparison.sessions)
    return exit_code(found, comparison.statuses, strict=asked.strict)


def measured(
    repository: Repository, config: Config, before: Commit, after: Commit, asked: Asked
) -> tuple[Findings, Comparison]:
    """All that a comparison of two commits came to, and what was measured for it."""
    goals, policy = goals_of(config), policy_of(config, strict=asked.strict)
    progress = Progress()
    with open_workbench(repository, config, asked.suite, smoke=asked.smoke) as workbench:
        subject = open_subject(workbench, list({c.sha: c for c in (before, after)}.values()), asked.bench, progress.say)
        require_known(goals, subject.discovery, progress.say)
        owner = f"perfci compare in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not asked.no_wait, waiting=progress.say),
            closing(store_to_write(config)) as store,
        ):
            found = run_comparison(
                store, workbench, config, subject, before, after, progress,
                strict=asked.strict, budget_s=asked.budget_s,
            )  # fmt: skip
            look_again(store, config)
            judged = goals_of_commits(goals, found, store, policy) if goals else []
    return findings(found, judged, policy, asked), found


def report(found: Findings, asked: Asked) -> None:
    if asked.json_file:
        told = {name: getattr(found, name) for name in ("base", "head", "verdicts", "pooled", "goals", "alike")}
        write_json(asked.json_file, told)
    if asked.markdown:
        asked.markdown.write_text(comment(found), encoding="utf-8")
    if asked.json_file != "-":
        click.echo(f"base {found.base.short} {found.base.subject}\nhead {found.head.short} {found.head.subject}\n")
        together = pooled_text(found.pooled) if found.pooled else ""
        alike = ALIKE if found.alike else ""
        parts = (comparison_text(found.verdicts), together, goals_text(found.goals), alike)
        click.echo("\n".join(part for part in parts if part))


def findings(found: Comparison, goals: Sequence[GoalVerdict], policy: Policy, asked: Asked) -> Findings:
    return Findings(
        found.verdicts,
        found.base,
        found.head,
        manner="in turns" if found.in_turns else "interleaved",
        pooled=found.pooled,
        goals=goals,
        environment=found.environment,
        budget=f"{asked.budget_s / 60:.3g} min" if found.late and asked.budget_s is not None else "",
        bars=bars_of(found.verdicts, policy),
        strict=policy.default.strict,
        smoke=asked.smoke,
        alike=found.equals and found.base.sha != found.head.sha,
    )


def exit_code(found: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    """What got worse between commits that look alike fails nothing; their goals hold as ever."""
    return with_goals(_of_verdicts(found, statuses, strict=strict), found.goals, strict=strict)


def _of_verdicts(found: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    kinds = {verdict.kind for verdict in found.verdicts}
    if not any(status is Status.OK for status in statuses):
        return 4
    if not found.alike and kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return 1
    return 3 if strict and kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE} else 0


def seconds(text: str) -> float:
    """``90s``, ``20m``, ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise PerfciError(f"--budget {text!r}: a number with a unit was expected, such as 90s, 20m or 1h")
    return float(match[1]) * UNITS_S[match[2]]
