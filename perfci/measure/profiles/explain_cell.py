"""Explain why a cell got slower between two commits, by what is stored and by fresh profiles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from perfci.history.stored_counts import load_stored_differences
from perfci.measure.profiles.parse_call_profile import parse_call_profile
from perfci.measure.profiles.profile_cells_to_files import TABLES_FILE, TREE_FILE
from perfci.measure.profiles.profile_commits import PROCESSES, ProfiledProcess, profile_both_commits
from perfci.model import Commit
from perfci.report.commits.explanation_text import serialize_explanation
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.store import Store
from perfci.store.explanations import (
    NewProfile,
    ProfilePart,
    StoredProfile,
    add_explanation,
    add_profile,
    load_profiles,
)
from perfci.store.writes.find_or_add_rows import ensure_project_id
from perfci.verdicts.explain.call_profile import CallProfile
from perfci.verdicts.explain.explain_profiles import explain_by_counts, explain_profiles
from perfci.verdicts.explain.explanation import Explanation

MAX_STORED_PROFILES = 20
"""Newest profiles of a commit among which those of one setup are looked for."""


@dataclass(frozen=True, slots=True)
class ExplainQuestion:
    """Why did ``cell`` get slower from ``base`` to ``head``? ``expected_change`` is that of the verdict, a
    ratio less one, None where there is none on a time.
    """

    base: str
    head: str
    cell: str
    metric: str = ""
    expected_change: float | None = None


def explain_by_profiling(
    store: Store,
    runner: MeasurementRunner,
    project: str,
    question: ExplainQuestion,
    commits: tuple[Commit, Commit],
    cell: Cell,
    out: Path,
    on_message: Callable[[str], None],
    at: datetime,
) -> Explanation:
    """Profile both commits, unless profiles of the same setup are stored, and store what they say."""
    setup = describe_setup(runner)
    stored = {
        sha: [row for row in _load_stored(store, project, sha, cell.name) if row.setup == setup]
        for sha in (question.base, question.head)
    }
    done = frozenset(sha for sha, rows in stored.items() if len(rows) >= PROCESSES)
    processes = profile_both_commits(runner, *commits, cell, out, on_message, stored=done)
    with store.begin() as tx:
        project_id = ensure_project_id(tx, project)
        for process in processes:
            add_profile(tx, project_id, _describe_process(process, cell.name, setup, runner), at=at)
    return explain_from_store(store, project, question, at=at)


def explain_from_store(store: Store, project: str, question: ExplainQuestion, *, at: datetime) -> Explanation:
    """Explain by stored profiles of one setup, else by stored counts; store the explanation."""
    bases, heads = (
        _load_stored(store, project, sha, question.cell) for sha in (question.base, question.head)
    )
    setups = [row.setup for row in heads if any(other.setup == row.setup for other in bases)]
    with store.read() as tx:
        differences = load_stored_differences(tx, project, question.base, question.head, question.cell)
    if setups:
        sides = [
            [_parse(row) for row in rows if row.setup == setups[0]][:PROCESSES] for rows in (bases, heads)
        ]
        explanation = explain_profiles(
            sides[0],
            sides[1],
            expected_change=question.expected_change,
            counts=differences.counts,
            environment=differences.environment,
        )
    else:
        explanation = explain_by_counts(differences.counts, differences.environment)
    with store.begin() as tx:
        add_explanation(
            tx,
            ensure_project_id(tx, project),
            base=question.base,
            head=question.head,
            cell=question.cell,
            metric=question.metric,
            conclusion=explanation.conclusion,
            document=serialize_explanation(explanation),
            at=at,
        )
    return explanation


def describe_setup(runner: MeasurementRunner) -> str:
    """A hash of what two profiles need to have in common to be compared."""
    settings = runner.settings
    parts = [
        repr(runner.machine),
        runner.suite.digest,
        runner.smoke,
        settings.run.threads,
        settings.environment.model_dump(),
        runner.harness,
    ]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _load_stored(store: Store, project: str, sha: str, cell: str) -> list[StoredProfile]:
    with store.begin() as tx:
        return load_profiles(tx, ensure_project_id(tx, project), sha, cell, limit=MAX_STORED_PROFILES)


def _parse(row: StoredProfile) -> CallProfile:
    return parse_call_profile(row.tree.decode(), row.tables.decode())


def _describe_process(
    process: ProfiledProcess, cell: str, setup: str, runner: MeasurementRunner
) -> NewProfile:
    profile = process.profile
    return NewProfile(
        sha=process.sha,
        cell=cell,
        setup=setup,
        environment=dict(runner.describe_environment(process.sha).values),
        wall_s=profile.wall_s,
        cpu_s=profile.cpu_s,
        parts=list_profile_parts(profile),
        tree=(process.folder / TREE_FILE).read_bytes(),
        tables=(process.folder / TABLES_FILE).read_bytes(),
        trace=process.trace.read_bytes(),
    )


def list_profile_parts(profile: CallProfile) -> Sequence[ProfilePart]:
    """The phases, lines, operators and kernels of a profile as rows."""
    phases: dict[str, float] = {}
    lines: dict[str, float] = {}
    for stack in profile.stacks:
        phases[stack.phase] = phases.get(stack.phase, 0.0) + stack.wall_s
        if stack.lines:
            path, number = stack.lines[-1]
            lines[f"{path}:{number}"] = lines.get(f"{path}:{number}", 0.0) + stack.cpu_s
    return [
        *(ProfilePart("phase", name, seconds, 1.0) for name, seconds in phases.items()),
        *(ProfilePart("line", name, seconds, 1.0) for name, seconds in lines.items()),
        *(ProfilePart("operator", row.name, row.seconds, row.calls) for row in profile.operators),
        *(ProfilePart("kernel", row.name, row.seconds, row.calls) for row in profile.kernels),
    ]
