"""Compute everything that an evidence bundle states again, from its samples and levels alone.

The functions are those that judged in the first place; nothing is read but the bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from perfci.formats.comparison_documents import series_from_part
from perfci.formats.evidence.evidence_bundle import EvidenceBundle
from perfci.formats.evidence.evidence_schema import (
    ChangePart,
    HistoryPart,
    MemberPart,
    RulePart,
    StoredVerdictPart,
)
from perfci.history.comparisons.judge_pull_request_uploads import judge_recorded_results
from perfci.history.comparisons.separate_run_sides import RunJoiner
from perfci.history.decision_records import SOFTWARE_VERSIONS, parse_recorded_rule
from perfci.history.result_summaries import summarize_processes
from perfci.history.session_replay import SessionSamples
from perfci.history.verify_stored_verdicts import VerdictDifference, find_session_differences
from perfci.model import (
    ChangePoint,
    Clock,
    Interval,
    Machine,
    Process,
    Result,
    ResultSummary,
    Run,
    Series,
    TailVerdict,
    Variant,
    Verdict,
    freeze_named_values,
)
from perfci.store.queries.comparisons.pull_request_uploads import RunResult
from perfci.store.queries.query_records import MeasuredProcess, VerdictRecord
from perfci.store.verdict_decision_records import AAResult, DecisionRecord, LookRecord
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.history.change_points_and_jumps import (
    MIN_POINTS_BEFORE,
    NEWEST_POINTS,
    LevelHistory,
    find_change_points_in_levels,
    find_newest_jumps,
    measure_change_point,
)
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS, LevelPoint

MAX_LATER_POINTS = 200
"""Points after a change with which its detection is repeated, where the whole history does not show it."""

MAX_REPEATED_POINTS = 2_000_000
"""Points that these repetitions may segment, over all members."""


@dataclass(frozen=True, slots=True)
class MemberCheck:
    """A change that the incident states, and what it rests on; ``basis`` is empty where nothing gives it."""

    series: Series
    change: ChangePoint
    basis: str

    @property
    def stands(self) -> bool:
        """Whether the same change was computed again."""
        return bool(self.basis)


@dataclass(frozen=True, slots=True)
class EvidenceDifference:
    """A stored value of a series that is another one when it is computed again."""

    series: Series
    description: str


@dataclass(frozen=True, slots=True)
class EvidenceVerification:
    """What was computed again, and every difference to what the bundle states."""

    members: Sequence[MemberCheck]
    sampled_levels: int
    other_levels: int
    change_points: int
    histories: int
    verdicts: Sequence[VerdictRecord]
    unverifiable_verdicts: int
    level_differences: Sequence[EvidenceDifference]
    history_differences: Sequence[EvidenceDifference]
    verdict_differences: Sequence[VerdictDifference]
    other_versions: Sequence[str]

    @property
    def stands(self) -> bool:
        """Whether everything came out as it was stored."""
        differences = self.level_differences, self.history_differences, self.verdict_differences
        return not any(differences) and all(member.stands for member in self.members)


def verify_evidence(bundle: EvidenceBundle) -> EvidenceVerification:
    """Compute the levels, the change points, the verdicts and the members of an incident again."""
    evidence = _EvidenceReader.index(bundle)
    verdicts = [evidence.build_verdict_record(part) for part in bundle.verdicts]
    verdict_differences = list(evidence.find_verdict_differences())
    wrong = {difference.record.id for difference in verdict_differences}
    trusted = [record.verdict for record in verdicts if record.id not in wrong]
    changes = {
        evidence.series[history.series]: evidence.find_change_points(history) for history in bundle.histories
    }
    made_by = {part.decision.made_by for part in bundle.verdicts if part.decision}
    return EvidenceVerification(
        members=[evidence.check_member(member, changes, trusted) for member in bundle.incident.members],
        sampled_levels=sum(bool(point) for history in bundle.histories for point in history.results),
        other_levels=sum(not point for history in bundle.histories for point in history.results),
        change_points=sum(map(len, changes.values())),
        histories=len(bundle.histories),
        verdicts=[
            record
            for record, part in zip(verdicts, bundle.verdicts, strict=True)
            if part.decision is not None
        ],
        unverifiable_verdicts=sum(part.decision is None for part in bundle.verdicts),
        level_differences=list(chain.from_iterable(map(evidence.compare_levels, bundle.histories))),
        history_differences=list(
            chain.from_iterable(evidence.compare_change_points(part, changes) for part in bundle.histories)
        ),
        verdict_differences=verdict_differences,
        other_versions=sorted({*made_by, bundle.made_by} - {SOFTWARE_VERSIONS}),
    )


@dataclass(frozen=True, slots=True)
class _EvidenceReader:
    """A bundle with its series, and what has to be looked up in it."""

    bundle: EvidenceBundle
    series: Sequence[Series]
    histories: Mapping[int, HistoryPart]
    processes: Mapping[int, Sequence[Process]]

    @classmethod
    def index(cls, bundle: EvidenceBundle) -> _EvidenceReader:
        """Build the series, and look-ups of histories by series and of processes by result."""
        series = [
            series_from_part(
                part, Machine(**vars(part.machine)), Variant(freeze_named_values(part.variant)), part.harness
            )
            for part in bundle.series
        ]
        processes = {
            ids.result: result.processes
            for run, row_ids in zip(bundle.runs, bundle.row_ids, strict=True)
            for result, ids in zip(run.results, row_ids.results, strict=True)
        }
        return cls(bundle, series, {history.series: history for history in bundle.histories}, processes)

    def iter_results(self) -> Iterator[tuple[Run, Result, int, Sequence[int]]]:
        """Every result with its run, its row id and those of its processes."""
        for run, ids in zip(self.bundle.runs, self.bundle.row_ids, strict=True):
            for result, own in zip(run.results, ids.results, strict=True):
                yield run, result, own.result, own.processes

    def compare_levels(self, history: HistoryPart) -> Iterator[EvidenceDifference]:
        """Compare the levels of a history with those of its samples, where these are in the bundle."""
        columns = history.commits, history.levels, history.clocks, history.spreads, history.results
        for sha, level, clock, spread, results in zip(*columns, strict=True):
            if not results:
                continue
            stored = ResultSummary(level, Clock(clock) if clock else None, spread)
            again = summarize_processes([process for number in results for process in self.processes[number]])
            if again != stored:
                recomputed = "no level" if again is None else f"{again.level!r}"
                yield EvidenceDifference(
                    self.series[history.series], f"the level at {sha[:10]} was {level!r}, now {recomputed}"
                )

    def find_change_points(self, history: HistoryPart) -> list[ChangePoint]:
        """Segment a history again."""
        return self._segment(history, _list_levels(history))

    def _segment(self, history: HistoryPart, levels: LevelHistory) -> list[ChangePoint]:
        series = self.series[history.series]
        summaries = zip(history.clocks, history.spreads, strict=True)
        is_exact = history.has_processes and all(
            clock == Clock.EXACT and spread == 0 for clock, spread in summaries if clock is not None
        )
        exact = {series} if is_exact else ()
        rule = _build_rule(history.rule)
        return find_change_points_in_levels({series: levels}, exact, rules=lambda _: rule)[series]

    def compare_change_points(
        self, history: HistoryPart, changes: Mapping[Series, Sequence[ChangePoint]]
    ) -> Iterator[EvidenceDifference]:
        """Compare the stored change points of a history with those that were found again."""
        series = self.series[history.series]
        stored = [_build_change(part, series) for part in history.changes]
        for word, some, others in (
            ("is not found again", stored, changes[series]),
            ("was found, which was not stored", changes[series], stored),
        ):
            for change in some:
                if change not in others:
                    same_place = [other for other in others if other.commit == change.commit]
                    if same_place and some is stored:
                        text = (
                            f"the change point at {change.commit[:10]} was {_describe_change(change)}, "
                            f"now {_describe_change(same_place[0])}"
                        )
                    elif same_place:
                        continue
                    else:
                        text = f"the change point {_describe_change(change)} at {change.commit[:10]} {word}"
                    yield EvidenceDifference(series, text)

    def check_member(
        self,
        member: MemberPart,
        changes: Mapping[Series, Sequence[ChangePoint]],
        verdicts: Sequence[Verdict],
    ) -> MemberCheck:
        """Find what a member of the incident rests on."""
        series = self.series[member.series]
        change = _build_change(member, series)
        own = [verdict for verdict in verdicts if verdict.series == series and verdict.kind in MOVE_KINDS]
        history = self.histories.get(member.series)
        own_changes = changes.get(series, ())
        basis = _find_in_history(change, own_changes) or _find_in_verdicts(change, own_changes, own)
        if not basis and history is not None:
            basis = self._find_elsewhere(change, history, own_changes)
        return MemberCheck(series, change, basis)

    def _find_elsewhere(
        self, change: ChangePoint, history: HistoryPart, changes: Sequence[ChangePoint]
    ) -> str:
        """Look for a change in what was known of a history earlier, and at a boundary that a person set."""
        levels = _list_levels(history)
        shas = [sha for sha, _ in levels]
        index = shas.index(change.commit) if change.commit in shas else 0
        if not index:
            return ""
        if _is_same_size(measure_change_point(change.series, levels, index), change):
            return "measured at the boundary that a person set"
        rule = _build_rule(history.rule)
        for end in range(index + 1, min(index + NEWEST_POINTS, len(levels)) + 1):
            oldest = max(0, end - MAX_SIDE_POINTS - NEWEST_POINTS)
            for start in range(oldest, max(0, end - MIN_POINTS_BEFORE)):
                if self._is_jump(change, levels[start:end], changes, rule):
                    return f"a jump of its newest points, by {end - start} points up to {shas[end - 1][:10]}"
        repeats = MAX_REPEATED_POINTS // (len(levels) * len(self.bundle.incident.members))
        for end in range(index + 1, min(len(levels), index + min(repeats, MAX_LATER_POINTS))):
            earlier = self._segment(history, levels[:end])
            if any(_is_same_size(item, change) for item in earlier):
                return (
                    f"found in its first {end} commits, up to {shas[end - 1][:10]}: "
                    "later ones do not show it any more"
                )
        return ""

    def _is_jump(
        self, change: ChangePoint, levels: LevelHistory, changes: Sequence[ChangePoint], rule: Rule
    ) -> bool:
        points = [LevelPoint(sha, level) for sha, level in levels]
        jumps = find_newest_jumps({change.series: points}, changes, rules=lambda _: rule)
        return any(_is_same_size(jump.change, change) for jump in jumps)

    def build_verdict_record(self, part: StoredVerdictPart) -> VerdictRecord:
        """Build a stored verdict."""
        tail = None
        if part.tail:
            tail = TailVerdict(part.tail.kind, part.tail.ratio, _build_interval(part.tail.interval))
        verdict = Verdict(
            kind=part.kind,
            stage=part.stage,
            series=self.series[part.series],
            base=part.base,
            head=part.head,
            ratio=part.ratio,
            interval=_build_interval(part.interval),
            base_level=part.base_level,
            head_level=part.head_level,
            noise_floor=part.noise_floor,
            mde=part.mde,
            pairs=part.pairs,
            pairs_to_decide=part.pairs_to_decide,
            p_value=part.p_value,
            reason=part.reason,
            evidence=part.evidence,
            tail=tail,
        )
        return VerdictRecord(part.id, verdict, part.session, part.created_at, None)

    def find_verdict_differences(self) -> Iterator[VerdictDifference]:
        """Replay the verdicts, session by session."""
        decided = [part for part in self.bundle.verdicts if part.decision is not None]
        aa_results: dict[int, dict[Series, list[AAResult]]] = {}
        for runs in self.bundle.aa_runs:
            aa_results.setdefault(runs.until, {})[self.series[runs.series]] = [
                AAResult(*run) for run in runs.runs
            ]
        for uid in dict.fromkeys(part.session for part in decided):
            own = [part for part in decided if part.session == uid]
            samples = SessionSamples.from_rows(self._list_session_processes(uid))
            for part in own:
                aa_results.setdefault(part.decision.aa_verdicts_until if part.decision else 0, {})
            yield from find_session_differences(
                [(self.build_verdict_record(part), _build_decision(part)) for part in own],
                samples,
                aa_results,
                {part.id for part in own if part.is_before_tails},
                self._replay_separate_runs,
            )

    def _list_session_processes(self, uid: str) -> list[MeasuredProcess]:
        """The processes of a session in the order they were stored."""
        rows = [
            MeasuredProcess(row_id, run.commit.sha, result.series, process)
            for run, result, _, row_ids in self.iter_results()
            if run.session == uid
            for row_id, process in zip(row_ids, result.processes, strict=True)
        ]
        return sorted(rows, key=lambda row: row.id)

    def _replay_separate_runs(self, verdict: Verdict, decision: DecisionRecord) -> Verdict | None:
        look = decision.looks[-1]
        compared = {*look.base_results, *look.head_results}
        rows = [row for row in self.iter_results() if row[2] in compared]
        commits = {number: row[0].commit for number, row in enumerate(rows)}
        commit_ids = {commit: number for number, commit in commits.items()}
        environments = {number: row[0].environment for number, row in enumerate(rows)}
        environment_ids = {environment: number for number, environment in environments.items()}
        results = {
            row_id: _build_run_result(
                row_id, run, result, commit_ids[run.commit], environment_ids[run.environment]
            )
            for run, result, row_id, _ in rows
        }
        process_ids = {row_id: row_ids for _, _, row_id, row_ids in rows}
        joiner = RunJoiner(commits, environments)
        rule = parse_recorded_rule(decision)
        return judge_recorded_results(verdict, look, rule, results, joiner, process_ids)


def _build_run_result(
    row_id: int, run: Run, result: Result, commit_id: int, environment_id: int
) -> RunResult:
    summary = summarize_processes(result.processes)
    value = result.summary.value if result.summary else None
    has_clock = summary is not None and summary.clock is not None
    return RunResult(
        row_id,
        run_id=0,
        series_id=0,
        commit_id=commit_id,
        environment_id=environment_id,
        session=run.session,
        origin=run.origin,
        started_at=run.started_at,
        status=result.status,
        reason=result.reason,
        level=summary.level if summary and has_clock else value,
        clock=summary.clock if summary else None,
        spread=summary.spread if summary else None,
    )


def _build_decision(part: StoredVerdictPart) -> DecisionRecord:
    decision = part.decision
    assert decision is not None
    return DecisionRecord(
        decision.method,
        decision.rule.model_dump(),
        decision.aa_verdicts_until,
        tuple(LookRecord(**look.model_dump()) for look in decision.looks),
        decision.rate,
        decision.made_by,
    )


def _build_rule(part: RulePart) -> Rule:
    return Rule(**part.model_dump())


def _build_change(part: ChangePart, series: Series) -> ChangePoint:
    interval = _build_interval(part.interval)
    return ChangePoint(
        series, part.commit, part.last_good, part.before, part.after, interval, part.noise, part.p_value
    )


def _build_interval(pair: tuple[float, float] | None) -> Interval | None:
    return Interval(*pair) if pair else None


def _list_levels(history: HistoryPart) -> list[tuple[str, float]]:
    return list(zip(history.commits, history.levels, strict=True))


def _find_in_history(change: ChangePoint, changes: Sequence[ChangePoint]) -> str:
    return "found in its history" if any(_is_same_size(item, change) for item in changes) else ""


def _find_in_verdicts(
    change: ChangePoint, changes: Sequence[ChangePoint], verdicts: Sequence[Verdict]
) -> str:
    """Whether fresh pairs measured this change, of its own commits or where the history has found it."""
    places = {(item.last_good, item.commit) for item in changes}
    place = change.last_good, change.commit
    for verdict in verdicts:
        measured = replace(verdict.as_change_point, last_good=change.last_good, commit=change.commit)
        is_here = place == (verdict.base, verdict.head) or place in places
        if is_here and _is_same_size(measured, change):
            return f"measured on {verdict.pairs} fresh pairs of {verdict.base[:10]}..{verdict.head[:10]}"
    return ""


def _is_same_size(change: ChangePoint, stored: ChangePoint) -> bool:
    """Whether two changes are the same, bit for bit; what is stored of a member has no noise."""
    return replace(change, noise=None, p_value=None) == replace(stored, noise=None, p_value=None)


def _describe_change(change: ChangePoint) -> str:
    return f"{change.before!r} to {change.after!r}"
