"""`perfci incidents mute` and `perfci incidents schedule`: muted benchmarks and reporting schedules."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.store import open_store
from perfci.store.access import audit_log
from tests.support.builders import NOON, PROJECT, a_result, a_run
from tests.support.evaluations import a_project
from tests.support.stored_runs import ingest_run


@pytest.fixture
def stored(working_folder: Path) -> Path:
    """A folder whose store has one report of one suite."""
    with closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)) as store:
        project = a_project(store)
        with store.begin() as tx:
            ingest_run(tx, a_run(a_result(), started_at=NOON), "key", "body", kind="history")
            MissingDataMonitor()(tx, project, NOON + timedelta(hours=1))
    return working_folder


def incidents(*arguments: str) -> int:
    return run_cli(["incidents", *arguments, "--db", "perfci.db", "--project", PROJECT])


def test_a_benchmark_is_muted_listed_and_unmuted(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("mute", "add", "train.time_step", "--reason", "a noisy disk", "--days", "7") == 0
    assert incidents("mute", "list") == 0
    assert incidents("mute", "remove", "train.time_step") == 0
    assert incidents("mute", "list") == 0

    until = datetime.now(UTC) + timedelta(days=7)
    assert capsys.readouterr().out.splitlines() == [
        "train.time_step is muted for 7 days",
        f"train.time_step  until {until:%Y-%m-%d}  a noisy disk  (local)",
        "train.time_step is no longer muted",
        "no benchmark is muted",
    ]


def test_one_metric_of_a_benchmark_is_muted_by_itself(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    incidents("mute", "add", "train.time_step", "--metric", "step_time")
    capsys.readouterr()

    assert incidents("mute", "remove", "train.time_step") == 2
    assert incidents("mute", "list", "--json") == 0

    output = capsys.readouterr()
    assert output.err == ("perfci: train.time_step is not muted: see `perfci incidents mute list`.\n")
    [item] = json.loads(output.out)
    assert (item["benchmark"], item["metric"], item["actor"]) == ("train.time_step", "step_time", "local")


def test_muting_is_in_the_audit_log(stored: Path) -> None:
    incidents("mute", "add", "train.time_step")

    with closing(open_store(f"sqlite:///{stored}/perfci.db", create=False)) as store, store.read() as tx:
        assert audit_log.list_entries(tx, 1)[0].action == "benchmark.mute"


def test_a_schedule_is_set_muted_and_learned_again(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--every", "36h"), ("--mute",), ("--learn",)):
        assert not arguments or incidents("schedule", "set", "1", *arguments) == 0
        assert incidents("schedule", "list") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1  benchmarks on ")
    assert [line.rpartition(": ")[2] for line in lines] == [
        "too few reports to learn an interval",
        "every 36h",
        "at least every 36 hours (set by local)",
        "muted",
        "muted",
        "learned from reports",
        "too few reports to learn an interval",
    ]


def test_lists_reporting_schedules_like_the_api(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("schedule", "list", "--json") == 0

    [item] = json.loads(capsys.readouterr().out)
    assert (item["id"], item["suite"], item["branch"], item["set_by"]) == (1, "benchmarks", "main", "learned")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("1",), "Give one of --every TIME, --learn or --mute."),
        (("1", "--mute", "--learn"), "Give one of --every TIME, --learn or --mute."),
        (
            ("1", "--every", "daily"),
            "--every takes a time from 1m to 366d, such as 90m, 12h or 7d, found 'daily'",
        ),
        (("1", "--every", "0m"), "--every takes a time from 1m to 366d"),
        (("1", "--every", "367d"), "--every takes a time from 1m to 366d"),
        (("9", "--mute"), "There is no schedule 9: see `perfci incidents schedule list`."),
    ],
)
def test_explains_an_invalid_schedule_in_one_sentence(
    stored: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert incidents("schedule", "set", *arguments) == 2

    assert sentence in capsys.readouterr().err
