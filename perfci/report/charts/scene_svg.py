"""Draw a scene as SVG text, coloured by CSS class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain

from perfci.report.charts.scene import (
    Scene,
    SceneBand,
    SceneBar,
    SceneFailure,
    SceneFlag,
    SceneFrame,
    SceneText,
    SceneZone,
)
from perfci.report.charts.svg_elements import (
    SVG_STYLE,
    format_px,
    svg_background,
    svg_circle,
    svg_line,
    svg_rect,
    svg_relative_points,
    svg_text,
)
from perfci.report.color_palette import standalone_svg_palette_css
from perfci.report.escaping import make_printable

FLAG_Y, FLAG_STEM_Y = 42.0, 50.0
FAILURE_OFFSET_PX, UNMEASURED_OFFSET_PX = 13.0, 4.0
TITLE_HEIGHT_PX, LEGEND_HEIGHT_PX, LEGEND_ROW_PX = 30, 26, 18
ENTRY_MARGIN_PX, CHARACTER_WIDTH_PX = 24, 6.2
"""Of an entry of the legend, beside its name; and of a character of that, on average."""

ANCHOR_CLASSES = {"start": "", "middle": "pc-middle", "end": "pc-end"}

LEGEND = (
    ("commit", '<circle class="pc-dot" cx="9" cy="-4" r="3.2"/>'),
    ("middle 50 % of runs", '<rect class="pc-band" y="-9" width="18" height="10"/>'),
    ("level", '<line class="pc-level" x1="0" y1="-4" x2="18" y2="-4"/>'),
    ("confirmed", '<path class="pc-flag pc-worse" d="M9 -9l5 9H4z"/>'),
    ("not confirmed", '<path class="pc-flag pc-worse pc-hollow" d="M9 -9l5 9H4z"/>'),
    ("failed", '<path class="pc-failed" d="M5.5 -7.5l7 7m0-7l-7 7"/>'),
    ("what noise hides", '<rect class="pc-blind" y="-9" width="18" height="10"/>'),
)

BAR_LEGEND = (
    ("worse", '<rect class="pc-bar pc-worse" x="3" y="-9" width="12" height="10"/>'),
    ("better", '<rect class="pc-bar pc-better" x="3" y="-9" width="12" height="10"/>'),
    ("not confirmed", '<rect class="pc-bar pc-worse pc-hollow" x="3" y="-9" width="12" height="10"/>'),
    ("drift and small changes", '<rect class="pc-bar pc-same" x="3" y="-9" width="12" height="10"/>'),
)


MAX_TOOLTIPS = 120
"""Dots in a page's picture that still have tooltips: more are merged ones too close to point at, and their
texts are a quarter of the page; its table, its script and the picture that stands alone have them."""


def render_scene_svg(
    scene: Scene, *, id_prefix: str = "trend", standalone: bool = False, with_tooltips: bool = True
) -> str:
    """Draw a scene; ``standalone`` adds name, place, legend and the style that a page would supply."""
    frame = scene.frame
    with_tooltips = with_tooltips and (standalone or len(scene.dots) <= MAX_TOOLTIPS)
    parts = [svg_background(frame.width, frame.height)] if standalone else []
    plot_area = svg_rect(frame.left, frame.top - 6, frame.right, frame.bottom)
    parts += [
        f'<defs><clipPath id="{id_prefix}-plot">{plot_area}</clipPath></defs>',
        f'<g clip-path="url(#{id_prefix}-plot)">',
        *(_draw_zone(zone, frame) for zone in scene.zones),
        "</g>",
        *_draw_grid(scene),
        f'<g clip-path="url(#{id_prefix}-plot)">',
        *_draw_marks(scene),
        *(_draw_band(band, frame) for band in scene.bands),
        *(_draw_dots(scene) if with_tooltips else _draw_dots_without_tooltips(scene)),
        *_draw_segments(scene),
        *(_draw_bar(bar, frame) for bar in scene.bars),
        "</g>",
        *_draw_lane(scene),
        *(part for flag in scene.flags for part in _draw_flag(flag, frame)),
        *(_draw_text(text) for text in scene.texts),
    ]
    if standalone:
        parts = [*parts, *_draw_title(scene), *_draw_legend(scene)]
    return _wrap(parts, scene, id_prefix, standalone)


def render_scenes_below_each_other(scenes: Sequence[Scene]) -> str:
    """Draw several scenes as one picture that stands alone, each with its name and legend."""
    if len(scenes) == 1:
        return render_scene_svg(scenes[0], standalone=True)
    parts, top = [], 0
    for number, scene in enumerate(scenes, start=1):
        picture = render_scene_svg(scene, id_prefix=f"panel{number}", standalone=True)
        parts.append(f'<svg y="{top}"{picture.removeprefix("<svg")}')
        top += TITLE_HEIGHT_PX + scene.frame.height + _legend_height(scene)
    width = max(scene.frame.width for scene in scenes)
    names = "; ".join(make_printable(scene.name, 300) for scene in scenes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}"'
        f' height="{top}" role="img" aria-label="{escape(names)}">{"".join(parts)}</svg>'
    )


def _wrap(parts: list[str], scene: Scene, id_prefix: str, standalone: bool) -> str:
    width, height = scene.frame.width, scene.frame.height
    top, style, size = 0, "", ""
    if standalone:
        top, height = -TITLE_HEIGHT_PX, height + TITLE_HEIGHT_PX + _legend_height(scene)
        style = f"<style>{standalone_svg_palette_css()}{SVG_STYLE}</style>"
        size = f' width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pc-trend" viewBox="0 {top} {width} {height}"{size}'
        f' role="img" aria-labelledby="{id_prefix}-title {id_prefix}-description">{style}'
        f'<title id="{id_prefix}-title">{escape(make_printable(scene.name, 300))}</title>'
        f'<desc id="{id_prefix}-description">{escape(scene.description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _draw_title(scene: Scene) -> Iterator[str]:
    """Name and place above a picture that stands alone."""
    frame = scene.frame
    yield svg_rect(0, -TITLE_HEIGHT_PX, frame.width, 0, "pc-ground")
    yield svg_rect(0, frame.height, frame.width, frame.height + _legend_height(scene), "pc-ground")
    room = int(frame.width / 7.5)
    name = make_printable(scene.name, room)
    yield svg_text(12, -10, name, "pc-strong")
    if scene.place and len(name) + 3 < room:
        place = make_printable(scene.place, room - len(name) - 2)
        yield svg_text(frame.width - 12, -10, place, "pc-end")


def _draw_legend(scene: Scene) -> Iterator[str]:
    """Draw the symbols of a chart; of several series the colours with their names."""
    if scene.lines:
        yield from _draw_line_names(scene)
        return
    x, y = scene.frame.left, scene.frame.height + 14
    for name, shape in BAR_LEGEND if scene.bars else LEGEND:
        end = x + ENTRY_MARGIN_PX + CHARACTER_WIDTH_PX * len(name)
        if end < scene.frame.width:
            yield f'<g transform="translate({format_px(x)} {y})">{shape}</g>'
            yield svg_text(x + 23, y, name)
        x = end + 14


def _draw_line_names(scene: Scene) -> Iterator[str]:
    """Draw the names of series in columns as wide as the longest: one that is cut may read as another."""
    columns = _count_columns(scene)
    room = (scene.frame.width - scene.frame.left) / columns
    for index, name in enumerate(scene.lines):
        x = scene.frame.left + room * (index % columns)
        y = scene.frame.height + 14 + LEGEND_ROW_PX * (index // columns)
        shape = f'<circle class="pc-dot pc-line-{index + 1}" cx="9" cy="-4" r="4"/>'
        yield f'<g transform="translate({format_px(x)} {y})">{shape}</g>'
        text = make_printable(name, max(1, int((room - ENTRY_MARGIN_PX) / CHARACTER_WIDTH_PX)))
        yield svg_text(x + 23, y, text)


def _count_columns(scene: Scene) -> int:
    longest = ENTRY_MARGIN_PX + 14 + CHARACTER_WIDTH_PX * max(map(len, scene.lines))
    return max(1, min(len(scene.lines), int((scene.frame.width - scene.frame.left) / longest)))


def _legend_height(scene: Scene) -> int:
    rows = -(-len(scene.lines) // _count_columns(scene)) if scene.lines else 1
    return LEGEND_HEIGHT_PX + LEGEND_ROW_PX * (rows - 1)


def _draw_text(text: SceneText) -> str:
    classes = [ANCHOR_CLASSES[text.anchor], "pc-strong" if text.strong else ""]
    if text.tone == "ink":
        classes.append("pc-halo")
    elif text.tone != "muted":
        classes.append(f"pc-{text.tone}")
    return svg_text(text.x, text.y, text.text, " ".join(filter(None, classes)))


def _draw_grid(scene: Scene) -> Iterator[str]:
    frame = scene.frame
    for value in scene.grid:
        y = frame.y_at(value)
        yield svg_line(frame.left, y, frame.right, y, "pc-grid")
    yield svg_line(frame.left, frame.bottom, frame.right, frame.bottom, "pc-axis")
    for position in scene.x_ticks:
        x = frame.x_at(position)
        yield svg_line(x, frame.bottom + 20, x, frame.bottom + 24, "pc-axis")


def _draw_zone(zone: SceneZone, frame: SceneFrame) -> str:
    top = frame.top - 6 if zone.y1 is None else frame.y_at(zone.y1)
    bottom = frame.bottom if zone.y0 is None else frame.y_at(zone.y0)
    tone = f" pc-{zone.tone}" if zone.kind == "candidates" else ""
    css_class = {"environment": "pc-env", "blind": "pc-blind", "candidates": "pc-range"}[zone.kind]
    return svg_rect(frame.x_at(zone.x0), top, frame.x_at(zone.x1), bottom, f"{css_class}{tone}")


def _draw_bar(bar: SceneBar, frame: SceneFrame) -> str:
    css_class = f"pc-bar pc-{'idle' if bar.tone == 'muted' else bar.tone}{' pc-hollow' if bar.hollow else ''}"
    rect = svg_rect(frame.x_at(bar.x0), frame.y_at(bar.y1), frame.x_at(bar.x1), frame.y_at(bar.y0), css_class)
    return f"{rect.removesuffix('/>')}><title>{escape(bar.title)}</title></rect>"


def _draw_marks(scene: Scene) -> Iterator[str]:
    frame = scene.frame
    for mark in scene.marks:
        x = frame.x_at(mark.x)
        line = svg_line(x, frame.top - 6, x, frame.bottom, f"pc-mark-{mark.kind}")
        yield f"{line.removesuffix('/>')}><title>{escape(mark.text)}</title></line>"


def _draw_band(band: SceneBand, frame: SceneFrame) -> str:
    if len(band.x) == 1:
        x = frame.x_at(band.x[0])
        return svg_line(x, frame.y_at(band.y_lo[0]), x, frame.y_at(band.y_hi[0]), "pc-whisker")
    xs = [frame.x_at(x) for x in band.x]
    upper = zip(xs, map(frame.y_at, band.y_hi), strict=True)
    lower = zip(xs[::-1], map(frame.y_at, band.y_lo[::-1]), strict=True)
    first, *steps = svg_relative_points(chain(upper, lower))
    return f'<path class="pc-band" d="M{first}l{" ".join(steps)}z"/>'


def _draw_dots(scene: Scene) -> Iterator[str]:
    frame, radius = scene.frame, scene.dot_radius
    for dot in scene.dots:
        css_class = f"pc-dot{_line_class(scene, dot.line)}{' pc-invalid' if dot.invalid else ''}"
        yield svg_circle(frame.x_at(dot.x), frame.y_at(dot.y), radius, css_class, dot.title)


def _draw_dots_without_tooltips(scene: Scene) -> Iterator[str]:
    """Draw the dots of each line as one path of points with round ends; hollow ones stand alone."""
    frame, radius = scene.frame, scene.dot_radius
    for line in range(max(1, len(scene.lines))):
        dots = [dot for dot in scene.dots if dot.line == line and not dot.invalid]
        points = ((frame.x_at(dot.x), frame.y_at(dot.y)) for dot in dots)
        path = "".join(f"m{step}z" for step in svg_relative_points(points))
        css_class = f"pc-dots{_line_class(scene, line)}"
        yield f'<path class="{css_class}" stroke-width="{format_px(2 * radius)}" d="{path}"/>'
    for dot in scene.dots:
        if dot.invalid:
            css_class = f"pc-dot{_line_class(scene, dot.line)} pc-invalid"
            yield svg_circle(frame.x_at(dot.x), frame.y_at(dot.y), radius, css_class)


def _line_class(scene: Scene, line: int) -> str:
    return f" pc-line-{line + 1}" if scene.lines else ""


def _draw_segments(scene: Scene) -> Iterator[str]:
    frame = scene.frame
    for segment in scene.segments:
        css_class = "pc-riser" if segment.riser else "pc-level"
        if scene.lines:
            css_class = f"{css_class} pc-line-{segment.line + 1}"
        yield svg_line(
            frame.x_at(segment.x0),
            frame.y_at(segment.y0),
            frame.x_at(segment.x1),
            frame.y_at(segment.y1),
            css_class,
        )


def _draw_lane(scene: Scene) -> Iterator[str]:
    """Draw what has no value below the axis, so that it does not read as zero."""
    frame = scene.frame
    if scene.unmeasured:
        y = frame.bottom + UNMEASURED_OFFSET_PX
        steps = svg_relative_points((frame.x_at(x), y) for x in scene.unmeasured)
        # Back to the upper end of each tick, from where the next is measured.
        yield f'<path class="pc-unmeasured" d="{"".join(f"m{step}v4v-4" for step in steps)}"/>'
    for failure in scene.failures:
        yield _draw_failure(failure, frame)


def _draw_failure(failure: SceneFailure, frame: SceneFrame) -> str:
    x, y = frame.x_at(failure.x), frame.bottom + FAILURE_OFFSET_PX
    css_class = "pc-skipped" if failure.skipped else "pc-failed"
    cross = f"M{format_px(x - 3.5)},{format_px(y - 3.5)}l7,7m0,-7l-7,7"
    return f'<path class="{css_class}" d="{cross}"><title>{escape(failure.title)}</title></path>'


def _draw_flag(flag: SceneFlag, frame: SceneFrame) -> Iterator[str]:
    """Draw a triangle above the plot, with a thin line to just above its dot, which it does not cross."""
    x = frame.x_at(flag.x)
    if flag.state != "refuted":
        end = frame.bottom if flag.stem_y is None else frame.y_at(flag.stem_y) - 8
        if end > FLAG_STEM_Y + 4:
            yield svg_line(x, FLAG_STEM_Y, x, end, f"pc-stem pc-{flag.tone}")
    tip, base = (FLAG_Y - 5, FLAG_Y + 4) if flag.up else (FLAG_Y + 5, FLAG_Y - 4)
    left, right, end_y = format_px(x - 5.5), format_px(x + 5.5), format_px(base)
    shape = f"M{format_px(x)},{format_px(tip)}L{right},{end_y}L{left},{end_y}Z"
    fill = {"confirmed": "", "candidate": " pc-hollow", "refuted": " pc-refuted"}[flag.state]
    yield f'<path class="pc-flag pc-{flag.tone}{fill}" d="{shape}"><title>{escape(flag.title)}</title></path>'
