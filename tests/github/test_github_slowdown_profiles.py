"""Profiles of regressions at base and head are written to the artifact."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from perfci.cli.compare.variants import ComparisonOptions
from perfci.cli.github.slowdown_profiles import find_worst_slowdown_cells, profile_slowdowns
from perfci.cli.shared.repository_and_config import current_repository
from perfci.config import load_config
from perfci.measure.profiles.profile_cells_to_files import ProfiledCell, ProfileReport, ProfileRow
from perfci.model import Commit, Status, Verdict, VerdictKind
from perfci.report.pulls.comparison_findings import Findings
from perfci.runner.suite_cells import Cell
from tests.support.comment_forms import build_findings, more_memory, slower
from tests.support.git_project import GitProject
from tests.support.report_builders import a_series, a_verdict

SUITE = """
    import thing

    def time_step():
        return sum(i * i for i in range(thing.WORK))

    def time_broken():
        assert thing.WORK == 10_000
"""
TABLES = ProfileReport(
    "cpu",
    "cpu",
    4,
    0.2,
    0.5,
    None,
    (),
    (),
    (),
    (ProfileRow("aten::mm", 0.1, 0.5, 2),),
    (ProfileRow("benchmarks/suite.py:4", 0.1, 0.5, 0),),
    {"kernels": "no GPU"},
)
ASKED = ComparisonOptions(None, "", False, None, False, False, None, None)


def worse(name: str, ratio: float = 1.5) -> Verdict:
    return a_verdict(ratio=ratio, interval=(ratio - 0.01, ratio + 0.01), series=a_series(f"suite.{name}"))


def compared(working_folder: Path, *verdicts: Verdict) -> Findings:
    project = GitProject(working_folder)
    project.commit("Begin", thing="WORK = 10_000\n", benchmarks__suite=SUITE)
    project.commit("Think harder", thing="WORK = 20_000\n")
    repository = current_repository()
    base, head = (repository.read_commit(repository.resolve_revision(item)) for item in ("HEAD~1", "HEAD"))
    return Findings(verdicts, base, head)


def profiled(findings: Findings, options: ComparisonOptions = ASKED, until: float = math.inf) -> list[str]:
    repository = current_repository()
    return profile_slowdowns(repository, load_config(repository.root), findings, options, Path("out"), until)


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for processes of seconds each; those of the suite itself are real in `tests/test_act.py`."""

    def profile_cells(_: object, commit: Commit, cells: Sequence[Cell], out: Path) -> Iterator[ProfiledCell]:
        for cell in cells:
            if cell.name == "suite.time_broken" and commit.subject != "Begin":
                yield ProfiledCell(cell, Status.FAILED, "AssertionError")
                continue
            (out / cell.name).mkdir(parents=True)
            (out / cell.name / "trace.json").write_text('{"traceEvents": []}')
            yield ProfiledCell(cell, Status.OK, "", out / cell.name, TABLES)

    monkeypatch.setattr("perfci.cli.github.slowdown_profiles.profile_cells", profile_cells)


@pytest.mark.usefixtures("profiler")
def test_profiles_both_sides_unless_one_fails(working_folder: Path) -> None:
    comparison = compared(working_folder, worse("time_broken", 2.0), worse("time_step"), worse("time_gone"))

    assert profiled(comparison) == ["suite.time_step"]

    assert sorted(path.name for path in Path("out").iterdir()) == [
        "suite.time_step-base.trace.json.gz",
        "suite.time_step-base.txt",
        "suite.time_step-head.trace.json.gz",
        "suite.time_step-head.txt",
    ]
    text = Path("out/suite.time_step-head.txt").read_text()
    assert text.startswith(
        f"suite.time_step at {comparison.head.short_sha} Think harder\n4 calls of 200.0 ms on cpu;"
    )
    assert (
        gzip.decompress(Path("out/suite.time_step-base.trace.json.gz").read_bytes()) == b'{"traceEvents": []}'
    )


@pytest.mark.usefixtures("profiler")
def test_omits_a_trace_that_is_too_large(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfci.cli.github.slowdown_profiles.MAX_TRACE_BYTES", 10)

    profiled(compared(working_folder, worse("time_step")))

    assert {path.suffix for path in Path("out").iterdir()} == {".txt"}


def test_profiles_nothing_after_the_deadline(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = compared(working_folder, worse("time_step"))
    monkeypatch.setattr("perfci.cli.github.slowdown_profiles.time.monotonic", lambda: 100.0)

    assert (profiled(comparison, until=100.0), Path("out").exists()) == ([], False)


def test_reports_that_profiling_failed_to_start(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ComparisonOptions(Path("nowhere"), "", False, None, False, False, None, None)

    assert profiled(compared(working_folder, worse("time_step")), nowhere) == []
    assert capsys.readouterr().err.startswith("the slowdowns are not profiled: ")


def test_the_three_worst_slowdowns_are_chosen() -> None:
    times = [worse(f"time_{k}", 1.1 + k / 10) for k in range(4)]
    better = a_verdict(VerdictKind.IMPROVEMENT, 0.5, (0.4, 0.6), series=a_series("suite.faster"))

    assert find_worst_slowdown_cells(build_findings([*times, more_memory(), better])) == [
        "suite.time_3",
        "suite.time_2",
        "suite.time_1",
    ]


def test_a_cell_that_is_slower_in_two_metrics_is_profiled_once() -> None:
    both = [worse("time_step"), a_verdict(series=a_series("suite.time_step", metric="wall_time"))]

    assert find_worst_slowdown_cells(build_findings([*both, slower()])) == [
        "suite.time_step",
        slower().series.cell,
    ]
