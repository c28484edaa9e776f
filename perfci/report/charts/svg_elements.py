"""Write SVG elements as text, with the style sheet of their CSS classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape

MAX_FORMATTED_STEPS = 5000
"""Steps whose text is kept: a page with fifty small charts writes six thousand, of the same few hundred."""

SVG_STYLE = """\
.pc-text{font:11px Inter,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif;\
fill:var(--muted);font-variant-numeric:tabular-nums}
.pc-strong{fill:var(--ink);font-weight:600}
.pc-halo{paint-order:stroke;stroke:var(--surface);stroke-width:4px;stroke-linejoin:round}
.pc-end{text-anchor:end}
.pc-middle{text-anchor:middle}
.pc-ground{fill:var(--surface)}
.pc-grid{stroke:var(--grid);stroke-width:1}
.pc-axis{stroke:var(--rule);stroke-width:1}
.pc-band{fill:var(--band)}
.pc-whisker{stroke:var(--band);stroke-width:5;stroke-linecap:round}
.pc-dot{fill:var(--dot)}
.pc-dots{fill:none;stroke:var(--dot);stroke-linecap:round}
.pc-level{fill:none;stroke:var(--level);stroke-width:1.75;stroke-linejoin:round}
.pc-riser{stroke:var(--level);stroke-width:1;stroke-dasharray:2 3}
.pc-failed{fill:none;stroke:var(--worse);stroke-width:1.5;stroke-linecap:round}
.pc-skipped{fill:none;stroke:var(--muted);stroke-width:1.5;stroke-linecap:round}
.pc-worse{fill:var(--worse)}
.pc-better{fill:var(--better)}
.pc-same{fill:var(--same)}
.pc-unsure{fill:var(--unsure)}
.pc-void{fill:var(--muted)}
.pc-flag{stroke-width:1.5;stroke-linejoin:round}
.pc-flag.pc-worse,.pc-stem.pc-worse,.pc-line.pc-worse{stroke:var(--worse)}
.pc-flag.pc-better,.pc-stem.pc-better,.pc-line.pc-better{stroke:var(--better)}
.pc-line.pc-same,.pc-line.pc-void{stroke:var(--same)}
.pc-line.pc-unsure{stroke:var(--unsure)}
.pc-hollow{fill:var(--surface)}
.pc-flag.pc-refuted{fill:var(--surface);stroke:var(--muted)}
.pc-flag.pc-same,.pc-stem.pc-same{stroke:var(--same)}
.pc-env{fill:var(--same-tint);fill-opacity:.55}
.pc-blind{fill:var(--same-tint)}
.pc-mark-environment{stroke:var(--control);stroke-width:1;stroke-dasharray:1 3}
.pc-mark-note{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 2}
.pc-mark-break{stroke:var(--control);stroke-width:1;stroke-dasharray:5 3}
.pc-unmeasured{fill:none;stroke:var(--muted);stroke-width:1}
.pc-invalid{fill:var(--surface);stroke:var(--dot)}
.pc-line-1{--line:var(--line-1)}
.pc-line-2{--line:var(--line-2)}
.pc-line-3{--line:var(--line-3)}
.pc-line-4{--line:var(--line-4)}
.pc-line-5{--line:var(--line-5)}
.pc-line-6{--line:var(--line-6)}
.pc-line-7{--line:var(--line-7)}
.pc-line-8{--line:var(--line-8)}
.pc-dot.pc-line-1{fill:var(--line-1)}
.pc-level.pc-line-1,.pc-riser.pc-line-1,.pc-dots.pc-line-1{stroke:var(--line-1)}
.pc-dot.pc-line-2{fill:var(--line-2)}
.pc-level.pc-line-2,.pc-riser.pc-line-2,.pc-dots.pc-line-2{stroke:var(--line-2)}
.pc-dot.pc-line-3{fill:var(--line-3)}
.pc-level.pc-line-3,.pc-riser.pc-line-3,.pc-dots.pc-line-3{stroke:var(--line-3)}
.pc-dot.pc-line-4{fill:var(--line-4)}
.pc-level.pc-line-4,.pc-riser.pc-line-4,.pc-dots.pc-line-4{stroke:var(--line-4)}
.pc-dot.pc-line-5{fill:var(--line-5)}
.pc-level.pc-line-5,.pc-riser.pc-line-5,.pc-dots.pc-line-5{stroke:var(--line-5)}
.pc-dot.pc-line-6{fill:var(--line-6)}
.pc-level.pc-line-6,.pc-riser.pc-line-6,.pc-dots.pc-line-6{stroke:var(--line-6)}
.pc-dot.pc-line-7{fill:var(--line-7)}
.pc-level.pc-line-7,.pc-riser.pc-line-7,.pc-dots.pc-line-7{stroke:var(--line-7)}
.pc-dot.pc-line-8{fill:var(--line-8)}
.pc-level.pc-line-8,.pc-riser.pc-line-8,.pc-dots.pc-line-8{stroke:var(--line-8)}
.pc-stem{fill:none;stroke-width:1;opacity:.55}
.pc-range{fill-opacity:.1;stroke:none}
.pc-line{stroke-width:2;stroke-linecap:round}
.pc-line.pc-dashed{stroke-dasharray:3 3}
.pc-steps{fill:none}
.pc-spark{fill:none;stroke:var(--dot);stroke-width:1;opacity:.55}
.pc-bar{stroke-width:1.5}
.pc-bar.pc-worse{stroke:var(--worse)}
.pc-bar.pc-better{stroke:var(--better)}
.pc-bar.pc-hollow{fill:var(--surface);stroke-dasharray:3 2}
.pc-zone{fill:var(--same-tint)}
.pc-measured{fill:var(--level)}
.pc-idle{fill:var(--rule)}
.pc-unrun{fill:var(--unsure-hatch)}
.pc-zero{stroke:var(--control);stroke-width:1}
@media (forced-colors:active){.pc-level,.pc-grid,.pc-axis,.pc-zero,.pc-dots{stroke:CanvasText}\
.pc-dot{fill:CanvasText}}
"""


def svg_background(width: int, height: int) -> str:
    """Write a background rectangle in the surface colour."""
    return f'<rect class="pc-ground" width="{width}" height="{height}"/>'


def svg_rect(x0: float, y0: float, x1: float, y1: float, css_class: str = "") -> str:
    """Write a rectangle between two corners, in px."""
    name = f' class="{css_class}"' if css_class else ""
    width, height = format_px(max(0.0, x1 - x0)), format_px(y1 - y0)
    return f'<rect{name} x="{format_px(x0)}" y="{format_px(y0)}" width="{width}" height="{height}"/>'


def svg_line(x0: float, y0: float, x1: float, y1: float, css_class: str) -> str:
    """Write a line between two points, in px."""
    start = f'x1="{format_px(x0)}" y1="{format_px(y0)}"'
    end = f'x2="{format_px(x1)}" y2="{format_px(y1)}"'
    return f'<line class="{css_class}" {start} {end}/>'


def svg_circle(x: float, y: float, radius: float, css_class: str, title: str = "") -> str:
    """Write a circle, with a tooltip if ``title`` is given."""
    title_element = f"<title>{escape(title)}</title>" if title else ""
    centre = f'cx="{format_px(x)}" cy="{format_px(y)}"'
    return f'<circle class="{css_class}" {centre} r="{radius}">{title_element}</circle>'


def svg_text(x: float, y: float, text: str, css_class: str = "") -> str:
    """Write escaped text at a position, in px."""
    name = f"pc-text {css_class}".rstrip()
    return f'<text class="{name}" x="{format_px(x)}" y="{format_px(y)}">{escape(text)}</text>'


def svg_relative_points(points: Iterable[tuple[float, float]]) -> Iterator[str]:
    """Write points as steps from the one before, the first from the origin: shorter than coordinates.

    Each is at a whole tenth of a pixel, so that the steps add up to where the point lies.
    """
    x, y = 0, 0
    for point_x, point_y in points:
        next_x, next_y = round(10 * point_x), round(10 * point_y)
        yield f"{_format_tenths(next_x - x)},{_format_tenths(next_y - y)}"
        x, y = next_x, next_y


@lru_cache(MAX_FORMATTED_STEPS)
def _format_tenths(tenths: int) -> str:
    return format_px(tenths / 10)


def format_px(value: float) -> str:
    """Format a coordinate to a tenth of a pixel, without trailing zeros."""
    # Small negative values round to -0.0.
    text = f"{value:.1f}"
    if not text.endswith(".0"):
        return text
    return text[:-2] if text != "-0.0" else "0"
