"""What each page shows, as values."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from web_builders import (
    COMMITS,
    GENERATE,
    MEMORY,
    NOW,
    STEP,
    STEP_FP32,
    STEP_TIME,
    STEP_WALL,
    a_commit,
    a_run,
    a_series,
    a_verdict,
)

from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
    Environment,
    Point,
    Process,
    Result,
    Role,
    Run,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.report.trend import Trend, trend_of
from perfci.store.records import ProjectRecord, SeriesRecord, VerdictRecord
from perfci_web.pages import benchmarks, commit, compare, measured, overview, series

PROJECT = ProjectRecord("acme/tiny-lm", COMMITS, 6, 40, 1200, NOW)
NEWEST_FIRST = [a_commit(number) for number in reversed(range(COMMITS))]


def a_record(series: Series, *, row_id: int = 1, last: int = COMMITS - 1, failed: bool = False) -> SeriesRecord:
    return SeriesRecord(row_id, series, 40, a_commit(last).sha, failed)


def a_decision(verdict: Verdict, *, session: str = "pairs-1") -> VerdictRecord:
    return VerdictRecord(1, verdict, session, NOW, None)


def a_trend(series: Series, *verdicts: Verdict) -> Trend:
    points = [Point(a_commit(k), Status.OK, (Process(0, samples=(1.0,), clock=Clock.WALL),)) for k in range(COMMITS)]
    return trend_of(series, points, [], verdicts)


SLOWER = a_verdict(STEP_TIME, STEP, VerdictKind.REGRESSION, 1.183, (1.159, 1.208))
FASTER = a_verdict(GENERATE, STEP, VerdictKind.IMPROVEMENT, 0.8, (0.79, 0.83))


def test_an_overview_leads_with_the_worst_open_regression() -> None:
    trends = [a_trend(STEP_TIME, SLOWER), a_trend(GENERATE, FASTER)]
    records = [a_record(STEP_TIME), a_record(GENERATE)]

    page = overview.overview(PROJECT, records, [a_decision(SLOWER), a_decision(FASTER)], [], NEWEST_FIRST, trends)

    assert page.sentence.headline == "1 open regression"
    assert [finding.mark.ratio for finding in page.open] == [1.183]
    assert [finding.mark.ratio for finding in page.movers] == [0.8]


def test_an_overview_counts_candidates_that_nobody_confirmed() -> None:
    confirmed = ChangePoint(STEP_TIME, SLOWER.head, SLOWER.base, 0.18, 1.0, 1.18)
    open_one = ChangePoint(MEMORY, a_commit(30).sha, a_commit(29).sha, 0.09, 1.0, 1.09)

    page = overview.overview(
        PROJECT, [], [a_decision(SLOWER)], [confirmed, open_one], NEWEST_FIRST, [a_trend(STEP_TIME, SLOWER)]
    )

    assert page.candidates == 1


def test_an_overview_of_numbers_alone_claims_nothing() -> None:
    page = overview.overview(PROJECT, [a_record(STEP_TIME)], [], [], NEWEST_FIRST, [])

    assert str(page.sentence) == "Nothing was compared yet. Measured: 6 series over 40 commits."


def test_recent_commits_carry_what_was_confirmed_with_them_and_no_suspicion() -> None:
    recent, suspected = (
        a_verdict(MEMORY, COMMITS - 2, VerdictKind.REGRESSION, 1.2, stage=stage)
        for stage in (Stage.CONVICTION, Stage.SCREENING)
    )

    page = overview.overview(PROJECT, [], [a_decision(recent), a_decision(suspected)], [], NEWEST_FIRST, [])

    assert [len(line.verdicts) for line in page.recent] == [0, 1, *[0] * 8]


def test_coverage_tells_failed_from_not_run() -> None:
    records = [a_record(STEP_TIME), a_record(STEP_FP32, failed=True), a_record(MEMORY, last=20)]

    found = overview.coverage(records, NEWEST_FIRST)

    assert found.head == a_commit(COMMITS - 1)
    assert (found.measured, found.failed, found.not_run, found.total) == (1, (STEP_FP32,), (MEMORY,), 3)


def test_coverage_does_not_wait_for_a_version_that_was_replaced() -> None:
    old = replace(STEP_TIME, benchmark=Benchmark(STEP_TIME.benchmark.name, "0"))

    found = overview.coverage([a_record(STEP_TIME), a_record(old, last=12)], NEWEST_FIRST)

    assert (found.measured, found.not_run) == (1, ())


def test_coverage_of_nothing_has_no_head() -> None:
    assert overview.coverage([SeriesRecord(1, STEP_TIME, 0, None, False)], NEWEST_FIRST).head is None


def test_an_overview_reads_only_the_histories_it_draws() -> None:
    records = [a_record(STEP_TIME, row_id=1), a_record(MEMORY, row_id=2), a_record(GENERATE, row_id=3)]
    candidate = ChangePoint(MEMORY, a_commit(30).sha, a_commit(29).sha, 0.09, 1.0, 1.09)

    assert overview.series_to_draw(records, [a_decision(SLOWER)], [candidate]) == [1, 2]


def test_benchmarks_are_cut_into_pages() -> None:
    records = [a_record(a_series(f"bench.time_{k:03}"), row_id=k) for k in range(120)]

    last = benchmarks.selection(records, {}, known=120, page=3)
    beyond = benchmarks.selection(records, {}, known=120, page=99)

    assert (last.pages, len(last.records), last.records[-1].id) == (3, 20, 119)
    assert beyond == last


@pytest.mark.parametrize(
    ("sort", "first"), [("name", GENERATE), ("change", STEP_TIME), ("state", STEP_FP32), ("x", GENERATE)]
)
def test_benchmarks_are_sorted(sort: str, first: Series) -> None:
    records = [a_record(STEP_TIME), a_record(STEP_FP32, failed=True), a_record(GENERATE)]
    sizes = benchmarks.sizes_of_changes([], [SLOWER, FASTER])
    sizes[GENERATE] = 0.1

    assert benchmarks.selection(records, sizes, known=3, sort=sort).records[0].series == first


def test_half_and_double_are_changes_of_the_same_size() -> None:
    half, double = (ChangePoint(one, "b", "a", rel, 1, 1) for one, rel in ((STEP_TIME, -0.5), (MEMORY, 1.0)))

    sizes = benchmarks.sizes_of_changes([half, double], [])

    assert sizes[STEP_TIME] == pytest.approx(sizes[MEMORY])


def test_a_suspicion_does_not_sort_like_a_finding() -> None:
    assert benchmarks.sizes_of_changes([], [replace(SLOWER, stage=Stage.SCREENING)]) == {}


def test_places_are_told_once() -> None:
    assert len(benchmarks.selection([a_record(STEP_TIME), a_record(MEMORY)], {}, known=2).places) == 1


def test_an_address_of_several_cells_means_none() -> None:
    records = [a_record(STEP_TIME), a_record(STEP_FP32)]

    assert series.chosen(records, {}) == []
    assert series.chosen(records, {"p.dtype": "'fp32'"}) == records[1:]


def test_a_series_page_lists_commits_newest_first_with_their_change() -> None:
    points = [Point(a_commit(k), Status.OK, (Process(0, samples=(level,)),)) for k, level in enumerate((2.0, 2.5))]
    failed = Point(a_commit(2), Status.TIMEOUT)
    again = Point(a_commit(3), Status.OK, (Process(0, samples=(5.0,)),))

    rows = series.lines(trend_of(STEP_TIME, [*points, failed, again]))

    assert [row.dot.index for row in rows] == [3, 2, 1, 0]
    assert [row.change for row in rows] == [1.0, None, 0.25, None]


def test_a_series_page_says_how_many_commits_are_missing() -> None:
    trend = trend_of(STEP_TIME, [Point(a_commit(k), Status.OK, (Process(0, samples=(1.0,)),)) for k in range(3)])

    assert series.series_page("p", trend, [], [a_record(STEP_TIME)]).needs == 5


def test_a_series_page_knows_its_namesakes_and_the_other_cells() -> None:
    older = replace(STEP_TIME, benchmark=Benchmark(STEP_TIME.benchmark.name, "0"))
    records = [a_record(one) for one in (STEP_TIME, STEP_FP32, older)]

    page = series.series_page("p", a_trend(STEP_TIME), [], records)

    assert page.namesakes == (STEP_TIME, older)
    assert page.cells == (STEP_TIME, STEP_FP32)


def a_comparison(*verdicts: Verdict, base: int = STEP - 1, head: int = STEP) -> compare.Comparison:
    records = [a_decision(verdict, session="history-1") for verdict in verdicts]
    return compare.comparison("p", a_commit(base), a_commit(head), records, [a_run(base)], [a_run(head)], NEWEST_FIRST)


def test_a_comparison_shows_witnesses_without_judging_them() -> None:
    page = a_comparison(SLOWER)

    assert [reading.series for reading in page.witnesses] == [STEP_WALL]
    assert page.witnesses[0].change == pytest.approx(0.183, abs=0.03)
    assert STEP_TIME not in [reading.series for reading in page.not_compared]


def test_a_comparison_without_pairs_gives_numbers_and_no_verdict() -> None:
    page = a_comparison(base=2, head=5)

    assert page.verdicts == ()
    assert str(page.sentence).endswith("were measured, but never against each other.")
    assert STEP_TIME in [reading.series for reading in page.not_compared]


def test_a_comparison_shows_only_what_differs_in_the_environment() -> None:
    assert a_comparison(SLOWER).environment == (("torch", "2.12.1", "2.13.0"),)
    assert a_comparison(base=2, head=5).environment == ()


def test_a_comparison_lists_the_commits_after_base_up_to_head() -> None:
    assert a_comparison(base=2, head=5).commits == (a_commit(5), a_commit(4), a_commit(3))
    assert a_comparison(base=5, head=2).commits == ()


def test_all_bars_of_a_comparison_share_an_axis_that_holds_them() -> None:
    assert a_comparison(SLOWER).span == pytest.approx(1.208 * 1.02)
    assert a_comparison(base=2, head=5).span == 1.1
    assert a_comparison(replace(SLOWER, ratio=40.0)).span == 4.0


def test_what_the_verdicts_rest_on_is_not_mixed_with_other_sessions() -> None:
    other = replace(a_run(STEP), session="another", environment=Environment((("torch", "9"),)))
    runs = [a_run(STEP), other]
    record = a_decision(SLOWER, session="history-1")

    page = compare.comparison("p", a_commit(STEP - 1), a_commit(STEP), [record], [a_run(STEP - 1)], runs, [])

    assert page.environment == (("torch", "2.12.1", "2.13.0"),)


def test_a_reading_of_a_commit_keeps_history_apart_from_pairs() -> None:
    def run(session: str, role: Role, value: float) -> Run:
        result = Result(STEP_TIME, Status.OK, (Process(0, role, samples=(value,), clock=Clock.WALL),))
        return replace(a_run(3), session=session, results=(result,))

    history, pairs = run("history-1", Role.HISTORY, 1.0), run("pairs-1", Role.BASE, 9.0)

    assert measured.dots_of_runs([history, pairs])[STEP_TIME].level == 1.0
    assert measured.dots_of_runs([pairs])[STEP_TIME].level == 9.0


def test_one_measured_run_outweighs_a_failed_one() -> None:
    failed = replace(a_run(3), results=(Result(STEP_TIME, Status.TIMEOUT, reason="60 s"),))
    ok = replace(a_run(3), results=(Result(STEP_TIME, Status.OK, (Process(0, samples=(1.0,)),)),))

    assert measured.dots_of_runs([ok, failed])[STEP_TIME].level == 1.0
    assert measured.dots_of_runs([failed])[STEP_TIME].reason == "60 s"


def test_comparisons_are_listed_those_decided_last_first() -> None:
    older = a_decision(replace(SLOWER, base=a_commit(1).sha, head=a_commit(2).sha))

    pairs = compare.compared_pairs([a_decision(SLOWER), a_decision(FASTER), older], NEWEST_FIRST)

    assert [(pair.base, len(pair.verdicts)) for pair in pairs] == [(a_commit(STEP - 1), 2), (a_commit(1), 1)]


def test_a_commit_page_tells_its_neighbours_and_verdicts() -> None:
    later = replace(SLOWER, base=a_commit(STEP).sha, head=a_commit(STEP + 1).sha)

    page = commit.commit_page(
        "p", a_commit(STEP), NEWEST_FIRST, [], [a_run(STEP)], [a_decision(SLOWER), a_decision(later)]
    )

    assert (page.before, page.after) == (a_commit(STEP - 1), a_commit(STEP + 1))
    assert (page.verdicts, page.later) == ((SLOWER,), (later,))
    assert page.sentence == "7 series measured; compared with another commit: 1 regression."
    assert [reading.series for reading in page.readings if reading.witness] == [STEP_WALL]


def test_a_commit_without_runs_says_so() -> None:
    bare = Commit("ab" * 20, committed_at=datetime(2026, 1, 1, tzinfo=UTC))

    page = commit.commit_page("p", bare, [bare], [], [], [])

    assert page.sentence == "Nothing was measured here."
    assert (page.before, page.after, page.environment) == (None, None, ())
