"""The stored samples of one session, and the looks that can be taken at them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfci.history.judge_samples import ROUNDS, Compared, Sides, judged_sides, pairs_of, prior_of
from perfci.model import Measured, Process, Role, Series, Verdict
from perfci.store.queries.decisions import DecisionRecord, LookRecord
from perfci.store.queries.records import MeasuredProcess
from perfci.verdicts.compare.pairwise import Look, look, screen
from perfci.verdicts.judged_series import ByCommit, gated_by_commit
from perfci.verdicts.rule import Rule


@dataclass(frozen=True, slots=True)
class Samples:
    """What one session stored: by commit, and which commits each of its pairs compared."""

    rows: Sequence[MeasuredProcess]
    measured: Mapping[str, Sequence[Measured]]
    compared: Compared
    _rounds: dict[Series, ByCommit] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[MeasuredProcess]) -> Samples:
        measured: dict[str, list[Measured]] = {}
        compared: dict[int, dict[Role, str]] = {}
        for row in rows:
            measured.setdefault(row.sha, []).append((row.series, row.process))
            if row.process.pair is not None:
                compared.setdefault(row.process.pair, {})[row.process.role] = row.sha
        return cls(rows, measured, compared)

    def by_pairs(
        self, verdict: Verdict, rule: Rule, taken: LookRecord | None = None, aa: Sequence[float] = ()
    ) -> Look | None:
        """A look at the pairs that were there when one was taken, else at all; None where the series gave nothing."""
        readings, pairs = self._readings(verdict), self.pairs(verdict, taken)
        sides = judged_sides(readings, verdict.base, verdict.head, pairs).get(verdict.series)
        if sides is None or not any(sides):
            return None
        return look(
            verdict.series, verdict.base, verdict.head, *sides,
            rule=rule, aa=aa, prior=prior_of(taken) if taken else None, stage=verdict.stage,
        )  # fmt: skip

    def by_rounds(self, verdict: Verdict, rule: Rule, prior_sd: float | None) -> Verdict | None:
        """A screening of two neighbours; None where a side gave nothing."""
        base, head = self.sides_of_rounds(verdict)
        if not base and not head:
            return None
        return screen(verdict.series, verdict.base, verdict.head, base, head, rule=rule, prior_sd=prior_sd)

    def sides_of_rounds(self, verdict: Verdict) -> Sides:
        by_sha = self.in_rounds().get(verdict.series, {})
        return by_sha.get(verdict.base, []), by_sha.get(verdict.head, [])

    def in_rounds(self) -> dict[Series, ByCommit]:
        if not self._rounds:
            self._rounds.update(gated_by_commit(self.measured))
        return self._rounds

    def pairs(self, verdict: Verdict, taken: LookRecord | None = None) -> list[int]:
        """The pairs of this verdict's question, the first ones of them where a look was taken before the last."""
        found = pairs_of(self._readings(verdict), verdict.base, verdict.head, self.compared)
        return found[: taken.spent] if taken else found

    def evidence(self, verdict: Verdict, reached: DecisionRecord) -> tuple[int, ...]:
        """The ids of the stored processes that were looked at last, those of the base first."""
        pairs = set(self.pairs(verdict, reached.looks[-1]))
        chosen = [row for row in self.rows if row.series == verdict.series]
        if reached.method != ROUNDS:
            chosen = [row for row in chosen if row.process.pair in pairs]
        return tuple(dict.fromkeys(row.id for sha in (verdict.base, verdict.head) for row in chosen if row.sha == sha))

    def _readings(self, verdict: Verdict) -> dict[str, list[Measured]]:
        cell = verdict.series.cell
        return {sha: _of_cell(self.measured.get(sha, ()), cell) for sha in (verdict.base, verdict.head)}


def _of_cell(rows: Iterable[tuple[Series, Process]], cell: str) -> list[Measured]:
    return [(series, process) for series, process in rows if series.cell == cell]
