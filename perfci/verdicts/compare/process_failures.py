"""Failures as evidence: a head whose processes fail where those of the base do not.

A process that ran out of memory has no level, so levels alone would be silent about it. With f of
n head and g of m base processes failed, the head has failed where f or more are improbable,

    g = 0:  sum over k >= f of C(n, k) q^k (1 - q)^(n - k) <= ``FAILURE_TEST_LEVEL``,
            a binomial tail at the rate q = ``SOUND_FAILURE_RATE`` of a suite with nothing to mend;
    g > 0:  Fisher's exact test (1922), one-sided, since the base shows that the suite is no sound one.

It is inconclusive at best where it fails more often than the base otherwise. So one of one or two
processes has failed, two of 3 to 18, three of 19 to 41; but not two of 40.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import bdtrc

from perfci.model import Process, Status, Verdict, VerdictKind
from perfci.number_format import format_percent
from perfci.stats.binomial_statistics import fisher_upper_tail
from perfci.verdicts.compare.reason_text import format_process_ending

FAILURE_TEST_LEVEL = 0.05
"""Chance explains fewer failures than this, the usual level."""

SOUND_FAILURE_RATE = 0.02
"""Share of processes that fail by accident in a sound suite: 1.5 % of test runs at Google do (Micco 2016)."""


@dataclass(frozen=True, slots=True)
class ProcessFailures:
    """How many processes failed of those that were not skipped, and how most of them ended."""

    failed: int
    total: int
    text: str

    @classmethod
    def from_processes(cls, side: Sequence[Process]) -> ProcessFailures:
        """Count the failures of one side."""
        run = [process for process in side if process.status is not Status.SKIPPED]
        failed = [process for process in run if process.status is not Status.OK]
        if not failed:
            return cls(0, len(run), "")
        counts = Counter((process.status, process.reason) for process in failed)
        status, reason = counts.most_common(1)[0][0]
        return cls(len(failed), len(run), format_process_ending(status, reason))

    @property
    def count_text(self) -> str:
        """``4 of 10``."""
        return f"{self.failed} of {self.total}"


def explain_failed_head(base: Sequence[Process], head: Sequence[Process]) -> str:
    """Why the head has failed, as a sentence; empty where it has not."""
    before, after = ProcessFailures.from_processes(base), ProcessFailures.from_processes(head)
    if not after.failed or before.failed == before.total:
        return ""
    if before.failed:
        p_value = fisher_upper_tail((after.failed, after.total), (before.failed, before.total))
        evidence = (
            f"{before.count_text} base processes failed: chance would do this in {format_percent(p_value)}"
        )
    else:
        p_value = float(bdtrc(after.failed - 1, after.total, SOUND_FAILURE_RATE))
        evidence = "no base process failed"
    if p_value > FAILURE_TEST_LEVEL:
        return ""
    if not before.failed and after.failed == after.total:
        return f"The base works and the head {after.text}."
    return f"{after.count_text} head processes {after.text}, and {evidence}."


def adjust_verdict_for_failures(
    verdict: Verdict, base: Sequence[Process], head: Sequence[Process]
) -> Verdict:
    """Name the failures in the reason; a head that fails more often than the base is neither
    unchanged nor better."""
    before, after = ProcessFailures.from_processes(base), ProcessFailures.from_processes(head)
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
