"""The bar of one change in a table: estimate and interval on a log-ratio axis around no change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from perfci.model import Interval, Verdict
from perfci.number_format import format_signed_percent
from perfci.report.charts.svg_elements import format_px, svg_circle, svg_line, svg_rect
from perfci.report.verdict_text import Tone, verdict_label, verdict_tone


@dataclass(frozen=True, slots=True)
class RatioBar:
    """A change to draw: ``noise`` is the half width of the grey zone as a ratio, None where none is known.

    A ``dashed`` line is not decided. ``label`` is what a screen reader says.
    """

    ratio: float
    interval: Interval | None
    noise: float | None
    tone: Tone
    label: str
    dashed: bool = False


def render_interval_bar(verdict: Verdict, *, span: float, width: int = 168, height: int = 22) -> str:
    """Render the change of a verdict; the noise floor is grey. A verdict without a ratio draws nothing."""
    if verdict.ratio is None or verdict.ratio <= 0:
        return ""
    tone = verdict_tone(verdict)
    label = format_ratio_label(verdict_label(verdict), verdict.ratio, verdict.interval)
    bar = RatioBar(verdict.ratio, verdict.interval, verdict.noise_floor, tone, label, dashed=tone == "unsure")
    return render_ratio_bar(bar, span=span, width=width, height=height)


def render_ratio_bar(bar: RatioBar, *, span: float, width: int = 168, height: int = 22) -> str:
    """Render a change and its interval.

    ``span`` is the largest ratio shown on either side (2: from half to double); an arrow marks what lies
    beyond it.
    """
    log_span, middle, y = math.log(span), width / 2, height / 2

    def x(ratio: float) -> float:
        share = math.log(max(ratio, 1e-12)) / log_span
        return middle + (middle - 6) * max(-1.0, min(1.0, share))

    parts = []
    if bar.noise:
        parts.append(svg_rect(x(1 / (1 + bar.noise)), 2, x(1 + bar.noise), height - 2, "pc-zone"))
    parts.append(
        f'<line class="pc-zero" x1="{format_px(middle)}" y1="1" x2="{format_px(middle)}" y2="{height - 1}"/>'
    )
    tone_class = f"pc-{bar.tone}"
    interval = bar.interval or Interval(bar.ratio, bar.ratio)
    dashed = " pc-dashed" if bar.dashed else ""
    parts.append(svg_line(x(interval.lo), y, x(interval.hi), y, f"pc-line {tone_class}{dashed}"))
    for end in (interval.lo, interval.hi):
        if end <= 0 or abs(math.log(end)) > log_span:
            tip = 5 if end > 1 else -5
            arrow_head = f"M{format_px(x(end) + tip)},{format_px(y)}l{-tip},-4v8Z"
            parts.append(f'<path class="{tone_class}" d="{arrow_head}"/>')
    parts.append(svg_circle(x(bar.ratio), y, 3.5, tone_class))
    return (
        f'<svg class="pc-interval" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{escape(bar.label)}">{"".join(parts)}</svg>'
    )


def format_ratio_label(word: str, ratio: float, interval: Interval | None) -> str:
    """Say a change in words: ``regression, +18.3 %, from +15.9 % to +20.8 %``."""
    estimate = f"{word}, {format_signed_percent(ratio - 1)}"
    if interval is None:
        return estimate
    low, high = (format_signed_percent(end - 1) for end in (interval.lo, interval.hi))
    return f"{estimate}, from {low} to {high}"
