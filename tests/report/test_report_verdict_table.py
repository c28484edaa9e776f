"""Terminal tables as a whole, and escaped names."""

import re

import pytest

from perfci.report.escaping import code_span, escape_csv_cell, make_printable
from perfci.report.text_table import align_table
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_table import format_comparison, format_verdict_table
from perfci.verdicts.judging_policy import Policy
from tests.support.report_builders import EXPECTED, a_series, a_verdict, one_verdict_per_kind

HOSTILE = [
    "plain",
    "`tick`",
    "```fence```",
    "a | b",
    "@team",
    "fixes #1",
    "<script>alert(1)</script>",
    "[link](https://example.invalid)",
    "![image](https://example.invalid/x.png)",
    "line\nbreak",
    "\u202eright to left",
    "</details>",
    "` ",
    "",
    "x" * 500,
    "\\`",
]


def test_the_terminal_table() -> None:
    groups = group_verdicts(one_verdict_per_kind(), Policy().is_gating)

    assert format_comparison(groups) == (EXPECTED / "comparison.txt").read_text(encoding="utf-8")


def test_both_levels_of_a_row_share_a_unit() -> None:
    grown = a_verdict(series=a_series(unit="bytes"), levels=(1000.0, 1200.0))

    assert "0.9766 KiB  1.172 KiB" in format_verdict_table([grown])


def test_an_empty_comparison_says_so() -> None:
    assert format_comparison([]) == "Nothing was compared.\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_code_span_ends_where_it_should(name: str) -> None:
    span = code_span(name)

    fence = re.match("`+", span)
    assert fence
    assert span.endswith(fence[0])
    assert fence[0] not in re.findall("`+", span[len(fence[0]) : -len(fence[0])])


def test_wide_characters_line_up() -> None:
    table = align_table(("name", "n"), [("速い", "1"), ("fast", "22")])

    assert table == "name   n\n速い   1\nfast  22"


def test_an_empty_table_is_empty_text() -> None:
    assert format_verdict_table([]) == ""


def test_a_csv_cell_is_no_formula() -> None:
    assert escape_csv_cell('=HYPERLINK("x")') == '\'=HYPERLINK("x")'
    assert escape_csv_cell("train.time_step") == "train.time_step"


def test_a_long_name_is_shortened() -> None:
    assert make_printable("x" * 500) == "x" * 119 + "…"
