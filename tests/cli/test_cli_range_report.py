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


def test_what_moved_with_a_change_stands_below_it() -> None:
    commits = {"base": a_sha(1), "head": a_sha(2)}
    step = a_series("gpt.MyModel.measure_training", "cpu_step_time")
    optimizer = a_series("gpt.Other.measure_training", "cpu_optimizer_time")
    unmoved = a_series("gpt.Other.measure_training", "cpu_step_time")
    confirmed = [
        a_verdict(PHASE, **commits),
        a_verdict(step, **commits),
        a_verdict(optimizer, **commits),
        a_verdict(unmoved, VerdictKind.UNCHANGED, ratio=1.001, **commits),
    ]
    result = RangeResult(["s"], [Status.OK], [], confirmed, 1.0)

    lines = format_confirmed_changes(result, [a_commit(1), a_commit(2)]).splitlines()

    assert lines[0] == "00000002cc Change number 2"
    assert lines[1].startswith("  ▲ gpt.MyModel.measure_training · cpu_step_time got 20.0 % slower")
    assert lines[2] == "      with cpu_backward_time +20.0 %"
    assert lines[3].startswith("  ▲ gpt.Other.measure_training · cpu_optimizer_time got 20.0 % slower")
    assert lines[4].startswith("      moved without its whole: cpu_step_time unchanged +0.1 %")
    assert lines[5:] == ["1 commit: nothing moved"]


def test_a_range_without_changes_says_so_in_a_line() -> None:
    result = RangeResult(["s"], [Status.OK], [], [], 1.0)

    assert format_confirmed_changes(result, [a_commit(1), a_commit(2)]) == "2 commits: nothing moved"
