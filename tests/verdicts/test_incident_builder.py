"""Change points of many series become incidents."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.history.incident_inputs import group_confirmations_by_series
from perfci.model import (
    ChangePoint,
    Environment,
    Incident,
    IncidentKind,
    Machine,
    PairTest,
    Series,
    VerdictKind,
)
from perfci.report.incidents.incident_text import incident_explanation
from perfci.verdicts.history.step_evidence import LevelPoint
from perfci.verdicts.incidents.incident_builder import build_incidents, is_provisional, request_cause_retests
from perfci.verdicts.incidents.step_causes import add_confirmed_steps
from tests.support.builders import a_change_point, a_machine, a_series, a_sha, a_verdict
from tests.support.level_histories import change_points_of, history_context_of, simulate_points, stepped_level

CountSeries = Callable[[Machine, str, Collection[str]], int]

STEP, LOSS, TOKENS = (a_series(f"training.Step.time_{name}") for name in ("step", "loss", "tokens"))


def test_makes_one_incident_of_all_series_that_moved_with_a_commit() -> None:
    points = {
        series: simulate_points(stepped_level((20, factor)), seed=seed)
        for seed, (series, factor) in enumerate({STEP: 1.3, LOSS: 1.1, TOKENS: 1.2}.items())
    }

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert (incident.kind, incident.last_good, incident.commit) == (
        IncidentKind.REGRESSION,
        a_sha(19),
        a_sha(20),
    )
    assert [change.series for change in incident.members] == [STEP, TOKENS, LOSS]
    assert [(candidate.commit.sha, candidate.members) for candidate in incident.candidates] == [
        (a_sha(20), 3)
    ]


def test_ranks_the_commits_of_a_range_by_the_evidence_for_each() -> None:
    points = {
        STEP: simulate_points(stepped_level((34, 1.3)), length=80, measured=lambda number: number % 5 == 0),
        LOSS: simulate_points(
            stepped_level((34, 1.3)), length=80, seed=2, measured=lambda number: number % 3 == 0
        ),
    }

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert (incident.last_good, incident.commit) == (a_sha(33), a_sha(35))
    assert [(candidate.commit.sha, candidate.members) for candidate in incident.candidates] == [
        (a_sha(34), 2),
        (a_sha(35), 2),
    ]


def test_keeps_two_commits_apart_that_a_seldom_measured_series_spans() -> None:
    often = {
        a_series(f"training.Step.time_{at}"): simulate_points(stepped_level((at, 1.2)), seed=at)
        for at in (11, 12, 13, 25, 26)
    }
    seldom = {
        TOKENS: simulate_points(
            stepped_level((12, 1.2)), measured=lambda number: number in {1, 2, 3, 4, 5} or number > 27
        )
    }

    incidents = build_incidents(change_points_of(often | seldom), history_context_of(often | seldom))

    assert len(incidents) == 5
    assert sum(len(incident.members) for incident in incidents) == 6


def test_is_mixed_when_some_got_worse_and_some_better() -> None:
    points = {
        STEP: simulate_points(stepped_level((20, 1.2))),
        LOSS: simulate_points(stepped_level((20, 0.8)), seed=2),
    }

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert incident.kind is IncidentKind.MIXED


def test_a_step_with_a_new_driver_blames_no_commit_and_lists_the_changed_values() -> None:
    points = {STEP: simulate_points(stepped_level((20, 1.2)), environment=epoch(20))}

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert (incident.kind, incident.candidates, incident.ambiguous) == (IncidentKind.ENVIRONMENT, (), False)
    assert [
        (each_change.name, each_change.before, each_change.after)
        for each_change in incident.environment_changes
    ] == [("driver", "550", "560")]
    assert incident.pair_to_measure == (a_sha(19), a_sha(20))


def test_commits_measured_in_neither_environment_make_it_ambiguous() -> None:
    points = {
        STEP: simulate_points(
            stepped_level((18, 1.2)),
            environment=epoch(20),
            measured=lambda number: number <= 15 or number >= 20,
        )
    }

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert (incident.kind, incident.ambiguous) == (IncidentKind.ENVIRONMENT, True)
    assert incident.pair_to_measure == (a_sha(15), a_sha(20))


def test_fresh_pairs_in_one_environment_outrank_the_coincidence() -> None:
    points = {STEP: simulate_points(stepped_level((20, 1.2)), environment=epoch(20))}
    verdicts = [a_verdict(STEP, base=a_sha(19), head=a_sha(20))]

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(points, confirmations=group_confirmations_by_series(verdicts)),
    )

    assert (incident.kind, incident.confirmed_count) == (IncidentKind.REGRESSION, 1)
    assert incident.pair_to_measure is None


def test_a_value_that_always_changes_explains_nothing() -> None:
    def host(number: int) -> Environment:
        return Environment((("host", f"runner-{number % 3}"),))

    points = {STEP: simulate_points(stepped_level((20, 1.2)), environment=host)}

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert incident.kind is IncidentKind.REGRESSION


def test_a_shift_that_a_canary_shares_is_attributed_to_the_machine() -> None:
    canary = a_series("canary.Matmul.time_matmul")
    points = {
        canary: simulate_points(stepped_level((20, 1.15)), seed=3),
        STEP: simulate_points(stepped_level((20, 1.2)), seed=4),
        LOSS: simulate_points(stepped_level((20, 2.5)), seed=5),
    }

    incidents = build_incidents(
        change_points_of(points),
        history_context_of(points, is_canary=lambda series: "canary" in series.label),
    )

    by_kind = {incident.kind: [change.series for change in incident.members] for incident in incidents}
    assert by_kind == {IncidentKind.MACHINE: [STEP, canary], IncidentKind.REGRESSION: [LOSS]}


def test_similar_shifts_of_most_unrelated_benchmarks_order_pairs() -> None:
    points, peers = unrelated(factor=1.06)

    (incident,) = build_incidents(change_points_of(points), history_context_of(points, count_series=peers))

    assert (incident.kind, incident.cause) == (IncidentKind.MACHINE, "machine_wide")
    assert is_provisional(incident)
    assert [candidate.commit.sha for candidate in incident.candidates] == [a_sha(20)]
    assert [(retest.base, retest.head) for retest in request_cause_retests([incident])] == [
        (a_sha(19), a_sha(20))
    ] * 3
    assert len({retest.series for retest in request_cause_retests([incident])}) == 3


def test_pairs_that_confirm_one_of_many_similar_shifts_confirm_the_code() -> None:
    points, peers = unrelated(factor=1.06)
    verdict = a_verdict(next(iter(points)), base=a_sha(19), head=a_sha(20), ratio=1.06, p_value=1e-4)

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(
            points, count_series=peers, confirmations=group_confirmations_by_series([verdict])
        ),
    )

    assert (incident.kind, len(incident.members)) == (IncidentKind.REGRESSION, 4)


def test_series_that_were_not_measured_there_do_not_outvote_a_shared_shift() -> None:
    points, _ = unrelated(factor=1.06)
    asked: list[tuple[str, Collection[str]]] = []

    def count_series(machine: Machine, unit: str, shas: Collection[str]) -> int:
        asked.append((unit, shas))
        return 7 if a_sha(20) in shas else 300

    (incident,) = build_incidents(
        change_points_of(points), history_context_of(points, count_series=count_series)
    )

    assert incident.cause == "machine_wide"
    assert asked == [("seconds", {a_sha(20)})]


@pytest.mark.parametrize(("days_apart", "is_over"), [(0.2, False), (0.5, True)])
def test_a_suspicion_that_nobody_measures_is_over_after_a_week(days_apart: float, is_over: bool) -> None:
    points, peers = unrelated(factor=1.06)
    context = history_context_of(points, count_series=peers, hours_apart=24 * days_apart)

    (incident,) = build_incidents(change_points_of(points), context)

    assert is_provisional(incident) is not is_over
    if is_over:
        assert (incident.kind, incident.cause) == (IncidentKind.REGRESSION, "unmeasured_suspicion")
        assert incident.ongoing
        assert incident.pair_to_measure == (a_sha(19), a_sha(20))
        assert incident_explanation(incident, {}) == (
            "The machine was suspected, but no new pairs were measured within 7 days, so it counts as a "
            "change of the code."
        )


def test_pairs_that_decide_nothing_leave_the_suspicion_open() -> None:
    points, peers = unrelated(factor=1.06)
    unclear = a_verdict(next(iter(points)), VerdictKind.INCONCLUSIVE, base=a_sha(19), head=a_sha(20))

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(
            points, count_series=peers, confirmations=group_confirmations_by_series([unclear])
        ),
    )

    assert is_provisional(incident)


@pytest.mark.parametrize("retested", [1, 3])
def test_pairs_that_refute_one_of_many_similar_shifts_blame_the_machine(retested: int) -> None:
    points, peers = unrelated(factor=1.06)
    verdicts = [
        a_verdict(series, VerdictKind.UNCHANGED, base=a_sha(19), head=a_sha(20), ratio=1.0, p_value=0.9)
        for series in list(points)[:retested]
    ]

    incidents = build_incidents(
        change_points_of(points),
        history_context_of(points, count_series=peers, confirmations=group_confirmations_by_series(verdicts)),
    )

    assert {(incident.kind, incident.cause) for incident in incidents} == {
        (IncidentKind.MACHINE, "machine_wide"),
        (IncidentKind.MACHINE, "refuted"),
    }
    assert request_cause_retests(incidents) == []


def test_a_shift_within_interleaved_rounds_is_attributed_to_the_code() -> None:
    points, peers = unrelated(factor=1.12)

    (incident,) = build_incidents(
        change_points_of(points), history_context_of(points, is_measured_apart=False, count_series=peers)
    )

    assert incident.kind is IncidentKind.REGRESSION


def test_many_steps_in_both_directions_in_one_session_are_one_bad_session() -> None:
    points = both_ways(length=23)

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(points, session=lambda number: "night" if number >= 20 else "day"),
    )

    assert (incident.kind, incident.cause, incident.sessions) == (
        IncidentKind.MACHINE,
        "bad_session",
        ("night",),
    )
    assert len(incident.members) == 12
    assert is_provisional(incident)


def test_a_trade_in_several_suites_that_pairs_confirm_is_no_bad_session() -> None:
    points = both_ways(length=23)
    verdict = a_verdict(next(iter(points)), base=a_sha(19), head=a_sha(20), ratio=0.75, p_value=1e-4)

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(
            points,
            session=lambda number: "night" if number >= 20 else "day",
            confirmations=group_confirmations_by_series([verdict]),
        ),
    )

    assert (incident.kind, len(incident.members)) == (IncidentKind.MIXED, 12)


def test_a_bad_session_stays_one_when_pairs_refute_most_of_it() -> None:
    points = both_ways(length=23)
    verdicts = [
        a_verdict(series, VerdictKind.UNCHANGED, base=a_sha(19), head=a_sha(20), ratio=1.0, p_value=0.9)
        for series in list(points)[:9]
    ]

    incidents = build_incidents(
        change_points_of(points),
        history_context_of(
            points,
            session=lambda number: "night" if number >= 20 else "day",
            confirmations=group_confirmations_by_series(verdicts),
        ),
    )

    assert sorted((incident.cause, len(incident.members)) for incident in incidents) == [
        ("bad_session", 3),
        ("refuted", 9),
    ]
    assert not any(map(is_provisional, incidents))


def test_a_level_that_later_sessions_confirm_is_no_bad_session() -> None:
    points = both_ways(length=40)

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert incident.kind is IncidentKind.MIXED


def test_a_reverted_step_is_a_note() -> None:
    points = {STEP: simulate_points(stepped_level((20, 1.3), (25, 1 / 1.3)))}

    (incident,) = build_incidents(change_points_of(points), history_context_of(points))

    assert (incident.kind, incident.commit, incident.reverted_by) == (
        IncidentKind.RESOLVED,
        a_sha(20),
        a_sha(25),
    )
    assert len(incident.members) == 2


def test_code_that_goes_back_and_forth_is_not_taken_for_a_machine() -> None:
    points = {STEP: simulate_points(stepped_level((9, 1.3), (18, 1 / 1.3), (27, 1.3), (36, 1 / 1.3)))}

    incidents = build_incidents(change_points_of(points), history_context_of(points))

    assert [incident.kind.value for incident in incidents] == ["improvement", "regression"] * 2


def test_fresh_pairs_add_evidence_to_that_of_the_history() -> None:
    points = {STEP: simulate_points(stepped_level((20, 1.2)))}
    verdicts = [
        a_verdict(STEP, base=a_sha(19), head=a_sha(20), p_value=1e-4),
        a_verdict(STEP, VerdictKind.UNCHANGED, base=a_sha(18), head=a_sha(19), p_value=0.9),
    ]

    (before,), (after,) = (
        build_incidents(
            change_points_of(points),
            history_context_of(points, confirmations=group_confirmations_by_series(known)),
        )
        for known in ([], verdicts)
    )

    assert (before.pair_tests, before.confirming_tests) == ((), ())
    assert after.p_value == before.p_value < 1e-9
    assert after.pair_tests == after.confirming_tests == (PairTest(2, 1e-4),)
    assert after.smallest_p_value == after.p_value


def test_fresh_pairs_without_a_change_refute_the_step() -> None:
    points = {STEP: simulate_points(stepped_level((20, 1.2)))}
    verdicts = [a_verdict(STEP, VerdictKind.UNCHANGED, base=a_sha(19), head=a_sha(20), ratio=1.001)]

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(points, confirmations=group_confirmations_by_series(verdicts)),
    )

    assert (incident.kind, incident.cause) == (IncidentKind.MACHINE, "refuted")


def test_fresh_pairs_inside_a_range_narrow_it_to_their_commit() -> None:
    points = {
        STEP: simulate_points(stepped_level((18, 1.2)), measured=lambda number: number <= 15 or number >= 20)
    }
    verdicts = [a_verdict(STEP, base=a_sha(17), head=a_sha(18))]

    (incident,) = build_incidents(
        change_points_of(points),
        history_context_of(points, confirmations=group_confirmations_by_series(verdicts)),
    )

    assert (incident.last_good, incident.commit) == (a_sha(17), a_sha(18))


def test_a_confirmation_in_a_history_too_short_for_steps_is_an_incident() -> None:
    place = {a_sha(number): number - 1 for number in range(1, 5)}
    verdicts = [a_verdict(STEP, base=a_sha(2), head=a_sha(3)), a_verdict(LOSS, base=a_sha(3), head="f" * 40)]

    changes = add_confirmed_steps([], group_confirmations_by_series(verdicts), place)
    (incident,) = build_incidents(
        changes,
        history_context_of(
            {STEP: simulate_points(stepped_level(), length=4)},
            confirmations=group_confirmations_by_series(verdicts),
        ),
    )

    assert (incident.commit, incident.confirmed_count, incident.settled) == (a_sha(3), 1, True)


def test_a_regression_recovered_later_is_not_ongoing() -> None:
    points = {STEP: simulate_points(stepped_level((10, 1.3), (30, 1 / 1.3)))}

    later, earlier = build_incidents(change_points_of(points), history_context_of(points))

    assert (earlier.kind, earlier.ongoing) == (IncidentKind.REGRESSION, False)
    assert later.kind is IncidentKind.IMPROVEMENT


def test_a_commit_no_longer_on_the_line_keeps_its_name() -> None:
    lost = a_change_point(STEP, commit="e" * 40, last_good="d" * 40)

    (incident,) = build_incidents([lost], history_context_of({STEP: simulate_points(stepped_level())}))

    assert (incident.last_good, incident.commit, incident.members) == ("d" * 40, "e" * 40, (lost,))


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(2, 40), st.integers(1, 12), st.sampled_from([0.8, 1.1, 1.3, 2.0])
    ),
    min_size=1,
    max_size=25,
    unique_by=lambda change: change[:2],
)


@given(CHANGES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_change_point_is_in_exactly_one_incident_whatever_the_order(
    drawn: list[tuple[int, int, int, float]], chance: random.Random
) -> None:
    machines = [a_machine(), a_machine("Intel")]
    series = [a_series(f"{'abc'[k % 3]}.Part.time_{k}", machine=machines[k % 2]) for k in range(6)]
    changes = [change(series[k], at, 1.0, factor, back=back) for k, at, back, factor in drawn]
    points = {item: simulate_points(stepped_level(), noise=0.05, seed=k) for k, item in enumerate(series)}
    shuffled = chance.sample(changes, len(changes))

    result, again = (build_incidents(some, history_context_of(points)) for some in (changes, shuffled))

    assert result == again
    assert sorted(map(repr, changes)) == sorted(
        repr(member) for incident in result for member in incident.members
    )
    assert len({incident.id for incident in result}) == len(result)


def test_the_id_of_an_incident_survives_another_member() -> None:
    changes = [
        a_change_point(STEP),
        a_change_point(LOSS),
        a_change_point(TOKENS, relative_change=0.5),
    ]
    existing = history_context_of({STEP: simulate_points(stepped_level())})

    item, more = (build_incidents(some, existing) for some in (changes[:1], changes))

    assert names(item) == names(more)


def names(incidents: list[Incident]) -> list[str]:
    return [incident.id for incident in incidents]


def both_ways(length: int) -> dict[Series, list[LevelPoint]]:
    """Twelve series of four suites, of which six get slower and six faster with the twentieth commit."""
    suites = ("training", "serving", "data", "audio")
    return {
        a_series(f"{suite}.Part.time_{k}"): simulate_points(
            stepped_level((20, 1.3 if k % 2 else 0.75)), seed=k, length=length
        )
        for k, suite in enumerate(suites * 3)
    }


def epoch(start: int) -> Callable[[int], Environment]:
    """A driver that is replaced before a commit."""

    def environment(number: int) -> Environment:
        return Environment((("driver", "560" if number >= start else "550"), ("torch", "2.13.0")))

    return environment


def change(series: Series, at: int, before: float, after: float, *, back: int = 1) -> ChangePoint:
    return a_change_point(
        series,
        commit=a_sha(at),
        last_good=a_sha(max(1, at - back)),
        before=before,
        after=after,
    )


def unrelated(factor: float) -> tuple[dict[Series, list[LevelPoint]], CountSeries]:
    """Four suites, one benchmark each, and one that does not move; how many series were measured."""
    names = ("training", "serving", "data", "audio")
    points = {
        a_series(f"{name}.Part.time_it"): simulate_points(stepped_level((20, factor)), seed=k)
        for k, name in enumerate(names)
    }
    points[a_series("calm.Part.time_it")] = simulate_points(stepped_level(), seed=9)
    return points, lambda machine, unit, shas: len(points)
