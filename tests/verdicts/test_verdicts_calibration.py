"""What counts as a false alarm, and what became of candidates and confirmations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfci.model import Stage, VerdictKind
from perfci.verdicts.verdict_calibration import (
    CandidateCounts,
    ConfirmationCounts,
    FalseAlarmRate,
    count_candidate_fates,
    count_false_alarms,
    count_retracted_confirmations,
)

LOOK, FRESH = Stage.SCREENING, Stage.CONFIRMATION
WORSE, BETTER, SAME, OPEN = (
    VerdictKind.REGRESSION,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
    VerdictKind.INCONCLUSIVE,
)

GIVEN = st.tuples(st.sampled_from(Stage), st.sampled_from(VerdictKind))


def test_screening_and_confirmation_are_counted_apart() -> None:
    false_alarms = count_false_alarms(
        {(LOOK, SAME): 90, (LOOK, WORSE): 6, (LOOK, BETTER): 4, (FRESH, SAME): 9, (FRESH, BETTER): 1}
    )

    assert (false_alarms.screening, false_alarms.confirmed) == (
        FalseAlarmRate(10, 100),
        FalseAlarmRate(1, 100),
    )
    assert false_alarms.confirmed.interval[1] < 0.055


def test_a_crash_of_an_equal_commit_is_an_alarm_at_once() -> None:
    false_alarms = count_false_alarms({(LOOK, SAME): 99, (LOOK, VerdictKind.FAILED): 1})

    assert (false_alarms.screening, false_alarms.confirmed) == (
        FalseAlarmRate(1, 100),
        FalseAlarmRate(1, 100),
    )


def test_what_could_not_be_compared_makes_the_meter_look_no_better() -> None:
    false_alarms = count_false_alarms(
        {(LOOK, OPEN): 3, (LOOK, VerdictKind.MISSING): 40, (FRESH, VerdictKind.NOT_COMPARABLE): 2}
    )

    assert (false_alarms.screening, false_alarms.confirmed, false_alarms.not_compared) == (
        FalseAlarmRate(0, 3),
        FalseAlarmRate(0, 3),
        42,
    )


def test_nothing_given_has_no_share() -> None:
    assert (count_false_alarms({}).confirmed.share, count_false_alarms({}).confirmed.interval) == (
        None,
        (0.0, 1.0),
    )


@given(st.dictionaries(GIVEN, st.integers(0, 50)))
def test_every_verdict_is_counted_once(given_: dict[tuple[Stage, VerdictKind], int]) -> None:
    false_alarms = count_false_alarms(given_)

    nominated = sum(given_.get((LOOK, kind), 0) for kind in (WORSE, BETTER))
    assert false_alarms.confirmed.verdicts + nominated + false_alarms.not_compared == sum(given_.values())
    assert 0 <= false_alarms.confirmed.alarms <= false_alarms.confirmed.verdicts


@given(st.dictionaries(GIVEN, st.integers(0, 50)), GIVEN)
def test_another_verdict_never_hides_an_alarm(
    given_: dict[tuple[Stage, VerdictKind], int], more: tuple[Stage, VerdictKind]
) -> None:
    before, after = count_false_alarms(given_), count_false_alarms(given_ | {more: given_.get(more, 0) + 1})

    assert after.screening.alarms >= before.screening.alarms
    assert after.confirmed.alarms >= before.confirmed.alarms


def test_suspicions_are_followed_to_the_fresh_pairs() -> None:
    questions = [
        [(LOOK, WORSE), (FRESH, WORSE)],
        [(LOOK, WORSE), (FRESH, SAME)],
        [(LOOK, WORSE), (FRESH, BETTER)],
        [(LOOK, BETTER), (FRESH, OPEN)],
        [(LOOK, BETTER)],
        [(LOOK, WORSE), (LOOK, SAME)],
        [(LOOK, OPEN), (FRESH, WORSE)],
    ]

    candidates = count_candidate_fates(questions)

    assert candidates == CandidateCounts(confirmed=1, refuted=2, undecided=1, unsettled=2)
    assert candidates.total == 6


def test_a_confirmation_is_retracted_by_any_other_verdict() -> None:
    kept = [(LOOK, WORSE), (FRESH, WORSE), (LOOK, WORSE), (FRESH, WORSE)]
    reversed_, softened = [(FRESH, WORSE), (FRESH, BETTER)], [(FRESH, BETTER), (LOOK, OPEN)]

    confirmations = count_retracted_confirmations([kept, reversed_, softened])

    assert confirmations == ConfirmationCounts(total=5, retracted=2)


def test_looking_again_in_between_hides_no_retraction() -> None:
    question = [(FRESH, WORSE), (LOOK, WORSE), (FRESH, SAME)]

    assert count_retracted_confirmations([question]) == ConfirmationCounts(total=1, retracted=1)


@given(st.lists(GIVEN, max_size=8), st.lists(GIVEN, max_size=8))
def test_what_is_said_later_never_takes_a_retraction_back(
    said: list[tuple[Stage, VerdictKind]], later: list[tuple[Stage, VerdictKind]]
) -> None:
    assert (
        count_retracted_confirmations([said + later]).retracted
        >= count_retracted_confirmations([said]).retracted
    )
