"""Reasons that other versions of perfci worded state the same figures, or do not."""

import pytest

from perfci.history.reason_figures import state_same_figures

REASON = (
    "−0.7 % over 8 pairs, interval −5.1 % to +139 %: neither beyond the threshold of 5.0 % nor inside it."
)


@pytest.mark.parametrize(
    ("stored", "is_same"),
    [
        (REASON, True),
        (
            "-0.7% over 8 pairs, interval -5.1% to +139.2%: neither beyond the bar of 5.0% nor inside it.",
            True,
        ),
        (
            "-0.7% over 9 pairs, interval -5.1% to +139.2%: neither beyond the bar of 5.0% nor inside it.",
            False,
        ),
        (
            "+0.7% over 8 pairs, interval -5.1% to +139.2%: neither beyond the bar of 5.0% nor inside it.",
            False,
        ),
        (
            "-0.7% over 8 pairs, interval -5.1% to +139.8%: neither beyond the bar of 5.0% nor inside it.",
            False,
        ),
        ("-0.7% over 8 pairs: neither beyond the bar of 5.0% nor inside it.", False),
        ("It was not measured.", False),
    ],
)
def test_words_and_number_formats_may_differ_but_no_figure(stored: str, is_same: bool) -> None:
    assert state_same_figures(stored, REASON) is is_same


def test_large_and_tiny_numbers_are_read_whole() -> None:
    assert state_same_figures("812 became 1,610,612,736 (1.5e-07).", "812 became 1610612736 (1.5e−07).")
    assert not state_same_figures("812 became 1,610,612,736.", "812 became 1,610,612,737.")
