"""``perfci compare --ladder``: the steps of a ladder in perfci.toml, each by its own gain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import click

from perfci.cli.compare.variants import Asked, commit_at, with_goals
from perfci.cli.shared.context import config_for, repository_here, store_to_write, write_json
from perfci.cli.shared.terminal_progress import Progress
from perfci.measure.ablation import Climb, run_ladder
from perfci.measure.ablation_steps import cells_on, ladder_named, steps_of
from perfci.measure.check_goals import goals_of, goals_of_ladder, trades_of_ladder
from perfci.measure.check_goals import require_known as require_goals
from perfci.measure.open_session import open_subject, open_workbench
from perfci.measure.variant_groups import families, require_known
from perfci.model import Status, VerdictKind
from perfci.report.ablation_text import ladder_text, ladders_markdown
from perfci.report.goal_text import goals_markdown, goals_text, trade_sentence
from perfci.runner.locks import machine_lock
from perfci.verdicts.goals.goal_verdict import GoalVerdict


def climb(name: str, at: str, asked: Asked) -> int:
    """Measure the steps of one ladder in the same rounds."""
    repository = repository_here()
    config = config_for(repository)
    goals, table = goals_of(config), ladder_named(config, name)
    steps = steps_of(table)
    commit = commit_at(repository, at)
    progress = Progress()
    with open_workbench(repository, config, asked.suite, smoke=asked.smoke) as workbench:
        subject = open_subject(workbench, [commit], asked.bench, progress.say)
        cells = cells_on(subject, table)
        require_known(cells, steps, f"the ladder {name!r}")
        require_goals(goals, subject.discovery, progress.say)
        owner = f"perfci compare --ladder in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not asked.no_wait, waiting=progress.say),
            closing(store_to_write(config)) as store,
        ):
            found = run_ladder(
                store, workbench, config, subject, commit, table, families(cells, steps), progress,
                goals=goals, budget_s=asked.budget_s,
            )  # fmt: skip
    judged = goals_of_ladder(goals, found)
    report(found, judged, asked)
    return exit_code(found, judged, strict=asked.strict)


def report(found: Climb, goals: Sequence[GoalVerdict], asked: Asked) -> None:
    policy = found.lineup.policy
    if asked.json_file:
        told = {"commit": found.commit, "session": found.session, "ladders": found.ladders}
        write_json(asked.json_file, told | {"numerics": found.numerics, "goals": goals})
    if asked.markdown:
        text = ladders_markdown(found.ladders, policy)
        asked.markdown.write_text("\n".join(part for part in (text, goals_markdown(goals)) if part))
    if asked.json_file != "-":
        click.echo(f"commit {found.commit.short} {found.commit.subject}\n")
        told_already = any(goal.trades for goal in goals)
        paid = [] if told_already else [f"⇄ {trade_sentence(trade)}\n" for trade in trades_of_ladder(found)]
        parts = [*(ladder_text(one, policy) for one in found.ladders), *paid, goals_text(goals)]
        click.echo("\n".join(part for part in parts if part))


def exit_code(found: Climb, goals: Sequence[GoalVerdict], *, strict: bool) -> int:
    """A step may cost what it likes, since it was only asked how much; one that fell is a failure."""
    if not any(status is Status.OK for status in found.statuses):
        return 4
    fell = any(rung.fallen for ladder in found.ladders for rung in ladder.rungs)
    steps = [verdict for ladder in found.ladders for rung in ladder.rungs for verdict in rung.own]
    undecided = any(verdict.kind in (VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE) for verdict in steps)
    return with_goals(1 if fell else 3 if strict and undecided else 0, goals, strict=strict)
