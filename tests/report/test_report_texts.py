"""What a person reads in a terminal and in a comment, compared whole."""

import re

import pytest
from report_builders import EXPECTED, a_series, a_verdict, one_of_each

from perfci.report.markdown import HEADER, MOST_ROWS, comparison_markdown
from perfci.report.names import code_span, csv_cell, printable
from perfci.report.text import aligned, comparison_text, verdict_table

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
    assert comparison_text(one_of_each()) == (EXPECTED / "comparison.txt").read_text(encoding="utf-8")


def test_the_markdown_comment() -> None:
    text = comparison_markdown(
        one_of_each(), base="ab" * 20, head="cd" * 20, page="https://perfci.example/p/compare/ab...cd"
    )

    assert text == (EXPECTED / "comparison.md").read_text(encoding="utf-8")


def test_both_levels_of_a_row_share_a_unit() -> None:
    grown = a_verdict(series=a_series(unit="bytes"), levels=(1000.0, 1200.0))

    assert "0.9766 KiB  1.172 KiB" in verdict_table([grown])


def test_an_empty_comparison_says_so() -> None:
    assert comparison_text([]) == "Nothing was compared.\n"
    assert comparison_markdown([], base="a", head="b") == "### Nothing was compared\n\n`a` → `b`\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_foreign_word_stands_outside_a_code_span(name: str) -> None:
    verdict = a_verdict(series=a_series(name, unit=name, metric=name, x=name), reason=name)

    text = comparison_markdown([verdict], base=name, head=name)

    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    words = re.findall(r"[a-z]{4,}", outside)
    assert set(words) <= set(re.findall("[a-z]{4,}", HEADER + "regression"))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_row_has_as_many_cells_as_its_heading(name: str) -> None:
    text = comparison_markdown([a_verdict(series=a_series(name))], base="a", head="b")

    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_code_span_ends_where_it_should(name: str) -> None:
    span = code_span(name)

    fence = re.match("`+", span)
    assert fence
    assert span.endswith(fence[0])
    assert fence[0] not in re.findall("`+", span[len(fence[0]) : -len(fence[0])])


def test_a_long_comparison_is_cut_and_says_so() -> None:
    text = comparison_markdown([a_verdict()] * (MOST_ROWS + 7), base="a", head="b")

    assert text.count("\n| ▲") == MOST_ROWS
    assert "… and 7 more rows." in text


def test_wide_characters_line_up() -> None:
    table = aligned(("name", "n"), [("速い", "1"), ("fast", "22")])

    assert table == "name   n\n速い   1\nfast  22"


def test_a_table_of_nothing_is_nothing() -> None:
    assert verdict_table([]) == ""


def test_a_spreadsheet_runs_no_name() -> None:
    assert csv_cell('=HYPERLINK("x")') == '\'=HYPERLINK("x")'
    assert csv_cell("train.time_step") == "train.time_step"


def test_printable_cuts_what_is_too_long() -> None:
    assert printable("x" * 500) == "x" * 119 + "…"
