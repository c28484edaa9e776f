"""Failures as evidence: a head whose processes fail where those of the base do not.

A process that ran out of memory has no level, so levels alone would be silent about it. With f of
n head and g of m base processes failed, the head

    has failed where all or at least half of it fails and no base process does, where two or more
    fail and no base process does, or where both fail and Fisher's exact test (1922), one-sided,
    leaves chance ``FAILURE_TEST_LEVEL`` or less;
    is inconclusive at best where it fails more often than the base otherwise.

Two of ten against none of ten happen in 0.4 % of comparisons where each process fails with 1 %, in
5 % where each fails with 5 %: such a suite has a failure to mend before it has a speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.model import Process, Status, Verdict, VerdictKind
from perfci.stats.binomial_statistics import fisher_upper_tail
from perfci.verdicts.compare.reason_text import format_ending

FAILURE_TEST_LEVEL = 0.05
"""Chance explains fewer failures than this, the usual level."""

MIN_HEAD_FAILURES = 2
"""Failures of the head alone that are no accident."""


@dataclass(frozen=True, slots=True)
class ProcessFailures:
    """How many processes failed of those that were not skipped, and how most of them ended."""

    failed: int
    total: int
    text: str

    @classmethod
    def count(cls, side: Sequence[Process]) -> ProcessFailures:
        """Count the failures of one side."""
        run = [process for process in side if process.status is not Status.SKIPPED]
        failed = [process for process in run if process.status is not Status.OK]
        if not failed:
            return cls(0, len(run), "")
        counts = Counter((process.status, process.reason) for process in failed)
        status, reason = counts.most_common(1)[0][0]
        return cls(len(failed), len(run), format_ending(status, reason))

    @property
    def count_text(self) -> str:
        """``4 of 10``."""
        return f"{self.failed} of {self.total}"


def explain_failed_head(base: Sequence[Process], head: Sequence[Process]) -> str:
    """Why the head has failed, as a sentence; empty where it has not."""
    before, after = ProcessFailures.count(base), ProcessFailures.count(head)
    if not after.failed or before.failed == before.total:
        return ""
    if not before.failed:
        if after.failed == after.total:
            return f"The base works and the head {after.text}."
        if after.failed < MIN_HEAD_FAILURES and 2 * after.failed < after.total:
            return ""
        return f"{after.count_text} head processes {after.text}, and no base process failed."
    p_value = fisher_upper_tail((after.failed, after.total), (before.failed, before.total))
    if p_value > FAILURE_TEST_LEVEL:
        return ""
    return (
        f"{after.count_text} head processes {after.text}, and {before.count_text} base processes failed:"
        f" chance would do this in {p_value:.1%}."
    )


def allow_for_failures(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """Name the failures in the reason; a head that fails more often than the base is neither
    unchanged nor better."""
    before, after = ProcessFailures.count(base), ProcessFailures.count(head)
    if not before.failed and not after.failed:
        return verdict
    counts = [
        f"{failures.count_text} {name} processes {failures.text}"
        for name, failures in (("head", after), ("base", before))
        if failures.failed
    ]
    noted = f"{verdict.reason} But {' and '.join(counts)}"
    fails_more = after.failed * before.total > before.failed * after.total
    if not fails_more or verdict.kind not in (VerdictKind.UNCHANGED, VerdictKind.IMPROVEMENT):
        return replace(verdict, reason=f"{noted}.")
    reason = f"{noted}, too few to call it failed and too many to call it well: measure it again."
    return replace(verdict, kind=VerdictKind.INCONCLUSIVE, pairs_to_decide=None, reason=reason)
