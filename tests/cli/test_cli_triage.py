"""``perfci incidents`` with stored incidents and destinations."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.store import open_store
from tests.support.builders import PROJECT
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile


@pytest.fixture
def stored(working_folder: Path) -> Path:
    """A folder whose store has two open incidents."""
    with closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)) as store:
        result = (
            a_budgeted_incident("b1", a_move("serve.time_token", at=20), good=19, bad=20),
            a_budgeted_incident("a1", a_move("train.time_step"), a_move("train.time_loss")),
        )
        reconcile(store, datetime.now(UTC) - timedelta(days=1), *result)
    return working_folder


def incidents(*arguments: str) -> int:
    return run_cli(["incidents", *arguments, "--db", "perfci.db", "--project", PROJECT])


def test_lists_incidents_by_section_and_number(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("list") == 0

    assert capsys.readouterr().out.splitlines()[:5] == [
        f"{PROJECT}: 2 open incidents",
        "",
        "Open",
        "  ▲ #2  new  serve.time_token got worse, +20.0 %, at 00000014cc Change number 20 (2 Mar 2026)",
        "    serve.time_token got 20.0 % slower. Detected in the history only; not yet confirmed on new "
        "pairs.",
    ]


def test_sets_a_state_and_shows_the_incident(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        incidents(
            "set", "1", "--state", "investigating", "--assignee", "ada", "--note", "looks like the tokenizer"
        )
        == 0
    )
    capsys.readouterr()

    assert incidents("show", "1") == 0

    shown = capsys.readouterr().out
    headline = "train.time_step and 1 more series got worse, up to +20.0 %, at 0000000ccc Change number 12"
    assert f"▲ #1  investigating  {headline} (2 Mar 2026)" in shown
    assert "local  State: new → investigating" in shown
    assert "local  Assignee: ada" in shown
    assert "local  Note: looks like the tokenizer" in shown


def test_finds_an_incident_by_its_derived_id(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("show", "b1", "--json") == 0

    assert json.loads(capsys.readouterr().out)["number"] == 2


def test_changes_several_incidents_and_reports_rejected_ones(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    incidents("set", "1", "--state", "invalid")
    capsys.readouterr()

    assert incidents("set", "1", "2", "--state", "snoozed", "--until", "2099-01-01") == 0

    output = capsys.readouterr()
    assert "#2  snoozed" in output.out
    assert output.err.startswith("#1: Incident 1 is invalid: it can become ")


def test_exits_with_1_if_no_incident_was_changed(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    incidents("set", "1", "2", "--state", "invalid")
    capsys.readouterr()

    assert incidents("set", "1", "2", "--state", "snoozed", "--until", "2099-01-01") == 1

    assert capsys.readouterr().out == ""


def test_changes_the_end_of_an_acceptance(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    incidents("set", "1", "--state", "accepted", "--reason", "bf16", "--until", "2098-01-01")
    incidents("set", "1", "--state", "accepted", "--until", "2099-01-01")
    capsys.readouterr()

    incidents("show", "1")

    assert "Accepted until: 1 Jan 2099" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "1"), "Nothing to change"),
        (("set", "9", "--state", "fixed"), "has no incident 9"),
        (("set", "1", "--state", "accepted", "--reason", "wanted"), "Accepting needs a reason and a day"),
        (("set", "1", "--state", "fixed", "--revision", "7"), "was changed meanwhile"),
        (("set", "1", "--state", "snoozed", "--until", "soon"), "is not a day"),
        (
            ("set", "1", "--until", "2099-01-01"),
            "--until goes with --state accepted or --state snoozed: say which.",
        ),
        (("set", "1", "--state", "fixed", "--until", "2099-01-01"), "--until goes with --state accepted or"),
        (("set", "1", "--duplicate-of", "2"), "The number of another incident goes with the state duplicate"),
        (
            ("set", "1", "--issue", "javascript:alert(1)"),
            "The issue must be an address that begins with https://",
        ),
        (
            ("set", "1", "--fix", "HEAD"),
            "What fixes it must be a commit's sha: 7 to 64 of the characters 0-9 and a-f.",
        ),
        (
            ("set", "1", "--assignee", "x" * 101),
            "The assignee must be one line of at most 100 visible characters.",
        ),
        (("set", "1", "--note", "\x1b[31mred"), "The note must be at most 4,000 visible characters."),
        (
            ("set", "1", "2", "--revision", "1", "--state", "fixed"),
            "--revision applies to a single incident.",
        ),
    ],
)
def test_explains_an_invalid_change_in_one_sentence(
    stored: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert incidents(*arguments) == 2

    assert sentence in capsys.readouterr().err


def test_sets_tests_and_removes_a_destination(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hook = ("--kind", "webhook", "--address", "https://127.0.0.1/hook")

    assert incidents("destination", "set", "team", *hook, "--quiet", "22:00-07:00", "--bench", "train.*") == 0
    assert incidents("destination", "list") == 0
    assert capsys.readouterr().out.splitlines()[1] == "team  webhook  https://127.0.0.1/hook"
    assert incidents("destination", "test", "team") == 1
    assert "which is not a public address" in capsys.readouterr().err

    assert incidents("destination", "remove", "team") == 0
    assert incidents("destination", "remove", "team") == 2


def test_explains_an_invalid_destination(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("destination", "set", "x", "--kind", "email", "--address", "nobody") == 2
    assert "'nobody' is no mail address" in capsys.readouterr().err

    assert (
        incidents(
            "destination", "set", "x", "--kind", "slack", "--address", "https://a.b/", "--quiet", "late"
        )
        == 2
    )
    assert "is no time of day" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("", (), "The name of a destination is one line of at most 100 visible characters."),
        (
            "x",
            ("--bench", "a\nb"),
            "A destination filters at most 50 names of benchmarks, each at most 200 visible",
        ),
        ("x", ("--quiet", "25:00-07:00", "--digest", "daily@09:00"), "'25:00' is no time of day"),
        ("x", ("--quiet", "٢٢:٠٠-07:00"), "is no time of day"),
    ],
)
def test_rejects_a_destination_name_that_cannot_be_listed(
    stored: Path, capsys: pytest.CaptureFixture[str], name: str, options: tuple[str, ...], sentence: str
) -> None:
    assert (
        incidents("destination", "set", name, "--kind", "slack", "--address", "https://a.b/", *options) == 2
    )
    assert sentence in capsys.readouterr().err

    assert incidents("destination", "list") == 0
    assert capsys.readouterr().out == "no destinations: add one with `perfci incidents destination set`\n"
