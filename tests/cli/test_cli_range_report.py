"""The report of a range: what moved first, then one line for everything else."""

from __future__ import annotations

from perfci.cli.run import format_confirmed_changes
from perfci.measure.commit_ranges.measure_screen_confirm_range import RangeResult
from perfci.model import Status, VerdictKind
from tests.support.builders import a_commit, a_series, a_sha, a_verdict

PHASE = a_series("gpt.MyModel.measure_training", "cpu_backward_time")


def test_open_questions_of_innocent_commits_are_one_line() -> None:
    undecided = [
        a_verdict(PHASE, VerdictKind.INCONCLUSIVE, base=a_sha(number - 1), head=a_sha(number))
        for number in (2, 4)
    ]
    moved = a_verdict(base=a_sha(2), head=a_sha(3))
    result = RangeResult(["s"], [Status.OK], [], [*undecided, moved], 1.0)

    text = format_confirmed_changes(result, [a_commit(number) for number in range(1, 5)])

    assert text.splitlines() == [
        "00000003cc Change number 3",
        "  ▲ training.Step.time_step got 20.0 % slower [15.0, 25.0], 10 pairs; noise floor 1.0 %",
        "3 commits: nothing moved (2 open questions, none about time, latency or memory that users feel)",
    ]


def test_a_range_without_changes_says_so_in_a_line() -> None:
    result = RangeResult(["s"], [Status.OK], [], [], 1.0)

    assert format_confirmed_changes(result, [a_commit(1), a_commit(2)]) == "2 commits: nothing moved"
