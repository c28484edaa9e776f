"""The pooled verdict as text."""

import pytest

from perfci.model import Interval
from perfci.report.pooled_verdict_text import format_pooled_verdict, render_pooled_verdict_markdown
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict


def pooled(kind: PooledKind, ratio: float, lo: float, hi: float, agreeing: int) -> PooledVerdict:
    return PooledVerdict(kind, 20, 0.01, ratio, Interval(lo, hi), 0.002, agreeing)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            pooled(PooledKind.WORSE, 1.015, 1.012, 1.018, 19),
            "△ all benchmarks together: worse overall: +1.5 % time [+1.2, +1.8], "
            "19 of 20 benchmarks in this direction; "
            "from screening only, so it fails no check; look for a common cause\n",
        ),
        (
            pooled(PooledKind.BETTER, 0.98, 0.97, 0.99, 20),
            "▽ all benchmarks together: better overall: −2.0 % time [−3.0, −1.0], "
            "20 of 20 benchmarks in this direction; "
            "from screening only, so it fails no check; look for a common cause\n",
        ),
        (
            pooled(PooledKind.NO_SHIFT, 1.001, 0.997, 1.004, 11),
            "≈ all benchmarks together: no overall shift beyond 1.0 %: "
            "+0.1 % time [−0.3, +0.4] over 20 benchmarks\n",
        ),
        (
            pooled(PooledKind.INCONCLUSIVE, 1.013, 0.99, 1.03, 8),
            "? all benchmarks together: inconclusive: +1.3 % time [−1.0, +3.0], "
            "8 of 20 benchmarks in this direction; "
            "a shift of 1.0 % is neither shown nor excluded\n",
        ),
        (
            PooledVerdict(
                PooledKind.TOO_FEW,
                2,
                0.01,
                reason="Nothing to pool: 2 of at least 5 benchmarks have a time with an interval.",
            ),
            "○ all benchmarks together: not pooled: "
            "2 of at least 5 benchmarks have a time with an interval\n",
        ),
    ],
)
def test_the_pooled_verdict_is_one_line(verdict: PooledVerdict, text: str) -> None:
    assert format_pooled_verdict(verdict) == text
    assert render_pooled_verdict_markdown(verdict) == text.replace(
        "all benchmarks together:", "**All benchmarks together:**"
    )
