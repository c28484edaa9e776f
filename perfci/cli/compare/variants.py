"""``perfci compare --vary``: variants of one commit, each against the first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from perfci.cli.shared.context import config_for, repository_here, store_to_write, write_json
from perfci.cli.shared.terminal_progress import Progress
from perfci.measure.check_goals import goals_of, goals_of_variants, trades_of
from perfci.measure.check_goals import require_known as require_goals
from perfci.measure.compare_variants import VariantComparison, run_variants
from perfci.measure.open_session import open_subject, open_workbench
from perfci.measure.variant_groups import Axis, assignments_of, families, require_known
from perfci.model import Commit, Status, VerdictKind
from perfci.report.goal_text import goals_text
from perfci.report.pulls.comparison_findings import Findings, bars_of
from perfci.report.pulls.pull_comment import comment
from perfci.report.variant_text import variants_text
from perfci.runner.git_repository import Repository
from perfci.runner.locks import machine_lock
from perfci.verdicts.goals.goal_verdict import GoalVerdict, Outcome


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that every kind of comparison takes."""

    suite: Path | None
    bench: str
    smoke: bool
    budget_s: float | None
    strict: bool
    no_wait: bool
    markdown: Path | None
    json_file: str | None


def vary(texts: tuple[str, ...], at: str, asked: Asked) -> int:
    """Compare the variants that ``--vary`` names."""
    axes = [Axis.of(text) for text in texts]
    assignments = assignments_of(axes)
    repository = repository_here()
    config = config_for(repository)
    goals = goals_of(config)
    commit = commit_at(repository, at)
    progress = Progress()
    with open_workbench(repository, config, asked.suite, smoke=asked.smoke) as workbench:
        subject = open_subject(workbench, [commit], asked.bench, progress.say)
        require_known(subject.cells, assignments, f"--vary {' '.join(texts)}")
        require_goals(goals, subject.discovery, progress.say)
        groups = families(subject.cells, assignments)
        owner = f"perfci compare --vary in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not asked.no_wait, waiting=progress.say),
            closing(store_to_write(config)) as store,
        ):
            found = run_variants(
                store, workbench, config, subject, commit, groups, progress,
                goals=goals, strict=asked.strict, budget_s=asked.budget_s,
            )  # fmt: skip
    judged = goals_of_variants(goals, found, assignments)
    report(found, judged, texts, asked)
    return exit_code(found, judged, strict=asked.strict)


def commit_at(repository: Repository, revision: str) -> Commit:
    return repository.commit(repository.resolve(revision)) if revision else repository.working_tree()


def report(found: VariantComparison, goals: list[GoalVerdict], texts: tuple[str, ...], asked: Asked) -> None:
    if asked.json_file:
        told = {"commit": found.commit, "session": found.session, "verdicts": found.variants.contrasts}
        told |= {"rejected": found.variants.rejections, "numerics": found.variants.numerics, "goals": goals}
        write_json(asked.json_file, told)
    if asked.markdown:
        asked.markdown.write_text(comment(findings(found, goals, texts, smoke=asked.smoke)), encoding="utf-8")
    if asked.json_file != "-":
        click.echo(f"commit {found.commit.short} {found.commit.subject}\nvary {'  '.join(texts)}\n")
        told_already = any(goal.trades for goal in goals)
        text = variants_text(found.variants, () if told_already else trades_of(found))
        click.echo("\n".join(part for part in (text, goals_text(goals)) if part))


def findings(found: VariantComparison, goals: list[GoalVerdict], texts: tuple[str, ...], *, smoke: bool) -> Findings:
    told, policy = [contrast.told for contrast in found.variants.contrasts], found.lineup.policy
    return Findings(
        told,
        found.commit,
        found.commit,
        sides=f"{found.commit.short}: {' '.join(texts)}",
        manner="interleaved",
        goals=goals,
        rejected=found.variants.rejections,
        bars=bars_of(told, policy),
        strict=policy.default.strict,
        smoke=smoke,
        command=_command(found.commit, texts),
    )


def _command(commit: Commit, texts: tuple[str, ...]) -> list[str]:
    axes = [word for text in texts for word in ("--vary", text)]
    return ["perfci", "compare", *axes, *([] if commit.dirty else ["--at", commit.short])]


def exit_code(found: VariantComparison, goals: list[GoalVerdict], *, strict: bool) -> int:
    if not any(status is Status.OK for status in found.statuses):
        return 4
    kinds = {contrast.verdict.kind for contrast in found.variants.contrasts}
    worse = bool(found.variants.rejections) or bool(kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED})
    undecided = bool(kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE})
    return with_goals(1 if worse else 3 if strict and undecided else 0, goals, strict=strict)


def with_goals(code: int, goals: Sequence[GoalVerdict], *, strict: bool) -> int:
    """The exit code of a comparison that goals were judged on: a broken one counts like a regression."""
    outcomes = {goal.outcome for goal in goals}
    if code in (1, 4):
        return code
    if outcomes & {Outcome.BROKEN, Outcome.REJECTED}:
        return 1
    return 3 if strict and Outcome.UNDECIDED in outcomes else code
