"""Judge what a pull request uploaded, measured by other tools, against recent runs of the main branch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.judge_uploaded_pairs import VerdictDecision
from perfci.history.comparisons.separate_run_sides import RunJoiner, list_result_ids
from perfci.history.decision_records import (
    METHOD_SEPARATE_RUNS,
    build_decision_key,
    build_decision_record,
)
from perfci.history.result_summaries import is_cpu_bound_by_levels
from perfci.model import Commit, Series, Stage, Verdict
from perfci.store.queries.comparisons.pull_request_uploads import (
    BASE_FIELD,
    BASE_POSITION_FIELD,
    PullRequestHead,
    RunResult,
    UploadedRun,
    load_history_commit_ids,
    load_history_results,
    load_process_ids_by_result,
    load_results_by_id,
    load_results_of_runs,
    load_series_ids_measured_like,
    load_uploads_of_pull_request,
)
from perfci.store.queries.series_commits_machines import load_commits_by_id, load_series_by_ids, sort_commits
from perfci.store.verdict_decision_records import DecisionRecord, LookRecord
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.separate_runs import MAX_BASE_RUNS, RecordedRun, separate_runs_verdict
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.judged_series import StatusAndClock, select_judged_series_by_status
from perfci.verdicts.judging_policy import Policy

RunsOfBothSides = tuple[list[RecordedRun], list[RecordedRun]]
"""Runs of the main branch and of the head."""


@dataclass(frozen=True, slots=True)
class PullRequestUploads:
    """Everything that is read of one head of a pull request before it is judged.

    ``session`` is the newest that uploaded something. ``sides`` are the runs of each judged series: those of
    the main branch since its last change point up to ``base``, and all of the head. ``answered`` are the
    questions that pairs measured side by side have answered, which decide over separate runs.
    """

    session: str
    base: str
    head: str
    sides: Mapping[Series, RunsOfBothSides]
    process_ids: Mapping[int, Sequence[int]]
    current: frozenset[Verdict]
    answered: frozenset[object]

    @classmethod
    def load(cls, tx: Transaction, project: str, pull: PullRequestHead) -> PullRequestUploads | None:
        """Read the uploads of a head; None where the main branch has no run to compare with."""
        uploads = load_uploads_of_pull_request(tx, project, pull.number, pull.sha).get(pull.sha, [])
        commits = load_commits_by_id(tx, ids=load_history_commit_ids(tx, project))
        line = select_commits_up_to_base(
            [commit for commit in commits.values() if commit.sha != pull.sha], uploads
        )
        if not uploads or not line:
            return None
        row_ids = {commit: row_id for row_id, commit in commits.items()}
        head_results = load_results_of_runs(tx, [run.id for run in uploads])
        series_ids = {result.series_id for result in head_results}
        series_ids |= load_series_ids_measured_like(tx, row_ids[line[-1]], uploads)
        base_results = load_history_results(tx, series_ids)
        series = load_series_by_ids(tx, series_ids)
        sides = _build_sides(tx, project, series, line, base_results, head_results)
        results = [number for both in sides.values() for runs in both for number in list_result_ids(runs)]
        base = line[-1].sha
        records = load_verdict_records(tx, project, base=base, head=pull.sha, with_pull_requests=True)
        verdicts = [record.verdict for record in records]
        return cls(
            session=uploads[-1].session,
            base=base,
            head=pull.sha,
            sides=sides,
            process_ids=load_process_ids_by_result(tx, results),
            current=frozenset(verdict for verdict in verdicts if verdict.stage is Stage.SEPARATE_RUNS),
            answered=frozenset(
                build_decision_key(verdict)
                for verdict in verdicts
                if verdict.stage is not Stage.SEPARATE_RUNS
            ),
        )

    def judge(self, policy: Policy) -> list[VerdictDecision]:
        """Judge each series; the false discovery rate is controlled over all of them.

        All are returned where one verdict is new, since they were controlled together.
        """
        decisions = [
            self._judge_series(series, *runs, policy)
            for series, runs in self.sides.items()
            if policy.is_judged(series)
        ]
        decisions = [item for item in decisions if build_decision_key(item[0]) not in self.answered]
        verdicts = control_false_discoveries([verdict for verdict, _ in decisions], FALSE_DISCOVERY_RATE)
        judged = [(verdict, record) for verdict, (_, record) in zip(verdicts, decisions, strict=True)]
        return [] if {verdict for verdict, _ in judged} <= self.current else judged

    def _judge_series(
        self, series: Series, base: Sequence[RecordedRun], head: Sequence[RecordedRun], policy: Policy
    ) -> VerdictDecision:
        rule = policy.rule_for(series)
        verdict = separate_runs_verdict(series, self.base, self.head, base, head, rule=rule)
        look = LookRecord(
            spent=0,
            pairs=0,
            kind=verdict.kind.value,
            base_results=list_result_ids(base),
            head_results=list_result_ids(head),
        )
        evidence = list_evidence(self.process_ids, look)
        return replace(verdict, evidence=evidence), build_decision_record(METHOD_SEPARATE_RUNS, rule, [look])


def select_commits_up_to_base(commits: Iterable[Commit], uploads: Sequence[UploadedRun]) -> list[Commit]:
    """Select the measured commits of the main branch up to the base that the newest upload names.

    Where the base itself was not measured, its place on the first-parent line is used; without one, all
    commits are.
    """
    line = sort_commits(commits)
    origin = dict(uploads[-1].origin) if uploads else {}
    shas = [commit.sha for commit in line]
    if (base := origin.get(BASE_FIELD)) in shas:
        return line[: shas.index(base) + 1]
    position = origin.get(BASE_POSITION_FIELD, "")
    if position.isascii() and position.isdigit():
        return [item for item in line if item.position is not None and item.position <= int(position)]
    return line


def replay_separate_runs(
    tx: Transaction, verdict: Verdict, decision: DecisionRecord, rule: Rule
) -> Verdict | None:
    """Judge the runs that a verdict compared once more; None where their results are gone."""
    look = decision.looks[-1]
    results = {
        result.id: result for result in load_results_by_id(tx, [*look.base_results, *look.head_results])
    }
    if any(number not in results for number in (*look.base_results, *look.head_results)):
        return None
    joiner = RunJoiner.load(tx, results.values())
    process_ids = load_process_ids_by_result(tx, results)
    return judge_recorded_results(verdict, look, rule, results, joiner, process_ids)


def judge_recorded_results(
    verdict: Verdict,
    look: LookRecord,
    rule: Rule,
    results: Mapping[int, RunResult],
    joiner: RunJoiner,
    process_ids: Mapping[int, Sequence[int]],
) -> Verdict:
    """Judge the results, given by id, that a look at separate runs compared."""
    base, head = (
        joiner.join_results(results[number] for number in side)
        for side in (look.base_results, look.head_results)
    )
    again = separate_runs_verdict(verdict.series, verdict.base, verdict.head, base, head, rule=rule)
    return replace(again, evidence=list_evidence(process_ids, look))


def list_evidence(process_ids: Mapping[int, Sequence[int]], look: LookRecord) -> tuple[int, ...]:
    """List the processes of the compared results, those of the base first; mere values have none."""
    return tuple(
        row_id
        for result in (*look.base_results, *look.head_results)
        for row_id in process_ids.get(result, ())
    )


def _build_sides(
    tx: Transaction,
    project: str,
    series: Mapping[int, Series],
    line: Sequence[Commit],
    base_results: Sequence[RunResult],
    head_results: Sequence[RunResult],
) -> dict[Series, RunsOfBothSides]:
    """Join the results of each judged series into the runs of both sides."""
    joiner = RunJoiner.load(tx, [*base_results, *head_results])
    place = {commit.sha: number for number, commit in enumerate(line)}
    sides: dict[int, tuple[list[RunResult], list[RunResult]]] = {row_id: ([], []) for row_id in series}
    for side, results in enumerate((base_results, head_results)):
        for result in results:
            sides[result.series_id][side].append(result)
    judged = _select_judged_series(series, [*base_results, *head_results])
    change_places = _find_change_places(tx, project, place)
    built: dict[Series, RunsOfBothSides] = {}
    for row_id, (before, after) in sides.items():
        if series[row_id] not in judged:
            continue
        start = change_places.get(series[row_id], 0)
        level = [run for run in joiner.join_results(before) if place.get(run.sha, -1) >= start]
        level.sort(key=lambda run: place[run.sha])
        built[series[row_id]] = level[-MAX_BASE_RUNS:], joiner.join_results(after)
    return dict(sorted(built.items(), key=lambda item: item[0].label))


def _find_change_places(tx: Transaction, project: str, place: Mapping[str, int]) -> dict[Series, int]:
    """Where the level of each series moved last, at the base or before it."""
    places: dict[Series, int] = {}
    for change in load_change_points(tx, project):
        if change.commit in place:
            places[change.series] = max(places.get(change.series, 0), place[change.commit])
    return places


def _select_judged_series(series: Mapping[int, Series], results: Iterable[RunResult]) -> set[Series]:
    """Select the series that verdicts are given on, by the clocks and levels of their results."""
    readings: dict[Series, set[StatusAndClock]] = defaultdict(set)
    levels: dict[Series, dict[int, float]] = defaultdict(dict)
    for result in results:
        item = series[result.series_id]
        clocks = readings[item]  # a mere value has none
        if result.clock is not None:
            clocks.add((result.status, result.clock))
        if result.level is not None:
            levels[item][result.run_id] = result.level

    def select_waiting(wall_by_cpu: Mapping[Series, Series]) -> set[Series]:
        return {
            cpu for cpu, wall in wall_by_cpu.items() if not is_cpu_bound_by_levels(levels[cpu], levels[wall])
        }

    return set(select_judged_series_by_status(readings, select_waiting))
