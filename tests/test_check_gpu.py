"""The checks on a GPU: what becomes of their results, where there is a GPU and where there is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from perfci.bench.readings import skip_exception
from tools import check_gpu
from tools.check_gpu import (
    GROUPS,
    NOT_RUN,
    PAGE,
    CheckRow,
    format_page,
    import_check_group,
    main,
    run_command_for,
    run_group_here,
    run_group_in_process,
)
from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck, compare_figures, join_results
from tools.gpu_checks.reference_suites import summarise_equal_processes


def a_check(name: str, run: object = None) -> GpuCheck:
    return GpuCheck(
        name, "within 1 %", "by hand", run or (lambda: CheckResult("1 s against 1 s", holds=True))
    )


def fail() -> CheckResult:
    raise RuntimeError("CUDA error: an illegal memory access\nand its stack")


def skip() -> CheckResult:
    raise skip_exception("this GPU has no TF32")


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="a GPU is here")
def test_without_a_gpu_it_says_so_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = PAGE.read_text()

    assert main([]) == 0

    assert capsys.readouterr().out == "skipped: torch sees no GPU here; docs/studies/gpu.md stays as it is\n"
    assert PAGE.read_text() == before


def test_a_check_that_fails_or_skips_says_why_and_hides_no_other(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    group = CheckGroup("steps", 1, [a_check("failing", fail), a_check("skipping", skip), a_check("passing")])

    run_group_here(group, results)

    rows = [CheckRow(**json.loads(line)) for line in results.read_text().splitlines()]
    assert rows == [
        CheckRow("failing", "failed: RuntimeError: CUDA error: an illegal memory access", holds=False),
        CheckRow("skipping", "skipped: this GPU has no TF32", holds=False),
        CheckRow("passing", "1 s against 1 s", holds=True),
    ]


def test_what_a_group_had_done_before_its_time_was_over_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    group = CheckGroup("steps", 0.5, [a_check("step time"), a_check("mfu")])

    def write_one_and_run_out_of_time(command: list[str], timeout_s: float) -> bool:
        row = {"name": "step time", "figures": "1 s", "holds": True}
        Path(command[-1]).write_text(json.dumps(row) + "\n")
        return timeout_s == 0.5

    monkeypatch.setattr(check_gpu, "run_command_for", write_one_and_run_out_of_time)

    assert run_group_in_process("steps", group) == [
        CheckRow("step time", "1 s", holds=True),
        CheckRow("mfu", "not run: no time was left of 0.5 s", holds=False),
    ]


def test_a_process_that_outlasts_its_time_is_ended() -> None:
    assert run_command_for([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert not run_command_for([sys.executable, "-c", ""], 60)


def test_the_page_shows_every_check_and_empty_results_where_it_did_not_run() -> None:
    group = CheckGroup("steps", 1, [a_check("step time"), a_check("mfu"), a_check("peak")])
    rows = {
        "step time": CheckRow("step time", "1 s | 1.1 s", holds=False),
        "mfu": CheckRow("mfu", "0.4", holds=True),
    }

    assert format_page([group], rows, "Not run.").splitlines() == [
        "Not run.",
        "",
        "| check | limit | independent way | result | holds |",
        "| --- | --- | --- | --- | --- |",
        "| step time | within 1 % | by hand | 1 s \\| 1.1 s | **no** |",
        "| mfu | within 1 % | by hand | 0.4 | yes |",
        "| peak | within 1 % | by hand |  |  |",
    ]


def test_the_page_lists_the_checks_there_are_and_no_figure_that_was_never_taken() -> None:
    """Until a GPU has run them, which changes the line above the table."""
    groups = [import_check_group(name) for name in GROUPS]
    page = PAGE.read_text()

    assert {f"| {check.name} |" in page for group in groups for check in group.checks} == {True}
    if NOT_RUN in page:
        assert format_page(groups, {}, NOT_RUN) in page


def test_all_groups_together_take_less_than_ten_minutes() -> None:
    assert sum(import_check_group(name).timeout_s for name in GROUPS) < 600


def test_figures_are_held_against_each_other_by_their_relative_difference() -> None:
    assert compare_figures(1.009, 1.0, 0.01, "s") == CheckResult("1.009 s against 1 s, +0.90%", holds=True)
    assert not compare_figures(0.98, 1.0, 0.01).holds
    assert not join_results([]).holds
    assert join_results([("a:", CheckResult("1", True)), ("b:", CheckResult("2", False))]) == CheckResult(
        "a: 1; b: 2", holds=False
    )


def test_equal_processes_have_a_small_floor_and_equal_counts() -> None:
    quiet = [[1 + 0.001 * (index % 3), 7.0, 9.0, 11.0] for index in range(20)]
    one_more_operator = [*quiet[:-1], [1.0, 7.0, 10.0, 11.0]]

    assert summarise_equal_processes(quiet) == CheckResult(
        "floor 0.09% of 10 pairs, counts equal", holds=True
    )
    assert not summarise_equal_processes(one_more_operator).holds
    assert not summarise_equal_processes([[1 + index % 2 * index / 100, 1.0] for index in range(20)]).holds
