"""What counts as a false alarm, and what became of candidates and confirmations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfci.history.verdict_counts import (
    count_aa_false_alarms,
    count_candidate_fates,
    count_retracted_confirmations,
)
from perfci.model import Stage, VerdictKind
from perfci.verdicts.project_noise import CandidateCounts, ConfirmationCounts, FalseAlarmRate

LOOK, FRESH = Stage.SCREENING, Stage.CONFIRMATION
WORSE, BETTER, SAME, OPEN = (
    VerdictKind.REGRESSION,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
    VerdictKind.INCONCLUSIVE,
)

GIVEN = st.tuples(st.sampled_from(Stage), st.sampled_from(VerdictKind))


def test_counts_screening_and_confirmation_separately() -> None:
    false_alarms = count_aa_false_alarms(
        {(LOOK, SAME): 90, (LOOK, WORSE): 6, (LOOK, BETTER): 4, (FRESH, SAME): 9, (FRESH, BETTER): 1}
    )

    assert (false_alarms.screening, false_alarms.confirmed) == (
        FalseAlarmRate(10, 100),
        FalseAlarmRate(1, 100),
    )
    assert false_alarms.confirmed.interval[1] < 0.055


def test_a_crash_in_an_aa_run_is_an_alarm_at_once() -> None:
    false_alarms = count_aa_false_alarms({(LOOK, SAME): 99, (LOOK, VerdictKind.FAILED): 1})

    assert (false_alarms.screening, false_alarms.confirmed) == (
        FalseAlarmRate(1, 100),
        FalseAlarmRate(1, 100),
    )


def test_incomparable_verdicts_do_not_lower_the_false_alarm_rate() -> None:
    false_alarms = count_aa_false_alarms(
        {(LOOK, OPEN): 3, (LOOK, VerdictKind.MISSING): 40, (FRESH, VerdictKind.NOT_COMPARABLE): 2}
    )

    assert (false_alarms.screening, false_alarms.confirmed, false_alarms.not_compared) == (
        FalseAlarmRate(0, 3),
        FalseAlarmRate(0, 3),
        42,
    )


def test_no_verdicts_have_no_false_alarm_share() -> None:
    assert (count_aa_false_alarms({}).confirmed.share, count_aa_false_alarms({}).confirmed.interval) == (
        None,
        (0.0, 1.0),
    )


@given(st.dictionaries(GIVEN, st.integers(0, 50)))
def test_counts_every_verdict_once(given_: dict[tuple[Stage, VerdictKind], int]) -> None:
    false_alarms = count_aa_false_alarms(given_)

    screening_moves = sum(given_.get((LOOK, kind), 0) for kind in (WORSE, BETTER))
    assert false_alarms.confirmed.verdicts + screening_moves + false_alarms.not_compared == sum(
        given_.values()
    )
    assert 0 <= false_alarms.confirmed.alarms <= false_alarms.confirmed.verdicts


@given(st.dictionaries(GIVEN, st.integers(0, 50)), GIVEN)
def test_a_later_verdict_never_hides_an_alarm(
    given_: dict[tuple[Stage, VerdictKind], int], more: tuple[Stage, VerdictKind]
) -> None:
    before, after = (
        count_aa_false_alarms(given_),
        count_aa_false_alarms(given_ | {more: given_.get(more, 0) + 1}),
    )

    assert after.screening.alarms >= before.screening.alarms
    assert after.confirmed.alarms >= before.confirmed.alarms


def test_follows_candidates_to_the_verdict_on_fresh_pairs() -> None:
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


def test_any_other_verdict_retracts_a_confirmation() -> None:
    never_retracted = [(LOOK, WORSE), (FRESH, WORSE), (LOOK, WORSE), (FRESH, WORSE)]
    reversed_, softened = [(FRESH, WORSE), (FRESH, BETTER)], [(FRESH, BETTER), (LOOK, OPEN)]

    confirmations = count_retracted_confirmations([never_retracted, reversed_, softened])

    assert confirmations == ConfirmationCounts(total=5, retracted=2)


def test_a_verdict_in_between_hides_no_retraction() -> None:
    question = [(FRESH, WORSE), (LOOK, WORSE), (FRESH, SAME)]

    assert count_retracted_confirmations([question]) == ConfirmationCounts(total=1, retracted=1)


@given(st.lists(GIVEN, max_size=8), st.lists(GIVEN, max_size=8))
def test_a_later_verdict_never_takes_a_retraction_back(
    earlier: list[tuple[Stage, VerdictKind]], later: list[tuple[Stage, VerdictKind]]
) -> None:
    assert (
        count_retracted_confirmations([earlier + later]).retracted
        >= count_retracted_confirmations([earlier]).retracted
    )
