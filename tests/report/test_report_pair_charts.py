"""Charts of pairs and intervals: their shapes and their text labels."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from perfci.model import VerdictKind
from tests.support.report_builders import a_verdict
from tools.pair_charts import Column, draw_intervals_svg, draw_pairs_svg, format_change

BASE, HEAD = [1.00, 1.01, 0.99, 1.40], [1.18, 1.19, 1.17, 1.66]


def count(svg: str, shade: str) -> int:
    return sum(shade in element.get("class", "").split() for element in ElementTree.fromstring(svg).iter())


def place(svg: str, shade: str) -> list[tuple[float, float]]:
    """Where the circles of a shade are."""
    elements = [element for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("circle")]
    return [
        (float(element.attrib["cx"]), float(element.attrib["cy"]))
        for element in elements
        if element.get("class") == shade
    ]


def test_every_process_of_every_pair_is_drawn() -> None:
    svg = draw_pairs_svg(BASE, HEAD, a_verdict())

    assert count(svg, "pc-dot") == len(BASE) + 1  # one in the legend
    assert all(head[0] > base[0] for base, head in zip(place(svg, "pc-dot")[1:], place(svg, "pc-worse")[1:5]))  # noqa: B905


def test_a_higher_value_is_drawn_higher() -> None:
    svg = draw_pairs_svg(BASE, HEAD, a_verdict())

    bases, heads = place(svg, "pc-dot")[1:], place(svg, "pc-worse")[1:]
    assert all(head[1] < base[1] for base, head in zip(bases, heads, strict=False))
    assert bases[3][1] < bases[0][1]


def test_the_chart_has_a_text_label() -> None:
    svg = draw_pairs_svg(
        BASE, HEAD, a_verdict(kind=VerdictKind.REGRESSION, ratio=1.183, interval=(1.159, 1.208))
    )

    assert "4 pairs: regression, +18.3 % (+15.9 % to +20.8 %)" in svg


def test_the_bar_and_half_of_it_are_on_both_sides() -> None:
    svg = draw_intervals_svg([Column("one", a_verdict()), Column("two", a_verdict())], bar=0.1, title="Two")

    assert (count(svg, "pc-bar"), count(svg, "pc-half")) == (2, 2)
    assert "+10.0 %" in svg


@pytest.mark.parametrize("kind", [VerdictKind.REGRESSION, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE])
def test_the_label_stands_below_its_interval(kind: VerdictKind) -> None:
    svg = draw_intervals_svg([Column("8 pairs", a_verdict(kind=kind))], title="One")

    assert kind.value in svg
    assert 'role="img"' in svg


def test_a_single_pair_has_a_dot_and_no_interval() -> None:
    single_pair = replace(a_verdict(), interval=None)

    svg = draw_pairs_svg([1.0], [1.2], single_pair)

    assert count(svg, "pc-line") == 0
    assert format_change(single_pair) == "+18.3 %"
