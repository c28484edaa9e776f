"""docs/studies/django-calls.md shows what was judged; right calls are still made, wrong ones are not."""

from __future__ import annotations

import re

import pytest

from perfci.model import Benchmark, ChangePoint, Machine, Metric, Series, Variant
from tools.study_django import (
    ANSWERS,
    ARCHIVE,
    MAX_WRONG_KEPT,
    MIN_RIGHT_KEPT,
    PLOTS,
    ROOT,
    Call,
    History,
    find_calls,
    find_judged_calls,
    format_figures,
    load_histories,
    load_judgements,
    measure_kept_shares,
    measure_own_move,
)

PAGE = (ROOT / "docs" / "studies" / "django-calls.md").read_text()
JUDGEMENTS = load_judgements()
SHAS = [f"{number:040x}" for number in range(60)]


def test_the_page_shows_every_judgement() -> None:
    assert format_figures(JUDGEMENTS) in PAGE
    assert [item for item in JUDGEMENTS if item.judged not in ANSWERS or not item.reason] == []


def test_each_judged_call_is_in_a_picture_of_the_page() -> None:
    sheets = re.findall(r"plots/django/(\w+-\d\.svg)", PAGE)

    pictures = "".join((PLOTS / sheet).read_text() for sheet in sheets)

    assert sorted(sheets) == sorted(file.name for file in PLOTS.glob("*.svg"))
    assert [item for item in JUDGEMENTS if item.commit and f">{item.commit} " not in pictures] == []


@pytest.mark.skipif(not ARCHIVE.exists(), reason="the asv results of Django are not at hand")
def test_the_calls_judged_right_are_made_and_the_wrong_ones_are_not() -> None:
    histories = load_histories()

    calls = find_judged_calls(JUDGEMENTS, histories, find_calls(histories))
    shares = measure_kept_shares(JUDGEMENTS, calls)

    assert shares["right"] >= MIN_RIGHT_KEPT
    assert shares["wrong"] <= MAX_WRONG_KEPT


@pytest.mark.parametrize(("own_step", "expected"), [(1.2, "0.0 %"), (1.5, "+25.0 %")])
def test_what_all_benchmarks_share_is_not_of_one(own_step: float, expected: str) -> None:
    steps = {"time_mine": own_step, "time_other": 1.2, "time_third": 1.2}
    histories = [build_history(name, step) for name, step in steps.items()]
    change = ChangePoint(histories[0].series, SHAS[30], SHAS[29], 1.0, own_step)

    assert measure_own_move(Call(histories[0], 30, change), histories) == expected


def build_history(name: str, step: float) -> History:
    variant = Variant((("environment_type", "conda"), ("python", "3.13")))
    series = Series(Benchmark(name, "1"), (), Metric("time", "seconds"), Machine(name="ci"), variant)
    return History(series, SHAS, [1.0] * 30 + [step] * 30, [False] * 60)
