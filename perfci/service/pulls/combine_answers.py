"""Put the answers of orders in the place of what the run of a pull request found of the same series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfci.report.pulls.comparison_findings import Findings
from perfci.service.pulls.results_artifact_files import PullResults


def combine_answers(results: PullResults | None, answers: Sequence[PullResults]) -> PullResults | None:
    """Combine the results of a pull request with later answers; None without any.

    A series that was measured again has the verdict of the answer, so that a candidate is confirmed or
    refuted by it; the others keep theirs.
    """
    for answer in answers:
        results = answer if results is None else _put_over(results, answer)
    return results


def _put_over(results: PullResults, answer: PullResults) -> PullResults:
    if answer.findings is None:
        return results
    if results.findings is None or results.base.sha != answer.base.sha:
        return answer
    return replace(results, findings=_replace_verdicts(results.findings, answer.findings))


def _replace_verdicts(findings: Findings, answer: Findings) -> Findings:
    """A comparison that covers everything is the newer one as a whole."""
    answered = {verdict.series for verdict in answer.verdicts}
    kept = [verdict for verdict in findings.verdicts if verdict.series not in answered]
    if not kept:
        return replace(answer, main_drift=findings.main_drift, main_head=findings.main_head)
    bars = {**findings.bars_by_series, **answer.bars_by_series}
    verdicts = [*answer.verdicts, *kept]
    return replace(findings, verdicts=verdicts, bars=[bars[verdict.series] for verdict in verdicts])
