"""The study of equal processes, in seconds: on a suite that is made for it, and on readings made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.config import JudgeTable
from perfci.model import Benchmark, Clock, Machine, Metric, Process, Role, Series
from tests.support.git_project import GitProject
from tools.study_noise import Line, Study, build_noise_line, format_study, format_summary_row, run_study
from tools.write_study_page import BEGIN, END, replace_figures

SUITE = """
    import os

    from perfci.bench import Bench, Metric, exact, metrics, skip_exception

    class Steady(Bench):
        @metrics(Metric("size", "bytes"), Metric("time", "seconds"))
        def measure_steady(self):
            return {"size": exact(4096), "time": 1.0 + os.getpid() % 7 / 1000}

    class Elsewhere(Bench):
        @metrics(Metric("size", "bytes"))
        def measure_elsewhere(self):
            raise skip_exception("there is no such device")
"""
WANDERING = """
    import os

    from perfci.bench import Bench, Metric, exact, metrics

    class Wandering(Bench):
        @metrics(Metric("size", "bytes"))
        def measure_wandering(self):
            return {"size": exact(os.getpid())}
"""


class Store:
    """A suite of one module, and where a study of it is kept."""

    def __init__(self, folder: Path) -> None:
        GitProject(folder / "project").commit("A suite", benchmarks__steady=SUITE)
        self.folder = folder
        self.said: list[str] = []

    def study(self, **options: object) -> Study:
        self.said.clear()
        url = f"sqlite:///{self.folder}/noise.db"
        return run_study(self.folder / "project", url, say=self.said.append, **options)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_equal_processes_are_measured_in_so_many_pairs(store: Store) -> None:
    result = store.study(pairs=3)

    lines = {line.metric: line for line in result.lines["steady"]}
    assert result.complete
    assert result.good
    assert lines["size"].counted == (4096.0,)
    assert len(lines["time"].log_ratios) == 3
    assert lines["time"].largest < 0.007
    assert result.not_measured == {"steady.Elsewhere.measure_elsewhere": "there is no such device"}


def test_a_study_goes_on_where_it_stopped(store: Store) -> None:
    only_rehearsed = store.study(pairs=2, budget_s=0)
    finished = store.study(pairs=2)

    assert not only_rehearsed.complete
    assert only_rehearsed.lines == {}
    assert finished.complete
    assert {line.pairs for line in finished.lines["steady"]} == {2}


def test_reports_first_how_much_is_left(store: Store) -> None:
    store.study(pairs=2, budget_s=0)

    assert store.said[0].startswith("1 cell (1 cannot run here, 0 failed) in 2 pairs: about ")


def test_a_count_that_is_not_the_same_everywhere_fails_the_study(store: Store) -> None:
    GitProject(store.folder / "project").commit("Another suite", benchmarks__wandering=WANDERING)

    result = store.study(pairs=2, bench="wandering")

    (line,) = result.moved
    assert (line.cell, line.metric) == ("wandering.Wandering.measure_wandering", "size")
    assert not result.good
    assert "**moved**" in format_study(result, load=0.0)


# ------------------------------------------------------------------ readings made up


def series(metric: str) -> Series:
    return Series(Benchmark("suite.measure", "1"), (), Metric(metric, "seconds"), Machine(cpu="any"))


def pairs_of(*values: tuple[float, float], clock: Clock = Clock.VALUE) -> list[Process]:
    return [
        Process(2 * number + place, role, samples=(value,), clock=clock, pair=number)
        for number, pair in enumerate(values)
        for place, (role, value) in enumerate(zip((Role.BASE, Role.HEAD), pair, strict=True))
    ]


def line(*values: tuple[float, float], clock: Clock = Clock.VALUE) -> Line:
    return build_noise_line(series("time"), pairs_of(*values, clock=clock), "c0ffee", JudgeTable())


def test_the_largest_ratio_is_of_a_pair_and_the_floor_below_it() -> None:
    result = line(*[(1.0, 1.01)] * 10, *[(1.01, 1.0)] * 9, (1.0, 1.2))

    assert result.largest == pytest.approx(0.18232, abs=1e-5)
    assert 0.009 < result.floor < 0.03
    assert result.visible[5] > result.visible[10] > result.visible[20] > 0.025


def test_identical_inputs_that_differ_are_a_false_alarm() -> None:
    assert line(*[(1.0, 1.2), (1.001, 1.2)] * 10).is_false_alarm
    assert not line(*[(1.0, 1.001), (1.001, 1.0)] * 10).is_false_alarm


def test_a_level_of_zero_has_no_ratio_and_is_reported() -> None:
    assert "no ratio" in line((0.0, 1.0), (0.0, 1.0)).why
    assert line((0.0, 0.0), (0.0, 0.0)).why == "Zero on both sides."


def test_a_single_pair_shows_no_noise_floor() -> None:
    assert "a single pair" in line((1.0, 1.1)).why


def test_exact_values_count_as_moved_at_the_last_digit() -> None:
    assert not line((7.0, 7.0), (7.0, 7.0), clock=Clock.EXACT).moved
    assert line((7.0, 7.0), (7.0, 7.000001), clock=Clock.EXACT).moved


def test_a_summary_counts_timed_and_exact_metrics_apart() -> None:
    lines = [
        line(*[(1.0, 1.0)] * 20),
        line(*[(1.0, 1.0)] * 20, clock=Clock.EXACT),
        line(*[(1.0, 2.0)] * 20, clock=Clock.EXACT),
    ]

    name, timed, pairs, _, _, confirmed, exact, moved = format_summary_row("suite", lines)
    assert (name, timed, pairs, confirmed, exact, moved) == ("suite", "1", "20", "0", "2", "1")


def test_a_page_keeps_the_text_around_its_figures(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")

    replace_figures(page, "| new |")

    assert page.read_text() == f"# Title\n\n{BEGIN}\n\n| new |\n\n{END}\n\nThe end.\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")

    with pytest.raises(SystemExit, match="has no"):
        replace_figures(page, "new")
    assert page.read_text() == "# Title\n"
