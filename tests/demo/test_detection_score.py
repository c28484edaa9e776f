"""What was found held against what was planted."""

from __future__ import annotations

from perfci.demo.detection_score import (
    format_detection_errors,
    format_inconclusive_verdicts,
    format_score_table,
    score_verdicts,
)
from perfci.demo.sample_repository import PlantedChange
from perfci.model import Interval, Stage, Verdict, VerdictKind
from tests.support.builders import a_commit, a_series, a_verdict

SLOW, QUIET = a_commit(1, subject="Sleep a little"), a_commit(2, subject="Rename a variable")
COMMITS = {commit.sha: commit for commit in (SLOW, QUIET)}
PLANTED = PlantedChange(SLOW.sha, SLOW.subject, "train.time_step", "time", "regression", 0.3)


def confirmed(sha: str, kind: VerdictKind = VerdictKind.REGRESSION, **changes: object) -> Verdict:
    text = {"ratio": 1.31, "interval": Interval(1.2, 1.4), "pairs": 10, "stage": Stage.CONFIRMATION} | changes
    return a_verdict(a_series("train.time_step"), kind, base="0" * 40, head=sha, **text)


def test_a_change_found_at_its_own_commit_is_perfect() -> None:
    result = score_verdicts([PLANTED], [confirmed(SLOW.sha)])

    assert result.is_perfect
    assert format_score_table(result, COMMITS).splitlines()[1].split() == [
        "✓",
        SLOW.short_sha,
        "Sleep",
        "a",
        "little",
        "train.time_step",
        "regression",
        "of",
        "about",
        "30.0",
        "%",
        "regression",
        "+31.0",
        "%",
        "[+20.0",
        "%,",
        "+40.0",
        "%]",
        "10",
    ]


def test_a_change_found_elsewhere_is_a_miss_and_a_false_alarm() -> None:
    result = score_verdicts([PLANTED], [confirmed(QUIET.sha)])

    assert not result.is_perfect
    assert format_detection_errors(result, COMMITS) == [
        f"missed: regression of train.time_step at {SLOW.short_sha} (Sleep a little)",
        f"false alarm: regression of train.time_step · time at {QUIET.short_sha} (Rename a variable)",
    ]


def test_the_wrong_direction_does_not_count() -> None:
    result = score_verdicts([PLANTED], [confirmed(SLOW.sha, VerdictKind.IMPROVEMENT)])

    assert [p.sha for p in result.missed_changes] == [SLOW.sha]
    assert len(result.false_alarms) == 1


def test_an_unconfirmed_candidate_is_not_a_false_alarm() -> None:
    result = score_verdicts([], [confirmed(QUIET.sha, stage=Stage.SCREENING)])

    assert result.is_perfect


def test_an_inconclusive_verdict_shows_how_many_pairs_would_decide() -> None:
    undecided = confirmed(QUIET.sha, VerdictKind.INCONCLUSIVE, pairs_to_decide=1)
    hopeless = confirmed(SLOW.sha, VerdictKind.INCONCLUSIVE, pairs_to_decide=None)

    result = score_verdicts([], [undecided, hopeless])

    assert result.is_perfect
    assert format_inconclusive_verdicts(result, COMMITS) == [
        f"inconclusive: train.time_step · time at {QUIET.short_sha} (Rename a variable), about 1 "
        f"more pair would decide",
        f"inconclusive: train.time_step · time at {SLOW.short_sha} (Sleep a little), "
        "and no reasonable number of pairs would decide it",
    ]
