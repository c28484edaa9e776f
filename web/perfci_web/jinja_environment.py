"""Jinja filters and globals: the words, numbers and charts of ``perfci.report``, the paths of static files,
and the caller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from flask import Flask, g, request
from markupsafe import Markup, escape

from perfci import __version__, number_format
from perfci.model import Commit, Verdict
from perfci.report import noise_text, series_places, series_trend, verdict_text
from perfci.report.charts import interval_bar as interval_bars
from perfci.report.charts import scene_svg, svg_charts
from perfci.report.comparisons.comparison_rows import LIKELY_SIGMAS, ComparisonRow
from perfci.report.escaping import MAX_NAME_LENGTH, make_printable
from perfci.report.incidents.incident_text import format_compare_command
from perfci_web import static_files
from perfci_web.application_context import current_actor, may_export
from perfci_web.authentication.authenticator import Authenticator
from perfci_web.forge_links import forge_links_of_project
from perfci_web.overview.view_model import CoverageShare
from perfci_web.page_urls import format_query
from perfci_web.request_hooks import style_nonce
from perfci_web.view_parts import link_preview
from perfci_web.view_parts.navigation import build_navigation
from perfci_web.view_parts.page_formats import list_page_formats
from perfci_web.view_parts.share import build_share, may_share

THEMES = ("light", "dark")

MAX_LOG_NOISE = math.log(4.0)
"""The widest zone of noise that a bar draws either way."""


def register_filters_and_globals(
    app: Flask, clock: Callable[[], datetime], authenticator: Authenticator
) -> None:
    """Register the filters and globals of the templates."""

    def format_age(moment: datetime) -> str:
        return number_format.format_age((clock() - moment).total_seconds())

    def user_label() -> str | None:
        """Return the user's name for the bar of a page, empty before a login, None where there is none."""
        if "actor" in g and g.actor.kind == "user":
            return str(g.actor.display_name)
        return "" if authenticator.auth_settings.mode == "github" else None

    app.jinja_env.filters |= {
        "advice": verdict_text.next_step_or_reason,
        "ago": format_age,
        "breakable": break_long_name,
        "capitalized": capitalize_first,
        "code_marked": render_backticks_as_code,
        "date": format_date,
        "first_heading": link_preview.first_heading,
        "duration": number_format.format_rough_duration,
        "glyph": verdict_text.verdict_glyph,
        "interval": verdict_text.format_interval,
        "invalid_mark_sentence": series_trend.invalid_mark_sentence,
        "moment": format_moment,
        "noise_floor": verdict_text.format_noise_floor,
        "percent": number_format.format_percent,
        "printable": make_printable,
        "query_string": join_query,
        "sentence": verdict_text.verdict_sentence,
        "sentences": split_after_first_sentence,
        "short_variant": series_places.short_variant_text,
        "signed": number_format.format_signed_percent,
        "status": verdict_text.status_label,
        "tone": verdict_text.verdict_tone,
        "verdict": verdict_text.verdict_label,
        "word": verdict_text.verdict_kind_label,
    }
    app.jinja_env.globals |= {
        "arrow": verdict_text.direction_arrow,
        "navigation": build_navigation,
        "asset": lambda name: f"{request.script_root}{static_files.asset_url_path(name)}",
        "noise_text": noise_text,
        "canonical_address": link_preview.canonical_address,
        "canonical_path": link_preview.canonical_path,
        "change_levels_phrase": verdict_text.change_levels_phrase,
        "change_mark_sentence": series_trend.change_mark_sentence,
        "build_share": build_share,
        "compare_command": lambda base, head, cell: format_compare_command(base, head, [cell]),
        "commit_title": commit_title,
        "comparison_bar": comparison_bar,
        "count_noun": number_format.format_count,
        "coverage_bar": coverage_bar,
        "csrf_token": lambda: authenticator.csrf_token(current_actor()),
        "forge_links": forge_links_of_project,
        "format_in_common_unit": lambda metric, *values: verdict_text.format_in_common_unit(values, metric),
        "interval_bar": interval_bar,
        "kind_tone": lambda kind: verdict_text.TONES[kind],
        "move": verdict_text.change_phrase,
        "may_export": may_export,
        "may_share": may_share,
        "plotly": lambda: f"{request.script_root}{static_files.plotly_url_path()}",
        "common_sparklines": common_sparklines,
        "scene_picture": lambda scene, **options: Markup(scene_svg.render_scene_svg(scene, **options)),
        "page_formats": list_page_formats,
        "preview_picture_address": link_preview.preview_picture_address,
        "sparkline": lambda trend: Markup(svg_charts.render_sparkline(trend)),
        "style_nonce": style_nonce,
        "tail_phrase": verdict_text.tail_phrase,
        "theme": current_theme,
        "trend_picture": lambda trend, **size: Markup(svg_charts.render_trend_chart(trend, **size)),
        "user_label": user_label,
        "version": __version__,
    }


def common_sparklines(trends: Sequence[series_trend.Trend]) -> list[Markup]:
    """Sparklines of several trends on one value axis."""
    return [Markup(picture) for picture in svg_charts.render_common_sparklines(trends)]


def interval_bar(verdict: Verdict, span: float) -> Markup:
    return Markup(interval_bars.render_interval_bar(verdict, span=span, width=140))


def comparison_bar(row: ComparisonRow, span: float) -> Markup:
    """The bar of a verdict; of separate runs, the difference over the noise of such a difference."""
    if row.verdict is not None:
        return interval_bar(row.verdict, span)
    if row.ratio is None or row.ratio <= 0:
        return Markup()
    noise = row.noise_of_difference
    bar = interval_bars.RatioBar(
        row.ratio,
        None,
        None if noise is None else math.expm1(min(LIKELY_SIGMAS * noise, MAX_LOG_NOISE)),
        row.tone,
        interval_bars.format_ratio_label(row.word, row.ratio, None),
    )
    return Markup(interval_bars.render_ratio_bar(bar, span=span, width=140))


def coverage_bar(shares: Iterable[CoverageShare]) -> Markup:
    return Markup(svg_charts.render_share_bar([(share.color, share.count) for share in shares]))


def current_theme() -> str:
    """Return the theme chosen by cookie, empty where the system decides."""
    theme = request.cookies.get("perfci-theme", "")
    return theme if theme in THEMES else ""


def break_long_name(text: str, limit: int = MAX_NAME_LENGTH) -> Markup:
    """Allow line breaks in a long name after separators, but never before a digit."""
    # Between digits a break would read as two numbers.
    pieces = re.split(r"(?<=[._/(,:\[])(?=[^\W\d])", make_printable(text, limit))
    return Markup("<wbr>").join(pieces)


def format_date(moment: datetime) -> Markup:
    text = number_format.format_day(moment)
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), text)


def format_moment(time: datetime) -> str:
    """Format a time to the minute: ``2026-03-01 12:00 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def join_query(query: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Write two queries as one, with its question mark; empty where both are."""
    return format_query({**query, **more})


def capitalize_first(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def render_backticks_as_code(text: str) -> Markup:
    """Show what stands between backticks, in a message that terminals show as well, as code."""
    return Markup(re.sub("`(.+?)`", r"<code>\1</code>", str(escape(text))))


def split_after_first_sentence(text: str) -> tuple[str, str]:
    """Split a message into its heading and what follows."""
    first, stop, rest = text.partition(". ")
    return first + stop.rstrip(), rest


def commit_title(commit: Commit) -> str:
    return make_printable(commit.subject, 90) or commit.short_sha
