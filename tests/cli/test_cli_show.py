"""``perfci show`` and the table at the end of ``perfci run``: what a commit came to."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.model import Clock, Status, Variant
from perfci.report.commits.commit_results import CommitReport, CommitResult
from perfci.report.commits.commit_results_text import format_commit_report, format_unavailable
from perfci.report.trend_dots import Dot
from perfci.store import open_store
from perfci.store.verdicts_and_change_points import add_verdicts
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.git_project import GitProject
from tests.support.stored_runs import ingest_run

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"

    def track_other():
        return 7
    track_other.clock = "exact"
"""

MEMORY = a_series("suite.peakmem", metric="memory", unit="bytes")
ENERGY = a_series("suite.time_step", metric="energy", unit="joules")


@pytest.fixture
def database(working_folder: Path) -> list[str]:
    """Two commits: one series a fifth slower, one of half the size, and one that the machine cannot read."""
    url = f"sqlite:///{working_folder}/perfci.db"
    with closing(open_store(url, create=True)) as store, store.begin() as tx:
        for number, (seconds, size) in enumerate([(1.0, 2048.0), (1.2, 1024.0)], start=1):
            processes = [a_process(seconds * (1 + index / 100), index=index) for index in range(3)]
            memory = [a_process(size, index=index, clock=Clock.EXACT) for index in range(3)]
            reason = "this machine has no energy counter"
            run = a_run(
                a_result(None, *processes),
                a_result(MEMORY, *memory),
                a_result(ENERGY, status=Status.SKIPPED, reason=reason),
                commit=a_commit(number),
                session=f"s{number}",
                started_at=NOON + timedelta(hours=number),
            )
            ingest_run(tx, run, f"key {number}", "body")
        add_verdicts(tx, PROJECT, "s2", [a_verdict(base=a_sha(1), head=a_sha(2), ratio=1.19)], NOON)
    return ["--db", url, "--project", PROJECT]


def show(database: list[str], *arguments: str) -> None:
    assert run_cli([*database, "show", *arguments]) == 0


def test_shows_the_newest_commit_beside_the_one_before(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show(database)

    assert capsys.readouterr().out == (
        "00000002cc Change number 2: 2 series measured, 1 worse, changes since 00000001cc\n"
        "   benchmark                metric      level  spread  processes   change  verdict\n"
        "▲  training.Step.time_step  time      1.212 s   1.0 %          3  +19.0 %  regression\n"
        "   suite.peakmem            memory  1.000 KiB   0.0 %          3  −50.0 %  not judged\n"
        "not available here: energy: this machine has no energy counter\n"
    )


def test_shows_only_what_got_worse_between_two_commits_as_markdown(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show(database, a_sha(1)[:9], a_sha(2), "--only", "worse", "--markdown")

    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "`00000002cc` `Change number 2`: 2 series measured, 1 worse, changes since `00000001cc`"
    assert rows[2:5] == [
        "|  | benchmark | metric | before | level | spread | processes | change | 95 % interval | verdict |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        "| ▲ | `training.Step.time_step` | `time` | 1.000 s | 1.190 s | 1.0 % | 3 | +19.0 % | [+15.0, +25.0] "
        "| regression |",
    ]


def test_says_that_nothing_got_worse(database: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    show(database, a_sha(1), "--only", "worse")

    assert capsys.readouterr().out.splitlines()[1] == "nothing got worse"


def test_a_commit_without_results_names_the_next_step(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli([*database, "show", "abc123"]) == 2
    assert capsys.readouterr().err == (
        "perfci: acme/model has no results of abc123; perfci run abc123 measures it.\n"
    )


def test_shows_a_drop_that_nothing_judged_as_worse(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show(database, a_sha(2), a_sha(1), "--only", "worse", "--json")

    (value,) = json.loads(capsys.readouterr().out)["values"]
    assert (value["series"]["benchmark"], value["verdict"], value["verdict_label"]) == (
        "suite.peakmem",
        None,
        "not judged",
    )
    assert (value["level"], value["base_level"], value["relative_change"]) == (2048.0, 1024.0, 1.0)


def test_run_ends_with_the_values_of_the_newest_commit(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    for number, size in enumerate((1000, 1000, 1200)):
        project.commit(f"Commit {number}", thing=f"BYTES = {size}\n", benchmarks__suite=SUITE)

    run_cli(["run", "HEAD~2..HEAD", "--rounds", "1", "--json", "values.json"])

    base, head = (project.git("rev-parse", rev) for rev in ("HEAD~1", "HEAD"))
    assert capsys.readouterr().out.split("\n\n")[-1] == (
        f"{head[:10]} Commit 2: 2 series measured, 1 worse, changes since {base[:10]}\n"
        "   benchmark          metric      level  processes   change  verdict\n"
        "▲  suite.track_bytes  peak    1.172 KiB          1  +20.0 %  regression\n"
        "≈  suite.track_other  value           7          1    0.0 %  unchanged\n"
    )
    commits = json.loads(Path("values.json").read_text())["commits"]
    assert [(c["commit"], c["values"][0]["level"]) for c in commits] == [(base, 1000.0), (head, 1200.0)]


def test_an_invalid_run_is_shown_and_not_judged_until_it_is_valid_again(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    key = "key 2"
    assert run_cli([*database, "invalidate", "run", key]) == 2
    assert run_cli([*database, "invalidate", "run", key, "--reason", "shared machine"]) == 0
    show(database, a_sha(2))
    run_cli([*database, "invalidate", "list"])
    marked = capsys.readouterr()
    run_cli([*database, "invalidate", "run", key, "--undo"])
    show(database, "--only", "worse")

    why = "marked invalid by local: shared machine"
    lines = marked.out.splitlines()
    assert marked.err == "perfci: --reason is needed: whoever looks at the history later will ask why.\n"
    assert lines[0] == "run key 2: marked invalid"
    assert [line.endswith(why) for line in lines[3:5]] == [True, True]
    assert lines[-1].startswith("00000002cc  run key 2: shared machine (local, ")
    assert "regression" in capsys.readouterr().out


def test_rows_of_two_variants_do_not_read_alike() -> None:
    torches = [replace(a_series(), variant=Variant((("python", "3.11"), ("torch", old)))) for old in "89"]
    dot = Dot(0, a_commit(1), Status.OK, level=1.0, processes=1)
    results = [CommitResult(series, dot, informational=False, bar=0.05) for series in torches]

    text = format_commit_report(CommitReport(a_commit(1), results))

    assert ["torch=8" in text, "torch=9" in text, "python" in text] == [True, True, False]


def test_a_commit_without_a_subject_is_named_by_its_sha() -> None:
    commit = replace(a_commit(1), subject="")

    assert format_commit_report(CommitReport(commit, [])) == f"{commit.short_sha}: not measured"


def test_a_reason_why_metrics_are_missing_is_said_once() -> None:
    missing = Dot(0, a_commit(1), Status.SKIPPED, reason="no GPU: measure on a machine with one")
    results = [
        CommitResult(a_series(cell, metric), missing, informational=False, bar=0.05)
        for cell in ("gpt.Small", "gpt.Large")
        for metric in ("mfu", "step_energy")
    ]

    assert format_unavailable(results) == [
        "not available here: mfu, step_energy: no GPU: measure on a machine with one"
    ]
