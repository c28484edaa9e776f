"""The view models: what each page shows, as values."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from web_builders import (
    COMMITS,
    EMULATED,
    FLOPS,
    FP16,
    GENERATE,
    LOSS_CPU,
    LOSS_WALL,
    MEMORY,
    MFU,
    NO_ALLOCATOR,
    NOW,
    STALL,
    STATE_BYTES,
    STEP,
    STEP_FP32,
    STEP_TIME,
    STEP_WALL,
    UNAVAILABLE,
    a_commit,
    a_run,
    a_series,
    a_verdict,
)

from perfci.history.comparisons.run_level_columns import RunLevels, find_judged
from perfci.history.comparisons.series_columns import SeriesColumns
from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
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
from perfci.report.commits import measurements_by_series as measured
from perfci.report.comparisons.comparison_rows import (
    ComparisonRow,
    SideLevel,
    build_verdict_rows,
    choose_axis_span,
)
from perfci.report.comparisons.row_table import RowTable
from perfci.report.series_trend import Trend, build_trend
from perfci.report.trend_dots import Dot
from perfci.store.projects import Project
from perfci.store.queries.project_status import DecisionCounts, HeadStatus, UnmeasuredSeries
from perfci.store.queries.query_records import ProjectRecord, SeriesRecord, VerdictRecord
from perfci.verdicts.judging_policy import Policy
from perfci_web.benchmarks import view_model as benchmarks
from perfci_web.commits import view_model as commit
from perfci_web.commits.load_values import derive_shown_levels
from perfci_web.comparisons import view_model as compare
from perfci_web.comparisons.load_comparison import LoadedComparison
from perfci_web.comparisons.sides import Side
from perfci_web.comparisons.table_query import TableQuery, build_comparison_table, parse_table_query
from perfci_web.load_series_trends import VerdictsAndChangePoints
from perfci_web.overview import view_model as overview
from perfci_web.series import view_model as series
from perfci_web.series.load_series import LoadedSeries
from perfci_web.view_parts.list_search_and_paging import ListQuery, parse_list_query
from perfci_web.view_parts.table_row_groups import (
    MissingReason,
)

PROJECT = ProjectRecord("acme/tiny-lm", COMMITS, 8, 2, 40, 1200, NOW)
NEWEST_FIRST = [a_commit(number) for number in reversed(range(COMMITS))]


def a_record(
    series: Series,
    *,
    row_id: int = 1,
    last: int = COMMITS - 1,
    status: Status = Status.OK,
    reason: str = "",
    never: bool = False,
    clock: Clock = Clock.CPU,
) -> SeriesRecord:
    return SeriesRecord(
        row_id, series, never, None if never else clock, 40, a_commit(last).sha, status, reason
    )


def a_skipped_record(series: Series, reason: str, *, row_id: int = 1) -> SeriesRecord:
    return a_record(series, row_id=row_id, status=Status.SKIPPED, reason=reason, never=True)


def a_decision(verdict: Verdict, *, session: str = "pairs-1") -> VerdictRecord:
    return VerdictRecord(1, verdict, session, NOW, None)


def a_trend(series: Series, *verdicts: Verdict) -> Trend:
    points = [
        Point(a_commit(k), Status.OK, (Process(0, samples=(1.0,), clock=Clock.WALL),)) for k in range(COMMITS)
    ]
    return build_trend(series, points, [], verdicts)


SLOWER = a_verdict(STEP_TIME, STEP, VerdictKind.REGRESSION, 1.183, (1.159, 1.208))
FASTER = a_verdict(GENERATE, STEP, VerdictKind.IMPROVEMENT, 0.8, (0.79, 0.83))


NOTHING, NO_TALLY, UNDECIDED = overview.HeadCoverage(None), DecisionCounts(), VerdictsAndChangePoints((), ())


def an_overview(
    *trends: Trend, counts: DecisionCounts = NO_TALLY, decided: VerdictsAndChangePoints = UNDECIDED
) -> overview.Overview:
    return overview.build_overview(PROJECT, NOTHING, counts, decided, trends, NEWEST_FIRST)


def test_lists_the_worst_open_regression_first() -> None:
    page = an_overview(a_trend(STEP_TIME, SLOWER), a_trend(GENERATE, FASTER))

    assert page.sentence.headline == "1 open regression"
    assert [finding.mark.ratio for finding in page.open_regressions] == [1.183]
    assert [finding.mark.ratio for finding in page.largest_changes] == [0.8]


def test_counts_unconfirmed_candidates() -> None:
    confirmed = ChangePoint(STEP_TIME, SLOWER.head, SLOWER.base, 1.0, 1.18)
    open_one = ChangePoint(STEP_TIME, a_commit(30).sha, a_commit(29).sha, 1.0, 1.09)
    decided = VerdictsAndChangePoints([SLOWER], [confirmed, open_one])

    page = an_overview(a_trend(STEP_TIME, SLOWER), counts=DecisionCounts(change_points=5), decided=decided)

    assert page.candidates == 4


def test_claims_nothing_without_verdicts() -> None:
    assert str(an_overview().sentence) == "Nothing was compared yet. Measured: 6 series over 40 commits."


def test_shows_confirmed_changes_of_recent_commits_and_no_candidates() -> None:
    recent, suspected = (
        a_verdict(MEMORY, COMMITS - 2, VerdictKind.REGRESSION, 1.2, stage=stage)
        for stage in (Stage.CONFIRMATION, Stage.SCREENING)
    )

    page = an_overview(decided=VerdictsAndChangePoints([recent, suspected], []))

    assert [len(line.verdicts) for line in page.recent_commits] == [0, 1, *[0] * 8]


def test_distinguishes_four_kinds_of_coverage() -> None:
    ended = [
        UnmeasuredSeries(STEP_FP32, Status.OOM, "out of memory"),
        UnmeasuredSeries(MFU, Status.SKIPPED, "no peak is known"),
    ]

    coverage = overview.build_head_coverage(HeadStatus(a_commit(39), 1, ended, [MEMORY]))

    assert coverage.head == a_commit(39)
    assert [(share.label, share.count) for share in coverage.coverage_shares] == [
        ("measured", 1),
        ("not available", 1),
        ("failed", 1),
        ("not run", 1),
    ]
    assert (coverage.failed, coverage.not_run) == (
        (MissingReason("oom: out of memory", (STEP_FP32,)),),
        (MEMORY,),
    )


def test_shows_a_reason_of_missing_coverage_once() -> None:
    ended = [UnmeasuredSeries(series, Status.SKIPPED, reason) for series, reason in UNAVAILABLE.items()]

    unavailable = overview.build_head_coverage(HeadStatus(a_commit(39), 0, ended)).unavailable

    assert [(reason.text, len(reason.series)) for reason in unavailable] == [
        (EMULATED, 3),
        (NO_ALLOCATOR, 1),
        ("the peak of this CPU is not known", 1),
    ]


def test_links_only_series_that_the_overview_names() -> None:
    many = [a_series(f"train.time_{number:03}") for number in range(300)]

    page = overview.build_overview(
        PROJECT,
        overview.HeadCoverage(a_commit(39), not_run=tuple(many)),
        DecisionCounts(),
        VerdictsAndChangePoints((), ()),
        (),
    )

    assert (len(page.linked_series), page.coverage.coverage_shares[3].count) == (20, 300)


def test_splits_benchmarks_into_pages() -> None:
    records = [a_record(a_series(f"bench.time_{k:03}"), row_id=k) for k in range(120)]

    last = benchmarks.select_series_page(benchmarks.build_series_list(records), {}, page=3)
    beyond = benchmarks.select_series_page(benchmarks.build_series_list(records), {}, page=99)

    assert (last.pages, len(last.series), last.series[-1].id) == (3, 20, 119)
    assert beyond == last


@pytest.mark.parametrize(("ranks", "first"), [({}, GENERATE), ({1: 0.2, 3: 0.1}, STEP_TIME)])
def test_sorts_benchmarks_by_rank_then_name(ranks: dict[int, float], first: Series) -> None:
    series = (STEP_TIME, STEP_FP32, GENERATE)
    records = [a_record(item, row_id=row_id) for row_id, item in enumerate(series, start=1)]

    assert (
        benchmarks.select_series_page(benchmarks.build_series_list(records), ranks).series[0].series == first
    )


def test_sorts_by_name_if_the_sort_is_unknown() -> None:
    assert (
        benchmarks.select_series_page(benchmarks.build_series_list([a_record(STEP_TIME)]), {}, sort="x").sort
        == "name"
    )


def the_many() -> list[SeriesRecord]:
    """All metrics of one cell, stored in this order."""
    stored = (STALL, LOSS_WALL, STATE_BYTES, LOSS_CPU)
    clocks = {STALL: Clock.INFORMATIONAL, LOSS_WALL: Clock.WALL, STATE_BYTES: Clock.EXACT}
    measured = [
        a_record(series, row_id=k, clock=clocks.get(series, Clock.CPU))
        for k, series in enumerate(stored, start=2)
    ]
    return [*measured, a_skipped_record(MFU, "no peak is known", row_id=9)]


def test_orders_judged_metrics_with_their_clock_twins_before_informational_metrics() -> None:
    page = benchmarks.select_series_page(benchmarks.build_series_list([a_record(STEP_TIME), *the_many()]), {})

    assert [cell.series.cell for cell in page.cells] == [LOSS_CPU.cell, STEP_TIME.cell]
    assert [row.series for row in page.cells[0].rows] == [LOSS_CPU, LOSS_WALL, STATE_BYTES, STALL]


def test_sorts_the_largest_change_first_within_a_cell() -> None:
    page = benchmarks.select_series_page(benchmarks.build_series_list(the_many()), {4: 0.5}, sort="change")

    assert page.series[0].series == STATE_BYTES


def test_leaves_out_and_counts_unmeasured_series() -> None:
    page = benchmarks.select_series_page(benchmarks.build_series_list(the_many()), {})
    request = benchmarks.select_series_page(
        benchmarks.build_series_list(the_many()), {}, show=benchmarks.UNAVAILABLE
    )

    assert (page.total, page.measured, page.unavailable) == (4, 4, 1)
    assert [each_series.series for each_series in request.series] == [MFU]
    assert benchmarks.group_unmeasured_series_by_reason(the_many(), "mfu") == (
        MissingReason("no peak is known", (MFU,)),
    )


def test_never_splits_a_cell_across_pages() -> None:
    metrics = [a_series(f"bench.measure_{k}", f"metric_{item}") for k in range(3) for item in range(30)]
    records = [a_record(series, row_id=k) for k, series in enumerate(metrics)]

    pages = [
        benchmarks.select_series_page(benchmarks.build_series_list(records), {}, page=number)
        for number in (1, 2, 3)
    ]

    assert [[len(cell.rows) for cell in page.cells] for page in pages] == [[30], [30], [30]]


def test_ranks_halving_and_doubling_equally() -> None:
    sizes = benchmarks.rank_by_largest_change([(1, 0.5), (2, 2.0), (2, 1.1)])

    assert sizes[1] == pytest.approx(sizes[2])


def test_finds_no_series_for_an_ambiguous_address() -> None:
    records = [a_record(STEP_TIME), a_record(STEP_FP32)]

    assert series.find_series_of_url(records, {}) == (None, records)
    assert series.find_series_of_url(records, {"p.dtype": "'fp32'"}) == (records[1], records[1:])


def test_lists_commits_newest_first_with_their_change() -> None:
    points = [
        Point(a_commit(k), Status.OK, (Process(0, samples=(level,)),)) for k, level in enumerate((2.0, 2.5))
    ]
    failed = Point(a_commit(2), Status.TIMEOUT)
    again = Point(a_commit(3), Status.OK, (Process(0, samples=(5.0,)),))

    rows = series.build_commit_rows(build_trend(STEP_TIME, [*points, failed, again]))

    assert [row.dot.index for row in rows] == [3, 2, 1, 0]
    assert [row.relative_change for row in rows] == [1.0, None, 0.25, None]


def test_counts_the_commits_missing_for_change_points() -> None:
    trend = build_trend(
        STEP_TIME, [Point(a_commit(k), Status.OK, (Process(0, samples=(1.0,)),)) for k in range(3)]
    )

    assert series.build_series_view(a_loaded(trend), [], [a_record(STEP_TIME)], {}).commits_needed == 5


def test_links_namesakes_and_other_parameters_of_a_series() -> None:
    older = replace(STEP_TIME, benchmark=Benchmark(STEP_TIME.benchmark.name, "0"))
    records = [a_record(item) for item in (STEP_TIME, STEP_FP32, older)]

    page = series.build_series_view(a_loaded(a_trend(STEP_TIME)), [], records, {})

    assert [choice.series for choice in page.places] == [STEP_TIME]
    assert [(choice.label, choice.is_current) for choice in page.parameters] == [
        ("batch = 8, dtype = 'bf16'", True),
        ("batch = 8, dtype = 'fp32'", False),
    ]


def test_lists_other_metrics_of_the_same_processes() -> None:
    records = [*the_many(), a_record(FP16[0])]
    page = series.build_series_view(a_loaded(a_trend(STALL), judged=False), [], records, {})

    assert [metric.series for metric in page.metrics] == [LOSS_CPU, LOSS_WALL, STATE_BYTES, STALL, MFU]


def test_shows_the_level_of_the_clock_twin() -> None:
    records = the_many()
    wall, cpu = (
        next(record for record in records if record.series == series) for series in (LOSS_WALL, LOSS_CPU)
    )

    loaded = a_loaded(a_trend(LOSS_WALL), judged=False, twin=a_trend(LOSS_CPU))
    page = series.build_series_view(loaded, [], records, {})

    assert (
        series.find_series_of_other_clock(wall, records),
        series.find_series_of_other_clock(cpu, records),
    ) == (cpu, wall)
    assert series.find_series_of_other_clock(records[0], records) is None
    assert page.twin == series.ClockTwin(LOSS_CPU, "1.000 s", is_cpu=True)


def test_marks_a_skipped_series_unavailable() -> None:
    skipped = build_trend(MFU, [Point(a_commit(1), Status.SKIPPED, reason="no peak is known")])

    page = series.build_series_view(a_loaded(skipped), [], the_many(), {})

    assert not page.available
    assert str(page.sentence).endswith("mfu cannot be measured on this machine. Reason: no peak is known.")


def a_loaded(trend: Trend, *, judged: bool = True, twin: Trend | None = None) -> LoadedSeries:
    project = Project(1, "p", "public", 1, {}, archived=False)
    return LoadedSeries(project, a_record(trend.series), trend, judged, twin)


def a_comparison(*verdicts: Verdict, levels: bool = False) -> compare.ComparisonView:
    """A comparison of two commits by these verdicts; with ``levels``, what neither side could measure too."""
    skipped = {series: SideLevel(None, Status.SKIPPED, reason) for series, reason in UNAVAILABLE.items()}
    sides = {series: (side, side) for series, side in skipped.items()}
    decided = {verdict.series for verdict in verdicts}
    rows = build_verdict_rows(verdicts, sides, Policy().is_gating)
    if levels:
        rows += [
            ComparisonRow(series, series, side, side)
            for series, side in skipped.items()
            if series not in decided
        ]
    base, head = (Side(item.sha, "", item) for item in (a_commit(STEP - 1), a_commit(STEP)))
    records = tuple(map(a_decision, verdicts))
    return compare.build_comparison_view(
        "p", LoadedComparison(base, head, records, RowTable.from_rows(rows), (), (), (), 0)
    )


def test_shows_once_why_neither_side_was_measured() -> None:
    missing = a_verdict(FP16[0], STEP, VerdictKind.MISSING, reason="There is nothing to compare")

    page = a_comparison(SLOWER, missing, levels=True)

    assert next((reason.text, len(reason.series)) for reason in page.unavailable) == (EMULATED, 3)
    assert [row.series for row in page.rows] == [STEP_TIME]
    assert page.verdicts == (SLOWER, missing)


def many_verdicts(count: int) -> list[Verdict]:
    return [
        replace(
            SLOWER, series=a_series(f"many.time_{k:03}"), kind=VerdictKind.UNCHANGED, ratio=1 + k / 10_000
        )
        for k in range(count)
    ]


def test_lists_apart_what_moved_with_a_change() -> None:
    ttft, e2el = (
        replace(SLOWER, series=a_series("gpt.Gpt.measure_generation", name)) for name in ("ttft", "e2el")
    )
    smaller, count = replace(e2el, ratio=1.01), replace(SLOWER, series=FLOPS)
    (unchanged,) = many_verdicts(1)

    page = a_comparison(ttft, smaller, count, unchanged)

    assert [row.verdict for row in page.rows if not row.explains] == [ttft, unchanged]
    assert [row.verdict for row in page.rows if row.explains] == [smaller, count]
    assert page.primary_verdicts == [ttft, unchanged]
    assert compare.serialize_comparison(page)["counts"] == {"regression": 1, "unchanged": 1}
    assert str(page.sentence).startswith(
        "1 regression, 1 unchanged. Worst: gpt.Gpt.measure_generation · ttft"
    )


def test_cuts_the_table_of_a_comparison_by_search_filter_and_page() -> None:
    rows = a_comparison(SLOWER, *many_verdicts(120)).rows

    matching = build_comparison_table(rows, TableQuery("many time_11", show="all"))
    beyond = build_comparison_table(rows, TableQuery(show="unchanged", page=99))

    assert (matching.total, matching.pages, matching.shown) == (10, 1, "all")
    assert (beyond.total, beyond.page, beyond.pages, len(beyond.rows)) == (120, 3, 3, 20)
    assert build_comparison_table(rows, TableQuery()).shown == "attention"
    assert build_comparison_table(rows.take(np.arange(1, len(rows))), TableQuery()).shown == "all"


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({}, ListQuery()),
        ({"q": " a b ", "show": "unchanged", "page": "2"}, ListQuery("a b", "unchanged", 2)),
        ({"show": "no such", "page": "-1"}, ListQuery()),
        ({"show": "notable", "page": "9" * 40}, ListQuery(shown="notable")),
        ({"page": "0"}, ListQuery()),
    ],
)
def test_reads_a_list_from_an_address(arguments: dict[str, str], query: ListQuery) -> None:
    assert parse_list_query(arguments, ("notable", "unchanged")) == query


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({}, TableQuery()),
        (
            {"q": " a ", "show": "better", "group": "suite", "page": "2"},
            TableQuery("a", "better", "suite", page=2),
        ),
        ({"show": "no such", "group": "x", "sort": "x", "columns": "x", "page": "-1"}, TableQuery()),
        (
            {"sort": "change", "columns": "expert", "page": "9" * 40},
            TableQuery(sort="change", columns="expert"),
        ),
    ],
)
def test_reads_a_table_from_an_address(arguments: dict[str, str], query: TableQuery) -> None:
    assert parse_table_query(arguments) == query


def test_draws_all_intervals_on_a_shared_axis() -> None:
    assert choose_axis_span(a_comparison(SLOWER).rows) == pytest.approx(1.208 * 1.02)
    assert choose_axis_span([]) == 1.1
    assert choose_axis_span(a_comparison(replace(SLOWER, ratio=40.0)).rows) == 4.0


def test_separates_history_processes_from_pairs() -> None:
    def run(session: str, role: Role, value: float) -> Run:
        result = Result(STEP_TIME, Status.OK, (Process(0, role, samples=(value,), clock=Clock.WALL),))
        return replace(a_run(3), session=session, results=(result,))

    history, pairs = run("history-1", Role.HISTORY, 1.0), run("pairs-1", Role.BASE, 9.0)

    assert measured.merge_runs_into_dots([history, pairs])[STEP_TIME].level == 1.0
    assert measured.merge_runs_into_dots([pairs])[STEP_TIME].level == 9.0


def test_prefers_a_measured_run_to_a_failed_run() -> None:
    failed = replace(a_run(3), results=(Result(STEP_TIME, Status.TIMEOUT, reason="60 s"),))
    ok = replace(a_run(3), results=(Result(STEP_TIME, Status.OK, (Process(0, samples=(1.0,)),)),))

    assert measured.merge_runs_into_dots([ok, failed])[STEP_TIME].level == 1.0
    assert measured.merge_runs_into_dots([failed])[STEP_TIME].reason == "60 s"


def commit_values(*runs: Run) -> commit.CommitValues:
    """What these runs came to, their series numbered from one."""
    shown = derive_shown_levels(runs)
    series = SeriesColumns.build(dict(enumerate(shown, start=1)))
    levels = RunLevels.build([], dict(enumerate(shown.values(), start=1)), series)
    return commit.CommitValues(series, levels, find_judged(series, [levels], lambda _: []))


def no_dots(series_ids: Collection[int]) -> dict[Series, Dot]:
    assert not series_ids
    return {}


def test_shows_neighbours_and_verdicts_of_a_commit() -> None:
    later = replace(SLOWER, base=a_commit(STEP).sha, head=a_commit(STEP + 1).sha)

    page = commit.build_commit_view(
        "p",
        a_commit(STEP),
        NEWEST_FIRST,
        [],
        commit_values(a_run(STEP)),
        [a_decision(SLOWER), a_decision(later)],
    )

    assert (page.before, page.after) == (a_commit(STEP - 1), a_commit(STEP + 1))
    assert (page.verdicts, page.verdicts_as_base) == ((SLOWER,), (later,))
    assert (
        page.sentence
        == "11 series measured; 5 not available here; compared with another commit: 1 regression."
    )
    lists = commit.paginate_lists(page, ListQuery(), lambda _: measured.merge_runs_into_dots([a_run(STEP)]))
    assert {row.series for cell in lists.informational.rows for row in cell.rows} == {
        STEP_WALL,
        LOSS_WALL,
        STALL,
    }
    assert next((reason.text, len(reason.series)) for reason in lists.unavailable) == (EMULATED, 3)
    assert (lists.compared.rows, lists.base.rows) == ((SLOWER,), (later,))


def test_values_of_a_commit_that_moved_come_first_with_their_change() -> None:
    history = ChangePoint(MEMORY, a_commit(STEP).sha, a_commit(STEP - 1).sha, 400e6, 412e6)
    elsewhere = replace(SLOWER, series=FLOPS, base=a_commit(1).sha)
    decisions = [a_decision(SLOWER), a_decision(elsewhere)]

    page = commit.build_commit_view(
        "p", a_commit(STEP), NEWEST_FIRST, [], commit_values(a_run(STEP)), decisions, [history]
    )

    dots = measured.merge_runs_into_dots([a_run(STEP)])
    cells = commit.paginate_lists(page, ListQuery(), lambda _: dots).measured.rows
    assert [row.change for cell in cells for row in cell.rows if row.change] == [
        SLOWER.as_change_point,
        history,
    ]
    assert cells[0].series == STEP_TIME


def test_groups_failures_of_a_commit_by_reason() -> None:
    failed = [Result(item, Status.TIMEOUT, reason="60 s") for item in (STEP_TIME, STEP_FP32)]
    run = replace(a_run(3), results=(*failed, Result(MEMORY, Status.FAILED, reason="boom")))

    page = commit.build_commit_view("p", a_commit(3), NEWEST_FIRST, [], commit_values(run), [])

    lists = commit.paginate_lists(page, ListQuery(), no_dots)
    assert lists.failed == (
        MissingReason("timeout: 60 s", (STEP_TIME, STEP_FP32)),
        MissingReason("boom", (MEMORY,)),
    )
    assert lists.measured.rows == ()
    found = commit.paginate_lists(page, ListQuery("peakmem"), no_dots)
    assert found.failed == (MissingReason("boom", (MEMORY,)),)
    assert page.sentence == "0 series measured; 3 failed."


def test_explains_a_commit_without_runs() -> None:
    bare = Commit("ab" * 20, committed_at=datetime(2026, 1, 1, tzinfo=UTC))

    page = commit.build_commit_view("p", bare, [bare], [], commit_values(), [])

    assert page.sentence == "Nothing was measured here."
    assert (page.before, page.after, page.environment) == (None, None, ())
