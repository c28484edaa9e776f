"""Whether two reasons state the same figures, though other versions of perfci worded them."""

from __future__ import annotations

import math
import re

from perfci.number_format import MINUS

FIGURE = re.compile(rf"(?<![\w.])[+\-{MINUS}]?\d[\d,]*(?:\.\d+)?(?:e[+\-{MINUS}]?\d+)?")
"""A number of a sentence, with or without sign, thousands separators and exponent."""


def state_same_figures(reason: str, other_reason: str) -> bool:
    """Whether both state the same numbers in the same order, each as exactly as the coarser of the two."""
    figures, other_figures = FIGURE.findall(reason), FIGURE.findall(other_reason)
    return len(figures) == len(other_figures) and all(map(_is_same_figure, figures, other_figures))


def _is_same_figure(text: str, other_text: str) -> bool:
    if text == other_text:
        return True
    if "e" in text or "e" in other_text:
        return math.isclose(_parse_figure(text), _parse_figure(other_text), rel_tol=1e-3)
    decimals = min(len(figure.partition(".")[2]) for figure in (text, other_text))
    return abs(_parse_figure(text) - _parse_figure(other_text)) <= 0.5 * 10.0**-decimals * (1 + 1e-9)


def _parse_figure(text: str) -> float:
    return float(text.rstrip(",").replace(MINUS, "-").replace(",", ""))
