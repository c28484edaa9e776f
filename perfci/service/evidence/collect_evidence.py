"""Collect the evidence of one incident from the store: samples, histories, and verdicts with their rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.formats.evidence.evidence_bundle import EvidenceBundle
from perfci.formats.evidence.evidence_schema import (
    AARunsPart,
    ChangePart,
    DecisionPart,
    EvidenceSeriesPart,
    HistoryPart,
    IncidentPart,
    InterimAnalysisPart,
    MemberPart,
    ResultIdsPart,
    RulePart,
    RunIdsPart,
    SessionPart,
    StoredTailPart,
    StoredVerdictPart,
)
from perfci.formats.run_document_schema import MachinePart
from perfci.history.decision_records import METHOD_SEPARATE_RUNS, SOFTWARE_VERSIONS, parse_recorded_rule
from perfci.history.series_histories import JudgedHistories
from perfci.model import ChangePoint, Interval, PerfciError, Run, Series
from perfci.report.incidents.incident_text import format_compare_command
from perfci.service.evidence.collect_profiles import collect_explanations, collect_profiles
from perfci.service.incidents.triage import require_incident
from perfci.store.incidents.evidence_rows import (
    PointResult,
    load_change_points_by_series,
    load_point_results,
    load_result_row_ids,
    load_run_ids_of_results,
    load_run_ids_of_sessions,
    load_series_of_same_cells_in_sessions,
    load_sessions_by_uid,
    load_verdicts_of_series,
    load_verdicts_of_sessions,
)
from perfci.store.incidents.incident_records import DATA_KIND, IncidentMember, IncidentRecord
from perfci.store.incidents.incident_store import load_incident_members
from perfci.store.projects import Project
from perfci.store.queries.measured_samples import load_runs
from perfci.store.queries.query_records import VerdictRecord
from perfci.store.queries.series_commits_machines import load_commits_newest_first, load_series_by_ids
from perfci.store.verdict_decision_records import (
    DecisionRecord,
    LookRecord,
    load_aa_results_by_series,
    load_verdict_decision_records,
)
from perfci.store.verdicts_and_change_points import load_ids_of_verdicts_stored_before_tails
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS
from perfci.verdicts.judging_policy import Policy


def collect_evidence(tx: Transaction, project: Project, number: int, policy: Policy) -> EvidenceBundle:
    """Collect everything that an incident rests on."""
    record = require_incident(tx, project, number)
    if record.kind == DATA_KIND:
        raise PerfciError(f"Incident {number} is about missing data: there are no samples to export.")
    return _EvidenceCollector.load(tx, project, record).build(policy)


@dataclass(frozen=True, slots=True)
class _EvidenceCollector:
    """What was read of an incident before its parts are built."""

    tx: Transaction
    project: Project
    record: IncidentRecord
    members: Sequence[IncidentMember]
    histories: JudgedHistories
    verdicts: Sequence[VerdictRecord]
    decisions: Mapping[int, DecisionRecord]
    moved: Mapping[int, Series]
    series: Mapping[int, Series]
    places: Mapping[Series, int]

    @classmethod
    def load(cls, tx: Transaction, project: Project, record: IncidentRecord) -> _EvidenceCollector:
        members = load_incident_members(tx, record.id)
        series_ids = [member.series_id for member in members]
        verdicts, decisions = _load_verdicts(tx, project, record, series_ids)
        moved = load_series_by_ids(tx, series_ids)
        judged = {verdict.verdict.series for verdict in verdicts}
        sessions = {verdict.session_uid for verdict in verdicts}
        series = moved | load_series_of_same_cells_in_sessions(tx, project.slug, judged, sessions)
        places = {item: place for place, item in enumerate(series.values())}
        histories = JudgedHistories.load(tx, series_ids)
        return cls(tx, project, record, members, histories, verdicts, decisions, moved, series, places)

    def build(self, policy: Policy) -> EvidenceBundle:
        """Build the parts of the bundle."""
        points = self._find_sampled_points()
        runs, row_ids = self._load_runs(points)
        results: dict[tuple[int, int], list[int]] = defaultdict(list)
        for point in points:
            results[point.series_id, point.commit_id].append(point.id)
        cells = {series.cell for series in self.moved.values()}
        ranges = [(member.last_good, member.commit) for member in self.members]
        ranges = list(dict.fromkeys([(self.record.last_good, self.record.commit), *ranges]))
        shas = dict.fromkeys(sha for pair in ranges for sha in pair)
        profiles, traces = collect_profiles(self.tx, self.project.id, shas, cells)
        sessions = {run.session for run in runs} | {record.session_uid for record in self.verdicts}
        return EvidenceBundle(
            project=self.project.slug,
            made_by=SOFTWARE_VERSIONS,
            readme=self._write_readme(),
            incident=self._build_incident(),
            series=[_build_series(series) for series in self.places],
            sessions=[
                SessionPart(
                    uid=session.uid,
                    kind=session.kind,
                    seed=session.seed,
                    rounds=session.rounds,
                    state=session.state,
                    started_at=session.started_at,
                    finished_at=session.finished_at,
                )
                for session in load_sessions_by_uid(self.tx, sessions, self.project.slug)
            ],
            histories=self._build_histories(policy, results),
            verdicts=self._build_verdicts(),
            aa_runs=self._build_aa_runs(),
            runs=runs,
            row_ids=row_ids,
            profiles=profiles,
            explanations=collect_explanations(self.tx, self.project.id, ranges, cells),
            traces=traces,
        )

    def _find_sampled_points(self) -> list[PointResult]:
        """The results of the points around each change; those whose old samples were dropped are left out."""
        wanted: dict[int, set[int]] = {}
        for member in self.members:
            points = self.histories.points[member.series_id]
            shas = [self.histories.commits[point.commit_id].sha for point in points]
            middle = shas.index(member.commit) if member.commit in shas else len(shas)
            near = points[max(0, middle - MAX_SIDE_POINTS) : middle + MAX_SIDE_POINTS]
            wanted[member.series_id] = {point.commit_id for point in near if point.summary is not None}
        results = list(load_point_results(self.tx, wanted))
        thinned = {(result.series_id, result.commit_id) for result in results if result.is_thinned}
        return [result for result in results if (result.series_id, result.commit_id) not in thinned]

    def _load_runs(self, points: Iterable[PointResult]) -> tuple[list[Run], list[RunIdsPart]]:
        """The runs behind the points and the verdicts, with the row ids of their results."""
        run_ids = {point.run_id for point in points}
        run_ids.update(load_run_ids_of_sessions(self.tx, {record.session_uid for record in self.verdicts}))
        compared = {
            number
            for decision in self.decisions.values()
            for look in decision.looks
            for number in (*look.base_results, *look.head_results)
        }
        run_ids.update(load_run_ids_of_results(self.tx, compared))
        series_ids = {series: row_id for row_id, series in self.series.items()}
        ordered = sorted(run_ids)
        ids = load_result_row_ids(self.tx, ordered, self.series)
        runs, row_ids = [], []
        for run_id, run in zip(ordered, load_runs(self.tx, ordered, list(self.series)), strict=True):
            own = [ids[run_id, series_ids[result.series]] for result in run.results]
            runs.append(run)
            row_ids.append(
                RunIdsPart(
                    results=tuple(
                        ResultIdsPart(result=item.result, processes=tuple(item.processes)) for item in own
                    )
                )
            )
        return runs, row_ids

    def _build_incident(self) -> IncidentPart:
        record = self.record
        return IncidentPart(
            number=record.number,
            kind=record.kind,
            state=record.state.value,
            headline=record.headline,
            last_good=record.last_good,
            commit=record.commit,
            first_seen=record.first_seen,
            gone_at=record.gone_at,
            members=tuple(
                MemberPart(
                    series=self.places[self.moved[member.series_id]],
                    added_by=member.added_by,
                    **_change_fields(member.to_change_point(self.moved[member.series_id])),
                )
                for member in self.members
            ),
        )

    def _build_histories(
        self, policy: Policy, results: Mapping[tuple[int, int], Sequence[int]]
    ) -> list[HistoryPart]:
        changes = load_change_points_by_series(self.tx, list(self.moved))
        parts = []
        for row_id, series in self.moved.items():
            points = [point for point in self.histories.points[row_id] if point.level is not None]
            parts.append(
                HistoryPart(
                    series=self.places[series],
                    rule=_build_rule(policy.rule_for(series)),
                    commits=tuple(self.histories.commits[point.commit_id].sha for point in points),
                    levels=tuple(point.level for point in points if point.level is not None),
                    clocks=tuple(
                        None if point.summary is None else point.summary.clock or "" for point in points
                    ),
                    spreads=tuple(point.summary.spread if point.summary else None for point in points),
                    results=tuple(tuple(results.get((row_id, point.commit_id), ())) for point in points),
                    has_processes=any(point.readings for point in self.histories.points[row_id]),
                    changes=tuple(ChangePart(**_change_fields(change)) for change in changes[row_id]),
                )
            )
        return parts

    def _build_verdicts(self) -> list[StoredVerdictPart]:
        before_tails = load_ids_of_verdicts_stored_before_tails(self.tx, self.project.slug)
        return [
            _build_verdict(
                record,
                self.places[record.verdict.series],
                self.decisions.get(record.id),
                is_before_tails=record.id in before_tails,
            )
            for record in self.verdicts
        ]

    def _build_aa_runs(self) -> list[AARunsPart]:
        parts = []
        judged = dict.fromkeys(record.verdict.series for record in self.verdicts)
        for until in sorted({decision.aa_verdicts_until for decision in self.decisions.values()}):
            runs_by_series = load_aa_results_by_series(self.tx, self.project.slug, until)
            parts += [
                AARunsPart(
                    until=until,
                    series=self.places[series],
                    runs=tuple((run.log_ratio, run.pairs) for run in runs_by_series[series]),
                )
                for series in judged
                if series in runs_by_series
            ]
        return parts

    def _write_readme(self) -> str:
        """How to verify the bundle and how to measure the incident again."""
        record = self.record
        cells = [self.moved[member.series_id].cell for member in self.members]
        return (
            f"Evidence of incident {record.number} of {self.project.slug}\n"
            f"{record.headline}\n\n"
            "Compute everything again, without the store it came from:\n"
            "    perfci verify FILE\n"
            "Measure the two commits again, on fresh pairs:\n"
            f"    {format_compare_command(record.last_good, record.commit, cells)}\n"
            "The order of the stored measurements follows from the seeds in sessions.jsonl.\n"
        )


def _load_verdicts(
    tx: Transaction, project: Project, record: IncidentRecord, series_ids: Sequence[int]
) -> tuple[list[VerdictRecord], dict[int, DecisionRecord]]:
    """The verdicts on members within the range of the incident, with those they were controlled with."""
    positions = {
        commit.sha: -at
        for at, commit in enumerate(load_commits_newest_first(tx, project.slug))
        if not commit.dirty
    }
    first, last = positions.get(record.last_good), positions.get(record.commit)

    def is_in_range(verdict: VerdictRecord) -> bool:
        base, head = positions.get(verdict.verdict.base), positions.get(verdict.verdict.head)
        if first is None or last is None or base is None or head is None or base == head:
            return False
        return base < last and head > first

    own = [verdict for verdict in load_verdicts_of_series(tx, series_ids) if is_in_range(verdict)]
    in_sessions = load_verdicts_of_sessions(tx, {verdict.session_uid for verdict in own})
    decisions = load_verdict_decision_records(tx, project.slug, [verdict.id for verdict in in_sessions])
    groups = {_control_group(verdict, decisions.get(verdict.id)) for verdict in own} - {None}
    chosen = {verdict.id for verdict in own} | {
        verdict.id for verdict in in_sessions if _control_group(verdict, decisions.get(verdict.id)) in groups
    }
    verdicts = [verdict for verdict in in_sessions if verdict.id in chosen]
    return verdicts, {row_id: decision for row_id, decision in decisions.items() if row_id in chosen}


def _control_group(record: VerdictRecord, decision: DecisionRecord | None) -> object:
    """What the verdicts share among which false discoveries were controlled; None where none were."""
    if decision is None or decision.rate is None:
        return None
    given_at = record.created_at if decision.method == METHOD_SEPARATE_RUNS else None
    return record.session_uid, decision.rate, given_at


def _build_series(series: Series) -> EvidenceSeriesPart:
    return EvidenceSeriesPart(
        benchmark=series.benchmark.name,
        benchmark_version=series.benchmark.version,
        parameters=dict(series.parameters),
        metric=series.metric.name,
        unit=series.metric.unit,
        direction=series.metric.direction,
        machine=MachinePart(**asdict(series.machine)),
        variant=dict(series.variant.values),
        harness=series.harness,
    )


def _build_rule(rule: Rule) -> RulePart:
    return RulePart(**asdict(rule))


def _change_fields(change: ChangePoint) -> dict[str, Any]:
    return {
        "commit": change.commit,
        "last_good": change.last_good,
        "before": change.before,
        "after": change.after,
        "interval": _interval_pair(change.interval),
        "noise": change.noise,
        "p_value": change.p_value,
    }


def _interval_pair(interval: Interval | None) -> tuple[float, float] | None:
    return (interval.lo, interval.hi) if interval else None


def _build_look(look: LookRecord) -> InterimAnalysisPart:
    sides = {"base_results": tuple(look.base_results), "head_results": tuple(look.head_results)}
    return InterimAnalysisPart(**asdict(look) | sides)


def _build_verdict(
    record: VerdictRecord, series: int, decision: DecisionRecord | None, *, is_before_tails: bool
) -> StoredVerdictPart:
    verdict, tail_part, decision_part = record.verdict, None, None
    if verdict.tail is not None:
        tail = verdict.tail
        tail_part = StoredTailPart(kind=tail.kind, ratio=tail.ratio, interval=_interval_pair(tail.interval))
    if decision is not None:
        rule, looks = parse_recorded_rule(decision), tuple(_build_look(look) for look in decision.looks)
        decision_part = DecisionPart(**asdict(decision) | {"rule": _build_rule(rule), "looks": looks})
    return StoredVerdictPart(
        id=record.id,
        series=series,
        session=record.session_uid,
        created_at=record.created_at,
        is_superseded=record.superseded_by is not None,
        is_before_tails=is_before_tails,
        kind=verdict.kind,
        stage=verdict.stage,
        base=verdict.base,
        head=verdict.head,
        ratio=verdict.ratio,
        interval=_interval_pair(verdict.interval),
        base_level=verdict.base_level,
        head_level=verdict.head_level,
        noise_floor=verdict.noise_floor,
        mde=verdict.mde,
        pairs=verdict.pairs,
        pairs_to_decide=verdict.pairs_to_decide,
        p_value=verdict.p_value,
        reason=verdict.reason,
        evidence=verdict.evidence,
        tail=tail_part,
        decision=decision_part,
    )
