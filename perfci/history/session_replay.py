"""Replay the looks of one session from its stored samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfci.history.comparisons.complete_process_pairs import (
    PairCommits,
    PairedProcesses,
    find_complete_pair_numbers,
    select_paired_processes,
)
from perfci.history.decision_records import METHOD_ROUNDS, parse_recorded_prior
from perfci.history.judged_processes import ProcessesByCommit, group_judged_processes
from perfci.model import Measured, Role, Series, Verdict
from perfci.store.queries.query_records import MeasuredProcess
from perfci.store.verdict_decision_records import DecisionRecord, LookRecord
from perfci.verdicts.compare.pairwise_verdict import Look, interim_analysis, screening_verdict
from perfci.verdicts.comparison_rule import Rule


@dataclass(frozen=True, slots=True)
class SessionSamples:
    """The stored processes of one session by commit, and the commits each of its pairs compared."""

    rows: Sequence[MeasuredProcess]
    processes_by_sha: Mapping[str, Sequence[Measured]]
    pair_commits: PairCommits
    _processes_by_series: dict[Series, ProcessesByCommit] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Sequence[MeasuredProcess]) -> SessionSamples:
        """Index the processes of a session."""
        measured: dict[str, list[Measured]] = {}
        pair_commits: dict[int, dict[Role, str]] = {}
        for row in rows:
            measured.setdefault(row.sha, []).append((row.series, row.process))
            if row.process.pair is not None:
                pair_commits.setdefault(row.process.pair, {})[row.process.role] = row.sha
        return cls(rows, measured, pair_commits)

    def replay_interim_analysis(
        self,
        verdict: Verdict,
        rule: Rule,
        record: LookRecord | None = None,
        aa_runs: Sequence[tuple[float, int]] = (),
    ) -> Look | None:
        """Repeat a recorded look, else look at all pairs; None where the series has no process."""
        readings, pairs = (
            self._get_cell_processes(verdict),
            self.find_pair_numbers_of_verdict(verdict, record),
        )
        sides = select_paired_processes(readings, verdict.base, verdict.head, pairs).get(verdict.series)
        if sides is None or not any(sides):
            return None
        return interim_analysis(
            verdict.series,
            verdict.base,
            verdict.head,
            *sides,
            rule=rule,
            aa_runs=aa_runs,
            prior=parse_recorded_prior(record) if record else None,
            stage=verdict.stage,
        )

    def replay_screening(self, verdict: Verdict, rule: Rule, prior_sd: float | None) -> Verdict | None:
        """Repeat the screening of two neighbours; None where neither has a process."""
        base, head = self.get_screening_processes(verdict)
        if not base and not head:
            return None
        return screening_verdict(
            verdict.series, verdict.base, verdict.head, base, head, rule=rule, prior_sd=prior_sd
        )

    def get_screening_processes(self, verdict: Verdict) -> PairedProcesses:
        """The processes of both commits of a screening."""
        by_sha = self.group_by_series().get(verdict.series, {})
        return by_sha.get(verdict.base, []), by_sha.get(verdict.head, [])

    def group_by_series(self) -> dict[Series, ProcessesByCommit]:
        """The judged processes by series and commit, grouped once."""
        if not self._processes_by_series:
            self._processes_by_series.update(group_judged_processes(self.processes_by_sha))
        return self._processes_by_series

    def find_pair_numbers_of_verdict(self, verdict: Verdict, record: LookRecord | None = None) -> list[int]:
        """The pairs of this verdict's question; with ``record``, the ones measured before that look."""
        pairs = find_complete_pair_numbers(
            self._get_cell_processes(verdict), verdict.base, verdict.head, self.pair_commits
        )
        return pairs[: record.spent] if record else pairs

    def list_evidence_process_ids(self, verdict: Verdict, decision: DecisionRecord) -> tuple[int, ...]:
        """The row ids of the processes that the last look used, those of the base first."""
        pairs = set(self.find_pair_numbers_of_verdict(verdict, decision.looks[-1]))
        rows = [row for row in self.rows if row.series == verdict.series]
        if decision.method != METHOD_ROUNDS:
            rows = [row for row in rows if row.process.pair in pairs]
        return tuple(
            dict.fromkeys(row.id for sha in (verdict.base, verdict.head) for row in rows if row.sha == sha)
        )

    def _get_cell_processes(self, verdict: Verdict) -> dict[str, list[Measured]]:
        cell = verdict.series.cell
        return {
            sha: [row for row in self.processes_by_sha.get(sha, ()) if row[0].cell == cell]
            for sha in (verdict.base, verdict.head)
        }
