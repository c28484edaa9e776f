"""Number formats."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.number_format import (
    choose_display_scale,
    format_age,
    format_count,
    format_fine_percent,
    format_number,
    format_percent,
    format_quantity,
    format_signed_percent,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0124, "seconds", "12.40 ms"),
        (0.01471, "seconds", "14.71 ms"),
        (92e-9, "seconds", "92.00 ns"),
        (3.2e-6, "seconds", "3.200 µs"),
        (184.06, "seconds", "184.1 s"),
        (0.0, "seconds", "0 s"),
        (1.5 * 2**30, "bytes", "1.500 GiB"),
        (512, "bytes", "512 B"),
        (617, "count", "617"),
        (1234567, "count", "1,234,567"),
        (0, "bytes", "0 B"),
        (3.21e9, "FLOP", "3.210 GFLOP"),
        (4.2e12, "FLOP/s", "4.200 TFLOP/s"),
        (0.00312, "seconds/token", "3.120 ms/token"),
        (1.755e9, "hertz", "1.755 GHz"),
        (61.5, "celsius", "61.50 °C"),
        (8123.4, "tokens/s", "8,123 tokens/s"),
        (0.731, "", "0.7310"),
        (-0.0124, "seconds", "−12.40 ms"),
        (1e-12, "ratio", "1.000e−12"),
    ],
)
def test_a_value_is_written_in_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (0.194, "data_stall", "19.4 %"),
        (0.19, "prefill_share", "19.0 %"),
        (0.0123, "mfu", "1.23 %"),
        (1.0, "sla_attainment", "100 %"),
        (0.0, "padding", "0 %"),
        (0.0007, "fragmentation", "0.0700 %"),
        (0.194, "rtf", "0.1940"),
        (1.31, "speedup_vs_eager", "1.310"),
        (1.02, "tpot_growth", "1.020"),
        (0.5, "stall_count", "0.5000"),
    ],
)
def test_a_share_reads_as_a_percentage_and_another_ratio_as_a_number(
    value: float, name: str, text: str
) -> None:
    assert format_quantity(value, "ratio", name) == text


def test_all_values_of_a_view_share_one_unit() -> None:
    scale = choose_display_scale([0.0005, 1.2], "seconds")

    assert scale.format_with_unit(0.0005) == "0.0005000 s"
    assert scale.format_without_unit(1.2) == "1.2"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (0.183, "+18.3 %"),
        (-0.04, "−4.0 %"),
        (0.0, "0.0 %"),
        (6.5, "+650 %"),
        (-0.0004, "−0.04 %"),
        (12.345, "+1,234 %"),
    ],
)
def test_a_change_reads_with_its_sign(change: float, text: str) -> None:
    assert format_signed_percent(change) == text


def test_a_change_too_small_to_write_has_no_sign() -> None:
    assert format_signed_percent(-1e-9) == "0.00 %"


@given(st.floats(min_value=-1e12, max_value=1e12))
@settings(deadline=None, derandomize=True)
def test_a_number_reads_back_to_within_four_digits(value: float) -> None:
    read = float(format_number(value).replace(",", "").replace("−", "-"))

    assert math.isclose(read, value, rel_tol=6e-4)


@given(st.floats(min_value=0, max_value=1e15), st.sampled_from(["seconds", "bytes", "count", "tokens/s", ""]))
@settings(deadline=None, derandomize=True)
def test_every_value_can_be_written(value: float, unit: str) -> None:
    assert format_quantity(value, unit).strip()
    assert format_percent(value).endswith(" %")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86400 * 400, "1 year ago")],
)
def test_an_age_reads_roughly(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


def test_a_count_has_a_singular_and_a_plural() -> None:
    assert format_count(1, "pair") == "1 pair"
    assert format_count(1200, "series", "series") == "1,200 series"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.01, "1 %"),
        (0.0345, "3.5 %"),
        (0.00001, "0.001 %"),
        (0.000012345, "0.0012 %"),
        (1.234, "123 %"),
        (0.0, "0 %"),
        (3.21e-12, "3.2e−10 %"),
    ],
)
def test_a_tolerance_has_two_significant_digits(share: float, text: str) -> None:
    assert format_fine_percent(share) == text
