"""Format what a commit came to as a plain-text table, as Markdown, and as JSON-able values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from perfci.model import Status, Variant, VerdictKind
from perfci.number_format import format_count, format_percent, format_signed_percent
from perfci.report.commits.commit_results import CommitReport, CommitResult
from perfci.report.escaping import MAX_REASON_LENGTH, code_span, make_printable
from perfci.report.serializers import serialize_commit, serialize_series
from perfci.report.text_table import align_table
from perfci.report.verdict_text import format_in_common_unit, format_interval

HEADINGS = (
    "",
    "benchmark",
    "metric",
    "machine",
    "variant",
    "before",
    "level",
    "spread",
    "processes",
    "change",
    "95 % interval",
    "since",
    "verdict",
)
LEFT_ALIGNED = frozenset({0, 1, 2, 3, 4, 11, 12})
NAME_COLUMNS = 5

NOTHING_WORSE = "nothing got worse"


def format_commit_report(report: CommitReport, *, only_worse: bool = False, most: int | None = None) -> str:
    """Format a heading, one aligned line per series, and what the table leaves out.

    At most ``most`` rows are shown; informational series are counted, not shown.
    """
    rows = select_reported_results(report, only_worse=only_worse)
    parts = [_heading(report)]
    if rows:
        parts.append(align_table(HEADINGS, [_cells(row, report) for row in rows[:most]], LEFT_ALIGNED))
    elif only_worse:
        parts.append(NOTHING_WORSE)
    parts += _footnotes(report, rows, most)
    return "\n".join(parts)


def format_commit_report_markdown(report: CommitReport, *, only_worse: bool = False) -> str:
    """Format the same table for an issue or a pull request."""
    rows = select_reported_results(report, only_worse=only_worse)
    parts = [_heading(report, code=True)]
    if rows:
        parts.append(_markdown_table([_cells(row, report, code=True) for row in rows]))
    elif only_worse:
        parts.append(NOTHING_WORSE)
    parts += _footnotes(report, rows, None)
    return "\n\n".join(parts)


def select_reported_results(report: CommitReport, *, only_worse: bool = False) -> list[CommitResult]:
    """Select the series that are judged and have a value or failed; with ``only_worse`` those that got worse.

    Where nothing is judged, what there is is shown.
    """
    if only_worse:
        return [result for result in report.results if result.is_worse]
    measured = [result for result in report.results if result.dot.status is not Status.SKIPPED]
    return [result for result in measured if not result.informational] or measured


def serialize_commit_report(report: CommitReport) -> dict[str, Any]:
    """Serialize a commit and every series at it; levels are in the unit of their metric."""
    return {
        **serialize_commit(report.commit),
        "base": report.base.sha if report.base else None,
        "values": [serialize_commit_result(result) for result in report.results],
    }


def serialize_commit_result(result: CommitResult) -> dict[str, Any]:
    """Serialize one series at a commit; ratios are plain numbers, not percent."""
    dot, base = result.dot, result.base
    before, after = result.compared_levels
    return {
        "series": serialize_series(result.series),
        "status": dot.status.value,
        "reason": dot.reason,
        "invalid": dot.invalid,
        "level": dot.level,
        "q25": dot.lo,
        "q75": dot.hi,
        "processes": dot.processes,
        "spread": result.relative_spread,
        "informational": result.informational,
        "base": base.sha if base else None,
        "base_level": base.level if base else None,
        "before": before,
        "after": after,
        "relative_change": result.relative_change,
        "earlier_harness": result.earlier.harness if result.earlier else None,
        "earlier_commit": result.earlier.sha if result.earlier else None,
        "verdict": result.verdict_kind.value if result.verdict_kind else None,
        "verdict_label": result.outcome_label,
        "worse": result.is_worse,
    }


def _heading(report: CommitReport, *, code: bool = False) -> str:
    """Name the commit, what was measured, and what it is compared with."""
    commit, results = report.commit, report.results
    short_sha = code_span(commit.short_sha) if code else commit.short_sha
    measured = [result for result in results if result.dot.level is not None]
    parts = [format_count(len(measured), "series", "series") + " measured" if results else "not measured"]
    kinds = Counter(result.verdict_kind for result in results)
    failed = sum(result.has_failed for result in results)
    worse, better = (kinds[kind] for kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT))
    for count, word in ((failed, "failed"), (worse, "worse"), (better, "better")):
        if count:
            parts.append(f"{count:,} {word}")
    bases = _shas_of_bases(report)
    if bases:
        named = code_span(bases[0][:10]) if code else bases[0][:10]
        parts.append(f"changes since {named}" if len(bases) == 1 else "changes since the commit before")
    subject = make_printable(commit.subject)
    shown_subject = code_span(subject) if code and subject else subject
    return f"{' '.join(filter(None, (short_sha, shown_subject)))}: {', '.join(parts)}"


def _shas_of_bases(report: CommitReport) -> list[str]:
    if report.base:
        return [report.base.sha]
    return list(dict.fromkeys(result.base.sha for result in report.results if result.base))


def _cells(result: CommitResult, report: CommitReport, *, code: bool = False) -> tuple[str, ...]:
    """The cells of a row; those that say the same in every row are empty."""
    series, dot, base = result.series, result.dot, result.base
    has_machines = len({other.series.machine for other in report.results}) > 1
    # Beside a base and the size of a change stand the levels that it is the size of.
    levels = result.compared_levels if report.base else (None, dot.level)
    before, level = format_in_common_unit(levels, series.metric)
    change, spread = result.relative_change, result.relative_spread
    interval = result.verdict.interval if result.verdict else None
    machine = series.machine.label if has_machines else ""
    names = (series.cell, series.metric.name, machine, _differing_variant_label(series.variant, report))
    shown = [code_span(name, in_table=True) if code and name else make_printable(name) for name in names]
    reason = make_printable(dot.reason, MAX_REASON_LENGTH) if result.has_failed and not dot.invalid else ""
    return (
        result.outcome_glyph,
        *shown,
        before if report.base else "",
        level,
        "" if spread is None else format_percent(spread),
        str(dot.processes) if dot.processes else "",
        "" if change is None else format_signed_percent(change),
        format_interval(interval) if interval and report.base else "",
        base.sha[:10] if base and len(_shas_of_bases(report)) > 1 else "",
        ": ".join(filter(None, (make_printable(result.outcome_label, MAX_REASON_LENGTH), reason))),
    )


def _differing_variant_label(variant: Variant, report: CommitReport) -> str:
    """The axes of a variant in which the variants of a report differ; empty where all are the same."""
    common = set.intersection(*(set(result.series.variant.values) for result in report.results))
    return Variant(tuple(axis for axis in variant.values if axis not in common)).label


def _footnotes(report: CommitReport, rows: Sequence[CommitResult], most: int | None) -> list[str]:
    """Say what the table leaves out, and which metrics cannot be measured here, one line per reason."""
    notes = []
    if most is not None and len(rows) > most:
        notes.append(f"… and {len(rows) - most:,} more: perfci show {report.commit.short_sha}")
    shown = set(map(id, rows))
    hidden = [r for r in report.results if r.informational and r.dot.level is not None and id(r) not in shown]
    if hidden:
        notes.append(f"{format_count(len(hidden), 'informational series', 'informational series')} in --json")
    skipped = [result for result in report.results if result.dot.status is Status.SKIPPED]
    return notes + format_unavailable(skipped)


def format_unavailable(skipped: Iterable[CommitResult]) -> list[str]:
    """Name each reason why metrics cannot be measured once, with the metrics it holds for."""
    metrics: dict[str, dict[str, None]] = {}
    for result in skipped:
        metrics.setdefault(result.dot.reason, {})[result.series.metric.name] = None
    lines = []
    for reason, names in metrics.items():
        text = make_printable(reason, MAX_REASON_LENGTH) or "no reason was given"
        lines.append(f"not available here: {make_printable(', '.join(names), MAX_REASON_LENGTH)}: {text}")
    return lines


def _markdown_table(rows: Sequence[tuple[str, ...]]) -> str:
    used = [k for k in range(len(HEADINGS)) if any(row[k] for row in rows)]
    lines = [[HEADINGS[k] for k in used], ["---" if k in LEFT_ALIGNED else "---:" for k in used]]
    lines += [[row[k].replace("|", r"\|") if k >= NAME_COLUMNS else row[k] for k in used] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
