"""``perfci explain INCIDENT | BASE HEAD``: what a slower commit does that its base did not."""

from __future__ import annotations

import math
import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from perfci.cli.incidents.incident_listing import find_stored_incident
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.repository_and_config import (
    current_config,
    current_repository,
    load_repository_config,
)
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store, open_store_to_write
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.profiles.explain_cell import ExplainQuestion, explain_by_profiling, explain_from_store
from perfci.measure.profiles.profile_cells_to_files import profile_folder_name
from perfci.model import PerfciError
from perfci.number_format import format_count
from perfci.report.commits.explanation_text import (
    format_explanation,
    format_explanation_tables,
    serialize_explanation,
)
from perfci.report.escaping import make_printable
from perfci.runner.git_repository import GitRepository
from perfci.store.explanations import list_profiled_cells
from perfci.store.projects import find_project
from perfci.verdicts.explain.explanation import Conclusion, Explanation

EXPLAINED, NOT_EXPLAINED = 0, 1

TIME_UNITS = ("seconds",)
"""Units of metrics whose change is one of the time of a call; of a rate it is the reverse."""


@click.command("explain")
@click.argument("what", nargs=-1, required=True, metavar="INCIDENT | BASE HEAD")
@bench_option
@click.option(
    "--stored", is_flag=True, help="measure nothing: only what profiles and counts in the store say"
)
@suite_option
@smoke_option
@wait_option
@json_option
@global_options
def explain_command(
    what: tuple[str, ...],
    bench: str,
    stored: bool,
    suite: Path | None,
    smoke: bool,
    no_wait: bool,
    json_file: str | None,
) -> int:
    """Explain why a benchmark got slower: by an INCIDENT's number, or from BASE to HEAD with --bench.

    Two processes of each commit are profiled, after each other, and compared: phases, operators, source
    lines. They are never judged. Profiles and what they say are stored; profiles of the same commit are
    taken from there. Exit code 0 it is explained, at least in part, 1 it is not, 2 usage.
    """
    question = read_question(what, bench)
    if stored:
        question = explain_stored_cell(question, bench)
        with closing(open_store_to_write(current_config())) as store:
            explanation = explain_from_store(store, current_config().project, question, at=datetime.now(UTC))
    else:
        question, explanation = measure_explanation(question, bench, suite, smoke=smoke, no_wait=no_wait)
    if json_file:
        fields = {
            "base": question.base,
            "head": question.head,
            "benchmark": question.cell,
            "metric": question.metric,
        }
        write_json(json_file, fields | serialize_explanation(explanation))
    if json_file != "-":
        click.echo(format_answer(question, explanation))
    return explain_exit_code(explanation)


def read_question(what: tuple[str, ...], bench: str) -> ExplainQuestion:
    """The commits and, of an incident, the cell and metric that moved most in it."""
    if len(what) == 2:
        base, head = what
        return ExplainQuestion(base, head, "")
    if len(what) > 2:
        raise PerfciError(
            f"perfci explain takes the number of an incident, or BASE and HEAD; {len(what)} words were given"
        )
    incident = find_stored_incident(what[0])
    if incident is None:
        raise PerfciError(
            f"There is no incident {what[0]}; `perfci incidents list` has their numbers, and two commits are "
            "compared by `perfci explain BASE HEAD`."
        )
    members = [row for row in incident[1].members if row[0].dropped_at is None]
    members = [row for row in members if re.search(bench, row[1].cell)] if bench else members
    if not members:
        raise PerfciError(f"Incident {what[0]} has no series to explain.")
    # Of several metrics a time is what profiles show.
    timed = [row for row in members if row[1].metric.unit in TIME_UNITS] or members
    member, series = max(timed, key=lambda row: abs(math.log1p(row[0].relative_change)))
    is_time = series.metric.unit in TIME_UNITS
    return ExplainQuestion(
        member.last_good,
        member.commit,
        series.cell,
        series.metric.name,
        member.relative_change if is_time else None,
    )


def measure_explanation(
    question: ExplainQuestion, bench: str, suite: Path | None, *, smoke: bool, no_wait: bool
) -> tuple[ExplainQuestion, Explanation]:
    """Profile both commits of a question and explain what they show."""
    repository, progress = current_repository(), TerminalProgress()
    config = load_repository_config(repository)
    base, head = (
        repository.read_commit(repository.resolve_revision(revision))
        for revision in (question.base, question.head)
    )
    pattern = f"^{re.escape(question.cell)}$" if question.cell else bench
    with create_suite_runner(repository, config, suite, smoke=smoke) as runner:
        scope = prepare_session_scope(runner, [base, head], pattern, progress.report)
        if len(scope.cells) != 1:
            names = ", ".join(cell.name for cell in scope.cells[:5])
            raise PerfciError(
                f"--bench matches {format_count(len(scope.cells), 'cell')}, one was expected: {names}"
            )
        cell = scope.cells[0]
        question = replace(question, base=base.sha, head=head.sha, cell=cell.name)
        out = explanation_folder(repository, question, profile_folder_name(cell))
        with lock_machine_and_open_store(config, "perfci explain", progress, no_wait=no_wait) as store:
            explanation = explain_by_profiling(
                store,
                runner,
                config.project,
                question,
                (base, head),
                cell,
                out,
                progress.report,
                datetime.now(UTC),
            )
    return question, explanation


def explanation_folder(repository: GitRepository, question: ExplainQuestion, cell_folder: str) -> Path:
    """Where the files of the profiles are left, traces among them."""
    name = f"{question.base[:10]}-{question.head[:10]}"
    return repository.private_folder / "explanations" / name / cell_folder


def explain_stored_cell(question: ExplainQuestion, bench: str) -> ExplainQuestion:
    """Resolve the commits, and the one cell that is profiled at the head."""
    repository, config = current_repository(), current_config()
    base, head = (repository.resolve_revision(revision) for revision in (question.base, question.head))
    question = replace(question, base=base, head=head)
    if question.cell:
        return question
    with closing(open_store_to_write(config)) as store, store.read() as tx:
        project = find_project(tx, config.project)
        cells = list_profiled_cells(tx, project.id, head) if project else []
    cells = [cell for cell in cells if re.search(bench, cell)]
    if len(cells) != 1:
        names = ", ".join(cells[:5]) or "none"
        raise PerfciError(
            f"one profiled cell of {head[:10]} was expected, these match --bench {bench!r}: {names}"
        )
    return replace(question, cell=cells[0])


def format_answer(question: ExplainQuestion, explanation: Explanation) -> str:
    """The question, the sentence, and what was looked at."""
    metric = f" {question.metric}" if question.metric else ""
    heading = f"{question.cell}{metric} from {question.base[:10]} to {question.head[:10]}"
    tables = format_explanation_tables(explanation)
    return "\n\n".join([make_printable(heading, 400), format_explanation(explanation), *tables])


def explain_exit_code(explanation: Explanation) -> int:
    """Whether something is explained."""
    explained = (Conclusion.EXPLAINED, Conclusion.PARTLY, Conclusion.COUNTED, Conclusion.MACHINE)
    return EXPLAINED if explanation.conclusion in explained else NOT_EXPLAINED
