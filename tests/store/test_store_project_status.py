"""The status of a project, without reading all of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perfci.model import Result, Series, Stage, Status, VerdictKind
from perfci.store import Store, verdicts_and_change_points
from perfci.store.queries import series_search
from perfci.store.queries.project_status import (
    DecisionCounts,
    HeadStatus,
    UnmeasuredSeries,
    count_changes_and_undecided_verdicts,
    find_newest_and_largest_changed_series,
    load_change_points_of_series,
    load_change_ratios,
    load_current_verdicts,
    load_head_status,
)
from perfci.store.writes import find_or_add_rows
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_failed_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.stored_runs import ingest_run, replace_change_points

STEP, OTHER, PEAK = a_series("suite.step"), a_series("suite.other"), a_series("suite.step", "peak")


def measured(store: Store, commit: int, *results: Result, kind: str = "history") -> None:
    with store.begin() as tx:
        run = a_run(*results, commit=a_commit(commit), session=f"{kind} {commit}")
        ingest_run(tx, run, run.session, "body", kind=kind)


def failed(series: Series) -> Result:
    return a_result(series, a_failed_process(), status=Status.FAILED, reason="boom")


def skipped(series: Series) -> Result:
    return a_result(series, a_failed_process(Status.SKIPPED), status=Status.SKIPPED, reason="no GPU")


def load_status(store: Store) -> HeadStatus:
    with store.read() as tx:
        return load_head_status(tx, PROJECT)


def ids(store: Store, *series: Series) -> list[int]:
    with store.read() as tx:
        existing = {record.series: record.id for record in series_search.search_series(tx, PROJECT)}
    return [existing[each_series] for each_series in series]


def test_the_head_has_values_failures_and_gaps(store: Store) -> None:
    gone = a_series("suite.gone")
    measured(store, 1, a_result(STEP), a_result(OTHER), a_result(PEAK), a_result(gone))
    measured(store, 2, a_result(STEP), failed(OTHER), skipped(PEAK))

    result = load_status(store)

    assert (result.head, result.measured, result.not_run) == (a_commit(2), 1, [gone])
    assert result.unmeasured == [
        UnmeasuredSeries(OTHER, Status.FAILED, "boom"),
        UnmeasuredSeries(PEAK, Status.SKIPPED, "no GPU"),
    ]


def test_counts_the_values_of_a_second_run_of_a_commit(store: Store) -> None:
    measured(store, 1, failed(STEP))
    measured(store, 1, a_result(STEP), kind="import")

    assert (load_status(store).measured, load_status(store).unmeasured) == (1, [])


def test_a_comparison_is_not_the_head(store: Store) -> None:
    measured(store, 1, a_result(STEP))
    measured(store, 2, a_result(STEP), kind="compare")

    assert load_status(store).head == a_commit(1)


def test_finds_the_head_behind_many_heads_of_pull_requests(store: Store) -> None:
    measured(store, 1, a_result(STEP))
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(number) for number in range(2, 80)])

    assert load_status(store).head == a_commit(1)


def test_a_series_that_never_had_a_value_is_not_missing(store: Store) -> None:
    measured(store, 1, skipped(PEAK), a_result(STEP))
    measured(store, 2, a_result(STEP))

    assert load_status(store).not_run == []


@pytest.mark.parametrize("commits", [(1, 2), (2, 2)], ids=["then", "both at head"])
def test_a_replaced_benchmark_version_is_not_missing(store: Store, commits: Sequence[int]) -> None:
    old, new = (a_series("suite.step", version=version) for version in ("1", "2"))
    measured(store, commits[0], a_result(old))
    measured(store, commits[1], a_result(new), kind="import")

    assert (load_status(store).measured, load_status(store).not_run) == (1, [])


def test_only_the_last_of_several_removed_versions_is_missing(store: Store) -> None:
    first, second = (a_series("suite.gone", version=version) for version in ("a", "b"))
    measured(store, 1, a_result(second))
    measured(store, 2, a_result(first))
    measured(store, 3, a_result(STEP))

    assert load_status(store).not_run == [first]


def test_a_project_without_measurements_has_no_head(store: Store) -> None:
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(1)])

    assert load_status(store) == HeadStatus()


def add_decisions(store: Store) -> None:
    """The step is confirmed and moved twice, the other one moved furthest and is undecided, the peak moved
    least.
    """
    measured(store, 1, a_result(STEP), a_result(OTHER), a_result(PEAK))
    largest, confirmed, least = ((OTHER, -0.5), (STEP, 0.2), (PEAK, 0.06))
    verdicts = [
        a_verdict(STEP),
        a_verdict(STEP, base=a_sha(2), head=a_sha(2)),
        a_verdict(OTHER, VerdictKind.INCONCLUSIVE),
        a_verdict(PEAK, stage=Stage.SCREENING),
    ]
    with store.begin() as tx:
        verdicts_and_change_points.add_verdicts(tx, PROJECT, "history 1", verdicts, NOON)
        for series, rel in (largest, confirmed, least):
            replace_change_points(tx, PROJECT, series, [a_change_point(series, relative_change=rel)])


def test_counts_decisions(store: Store) -> None:
    with store.read() as tx:
        nothing = count_changes_and_undecided_verdicts(tx, PROJECT)
    add_decisions(store)

    with store.read() as tx:
        assert (nothing, count_changes_and_undecided_verdicts(tx, PROJECT)) == (
            DecisionCounts(),
            DecisionCounts(3, 1, True),
        )


def test_names_the_series_that_moved_most_and_those_confirmed(store: Store) -> None:
    add_decisions(store)
    step, other = ids(store, STEP, OTHER)

    with store.read() as tx:
        series_ids = find_newest_and_largest_changed_series(tx, PROJECT, max_largest=1)
        assert sorted(series_ids) == sorted([step, other])


def test_loads_the_sizes_of_changes_but_not_of_unconfirmed_verdicts(store: Store) -> None:
    add_decisions(store)
    step, other, peak = ids(store, STEP, OTHER, PEAK)

    with store.read() as tx:
        ratios = load_change_ratios(tx, PROJECT)

    confirmed = a_verdict(STEP).ratio
    assert sorted(ratios) == sorted([(step, 1.2), (step, confirmed), (other, 0.5), (peak, 1.06)])


def test_loads_the_verdicts_and_change_points_of_some_series(store: Store) -> None:
    add_decisions(store)

    with store.read() as tx:
        step = ids(store, STEP)
        verdicts, changes = load_current_verdicts(tx, step), load_change_points_of_series(tx, step)

    assert [(verdict.series, verdict.base, verdict.head) for verdict in verdicts] == [
        (STEP, a_sha(2), a_sha(2)),
        (STEP, a_sha(1), a_sha(2)),
    ]
    assert changes == [a_change_point(STEP, relative_change=0.2)]
