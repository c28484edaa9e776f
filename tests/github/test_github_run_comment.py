"""The comment that orders a measurement, parsed strictly."""

from __future__ import annotations

import pytest

from perfci.github.run_comment import RunCommand, is_run_comment, parse_run_command
from perfci.model import PerfciError


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/perfci run", RunCommand()),
        ("/perfci run  ", RunCommand()),
        ("/perfci run 20", RunCommand("", 20)),
        ("/perfci run ^train 20\r\nplease", RunCommand("^train", 20)),
        ("/perfci run ^train$", RunCommand("^train$")),
        ("/perfci run `^a, b=2` 7", RunCommand("^a, b=2", 7)),
        ("/perfci run ``a ` b``", RunCommand("a ` b")),
        ("/perfci run --budget", RunCommand("--budget")),
        ("/perfci run 9999999", RunCommand("9999999")),
        ("/perfci run ٤", RunCommand("٤")),
        ("/perfci bisect ^train 60", RunCommand("^train", is_bisect=True, max_processes=60)),
    ],
)
def test_reads_expression_and_pairs(body: str, command: RunCommand) -> None:
    assert is_run_comment(body)
    assert parse_run_command(body) == command


@pytest.mark.parametrize(
    "body", ["/perfci runs", "/perfci accept", " /perfci run", "hello\n/perfci run", "", "> /perfci run"]
)
def test_other_comments_order_nothing(body: str) -> None:
    assert not is_run_comment(body)


def test_a_bisect_names_its_benchmark() -> None:
    with pytest.raises(PerfciError) as failure:
        parse_run_command("/perfci bisect 60")

    assert str(failure.value) == "A benchmark was expected, as in /perfci bisect ^training."


def test_several_words_are_no_expression() -> None:
    with pytest.raises(PerfciError) as failure:
        parse_run_command("/perfci run all of it please")

    assert str(failure.value) == (
        "One expression and a number of pairs were expected, as in /perfci run ^training 20, not "
        "'all of it please': an expression with blanks stands between backticks."
    )
