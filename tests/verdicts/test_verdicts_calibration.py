"""What counts as a false alarm, and what became of suspicions and convictions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfci.model import Stage, VerdictKind
from perfci.verdicts.calibration import Convictions, Nominations, Rate, convictions, meter, nominations

LOOK, FRESH = Stage.SCREENING, Stage.CONVICTION
WORSE, BETTER, SAME, OPEN = (
    VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE,
)  # fmt: skip

GIVEN = st.tuples(st.sampled_from(Stage), st.sampled_from(VerdictKind))


def test_a_first_look_and_a_conviction_are_told_apart() -> None:
    found = meter({(LOOK, SAME): 90, (LOOK, WORSE): 6, (LOOK, BETTER): 4, (FRESH, SAME): 9, (FRESH, BETTER): 1})

    assert (found.first_look, found.convicted) == (Rate(10, 100), Rate(1, 100))
    assert found.convicted.interval[1] < 0.055


def test_a_crash_of_an_equal_commit_is_an_alarm_at_once() -> None:
    found = meter({(LOOK, SAME): 99, (LOOK, VerdictKind.FAILED): 1})

    assert (found.first_look, found.convicted) == (Rate(1, 100), Rate(1, 100))


def test_what_could_not_be_compared_makes_the_meter_look_no_better() -> None:
    found = meter({(LOOK, OPEN): 3, (LOOK, VerdictKind.MISSING): 40, (FRESH, VerdictKind.NOT_COMPARABLE): 2})

    assert (found.first_look, found.convicted, found.set_aside) == (Rate(0, 3), Rate(0, 3), 42)


def test_nothing_given_has_no_share() -> None:
    assert (meter({}).convicted.share, meter({}).convicted.interval) == (None, (0.0, 1.0))


@given(st.dictionaries(GIVEN, st.integers(0, 50)))
def test_every_verdict_is_counted_once(given_: dict[tuple[Stage, VerdictKind], int]) -> None:
    found = meter(given_)

    nominated = sum(given_.get((LOOK, kind), 0) for kind in (WORSE, BETTER))
    assert found.convicted.verdicts + nominated + found.set_aside == sum(given_.values())
    assert 0 <= found.convicted.alarms <= found.convicted.verdicts


@given(st.dictionaries(GIVEN, st.integers(0, 50)), GIVEN)
def test_another_verdict_never_hides_an_alarm(
    given_: dict[tuple[Stage, VerdictKind], int], more: tuple[Stage, VerdictKind]
) -> None:
    before, after = meter(given_), meter(given_ | {more: given_.get(more, 0) + 1})

    assert after.first_look.alarms >= before.first_look.alarms
    assert after.convicted.alarms >= before.convicted.alarms


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

    found = nominations(questions)

    assert found == Nominations(confirmed=1, refuted=2, undecided=1, unsettled=2)
    assert found.suspected == 6


def test_a_conviction_is_retracted_by_any_other_word() -> None:
    kept = [(LOOK, WORSE), (FRESH, WORSE), (LOOK, WORSE), (FRESH, WORSE)]
    reversed_, softened = [(FRESH, WORSE), (FRESH, BETTER)], [(FRESH, BETTER), (LOOK, OPEN)]

    found = convictions([kept, reversed_, softened])

    assert found == Convictions(given=5, retracted=2)


def test_looking_again_in_between_hides_no_retraction() -> None:
    question = [(FRESH, WORSE), (LOOK, WORSE), (FRESH, SAME)]

    assert convictions([question]) == Convictions(given=1, retracted=1)


@given(st.lists(GIVEN, max_size=8), st.lists(GIVEN, max_size=8))
def test_what_is_said_later_never_takes_a_retraction_back(
    said: list[tuple[Stage, VerdictKind]], later: list[tuple[Stage, VerdictKind]]
) -> None:
    assert convictions([said + later]).retracted >= convictions([said]).retracted
