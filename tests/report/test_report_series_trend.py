"""Trends: dots, levels and marks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import ChangePoint, Point, Process, SampleSummary, Stage, Status, VerdictKind
from perfci.report.series_trend import (
    build_trend,
    downsample_trend,
)
from tests.support.report_builders import a_commit, a_failure, a_history, a_point, a_series, a_verdict


def a_change(commit: int, last_good: int, relative_change: float = 0.18) -> ChangePoint:
    return ChangePoint(
        a_series(), a_commit(commit).sha, a_commit(last_good).sha, 0.0124, 0.0124 * (1 + relative_change)
    )


def test_a_dot_is_the_level_of_a_commit_with_its_interquartile_range() -> None:
    (dot,) = build_trend(a_series(), [a_point(0, 1.0, 2.0, 3.0, 4.0, 9.0)]).dots

    assert (dot.level, dot.lo, dot.hi, dot.processes) == (3.0, 2.0, 4.0, 5)


def test_an_imported_summary_keeps_its_quartiles() -> None:
    point = Point(a_commit(0), Status.OK, summary=SampleSummary(3.0, q25=2.5, q75=3.5))

    (dot,) = build_trend(a_series(), [point]).dots

    assert (dot.level, dot.lo, dot.hi) == (3.0, 2.5, 3.5)


def test_a_failed_commit_is_neither_a_gap_nor_a_zero() -> None:
    trend = build_trend(a_series(), [a_point(0, 1.0), a_failure(1), a_point(2, 1.0)])

    assert [dot.index for dot in trend.failed_dots] == [1]
    assert [dot.level for dot in trend.dots] == [1.0, None, 1.0]


def test_a_commit_with_only_flagged_processes_is_shown_with_the_reason() -> None:
    flagged = Process(0, samples=(9.0,), flags=("spawned: CUDA", "throttled: hot"))
    clean = Process(1, samples=(1.0,))

    trend = build_trend(
        a_series(),
        [
            Point(a_commit(k), Status.OK, processes)
            for k, processes in enumerate([(flagged,), (flagged, clean)])
        ],
    )

    assert [(dot.level, dot.reason) for dot in trend.dots] == [(9.0, "not judged: throttled: hot"), (1.0, "")]


def test_a_confirmed_change_is_a_mark_that_splits_the_level() -> None:
    trend = build_trend(a_series(), a_history(), [], [a_verdict()])

    assert [(mark.index, mark.state) for mark in trend.marks] == [(18, "confirmed")]
    assert [(level.first, level.last) for level in trend.levels] == [(0, 17), (18, 29)]


def test_a_change_point_alone_is_a_candidate() -> None:
    (mark,) = build_trend(a_series(), a_history(), [a_change(18, 15)]).marks

    assert (mark.state, mark.index, mark.last_good_index, mark.kind) == (
        "candidate",
        18,
        15,
        VerdictKind.REGRESSION,
    )


def test_an_unconfirmed_candidate_is_refuted_and_splits_no_level() -> None:
    cleared = a_verdict(VerdictKind.UNCHANGED, 1.0, (0.99, 1.01))

    trend = build_trend(a_series(), a_history(), [a_change(18, 17)], [cleared])

    assert [mark.state for mark in trend.marks] == ["refuted"]
    assert len(trend.levels) == 1


def test_confirmation_outranks_screening() -> None:
    screened = a_verdict(ratio=1.3, stage=Stage.SCREENING)

    for verdicts in ([screened, a_verdict()], [a_verdict(), screened]):
        (mark,) = build_trend(a_series(), a_history(), [], verdicts).marks
        assert (mark.state, mark.ratio) == ("confirmed", 1.183)


def test_of_several_confirmations_the_newest_counts() -> None:
    newer, older = a_verdict(ratio=1.2), a_verdict(ratio=1.3, base=16)

    (mark,) = build_trend(a_series(), a_history(), [], [newer, older]).marks

    assert mark.change == newer.as_change_point


def test_a_confirmed_change_replaces_that_of_the_history() -> None:
    """Also where pairs found it within the range of commits that the history knows."""
    (mark,) = build_trend(a_series(), a_history(), [a_change(20, 15, 0.25)], [a_verdict()]).marks

    assert (mark.index, mark.state, mark.on_pairs) == (18, "confirmed", True)
    assert mark.change == a_verdict().as_change_point


def test_a_screened_change_has_the_size_of_the_history() -> None:
    screened, change = a_verdict(ratio=1.3, stage=Stage.SCREENING), a_change(18, 17)

    (mark,) = build_trend(a_series(), a_history(), [change], [screened]).marks

    assert (mark.change, mark.state, mark.on_pairs) == (change, "candidate", False)


def test_the_levels_beside_a_change_of_the_history_are_its_own() -> None:
    change = a_change(18, 17)

    before, after = build_trend(a_series(), a_history(), [change]).levels

    assert (before.value, before.end, before.is_labelled) == (change.before, change.before, True)
    assert (after.value, after.end) == (change.after, change.after)


def test_no_level_of_the_history_is_written_beside_a_size_of_pairs() -> None:
    before, after = build_trend(a_series(), a_history(), [], [a_verdict()]).levels

    assert (before.is_labelled, after.is_labelled) == (False, True)


def test_a_comparison_with_itself_or_with_later_commits_marks_nothing() -> None:
    verdicts = [a_verdict(base=18, head=18), a_verdict(base=20, head=18), a_verdict(base=3, head=99)]

    assert build_trend(a_series(), a_history(), [], verdicts).marks == ()


@given(
    count=st.integers(2, 400),
    marked=st.sets(st.integers(1, 399), max_size=6),
    failed=st.sets(st.integers(0, 399), max_size=6),
    max_dots=st.integers(1, 60),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_downsampling_never_merges_marks_nor_failures_with_values(
    count: int, marked: set[int], failed: set[int], max_dots: int
) -> None:
    points = [a_failure(k) if k in failed else a_point(k, 1.0 + k) for k in range(count)]
    trend = build_trend(a_series(), points, [a_change(k, k - 1) for k in marked if k < count])

    drawn = downsample_trend(trend, max_dots)

    alone = {dot.index for dot in drawn.dots if dot.merged == 1}
    at_marks = {place for k in marked if k < count for place in (k - 1, k)}
    assert {0, count - 1} | at_marks <= alone
    assert sum(dot.merged for dot in drawn.dots) == drawn.commit_count == count
    assert drawn.failed_commit_count == len({k for k in failed if k < count})
    assert len(drawn.dots) <= 2 * max_dots + len(at_marks) + 2
    assert [dot.index for dot in drawn.dots] == sorted({dot.index for dot in drawn.dots})
