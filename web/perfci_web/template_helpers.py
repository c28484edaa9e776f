"""What templates may say: the words, numbers and pictures of ``perfci.report``, and where the files lie."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from flask import Flask, request
from markupsafe import Markup

from perfci import __version__
from perfci.model import Commit
from perfci.report import calibration_text, number_format, verdict_labels, verdict_sentences
from perfci.report.charts import svg_charts
from perfci.report.escaping import MAX_NAME_LENGTH, make_printable
from perfci.report.incidents import incident_text
from perfci.verdicts.incidents.step_causes import compute_log_cost
from perfci_web import static_files
from perfci_web.middleware import style_nonce

THEMES = ("light", "dark")


def init_app(app: Flask, clock: Callable[[], datetime]) -> None:
    """Give the templates their filters and globals."""

    def format_age(moment: datetime) -> str:
        return number_format.format_age((clock() - moment).total_seconds())

    app.jinja_env.filters |= {
        "advice": verdict_sentences.verdict_advice,
        "ago": format_age,
        "breakable": break_long_name,
        "date": format_date,
        "glyph": verdict_labels.verdict_glyph,
        "interval": verdict_sentences.format_interval,
        "percent": number_format.format_percent,
        "printable": make_printable,
        "sentence": verdict_sentences.verdict_sentence,
        "status": verdict_labels.status_label,
        "signed": number_format.format_signed_percent,
        "lasting": number_format.format_duration,
        "moment": format_moment,
        "opened": capitalize_first,
        "tone": verdict_labels.verdict_tone,
        "verdict": verdict_labels.verdict_label,
        "word": verdict_labels.kind_label,
    }
    app.jinja_env.filters |= {
        "cost": compute_log_cost,
        "creep": incident_text.creep_sentence,
        "creep_command": incident_text.creep_command,
        "incident_glyph": lambda kind: incident_text.GLYPHS[kind],
        "incident_tone": lambda kind: incident_text.TONES[kind],
        "retest": incident_text.retest_sentence,
        "retest_command": incident_text.retest_command,
    }
    app.jinja_env.globals |= {
        "arrow": verdict_labels.direction_arrow,
        "calibration": calibration_text,
        "asset": lambda name: f"{request.script_root}{static_files.asset_path(name)}",
        "commit_name": commit_title,
        "counted": number_format.format_count,
        "counts_sentence": verdict_sentences.counts_sentence,
        "interval_bar": lambda verdict, span: Markup(
            svg_charts.render_interval_bar(verdict, span=span, width=140)
        ),
        "kind_tone": lambda kind: verdict_labels.TONES[kind],
        "levels": lambda metric, *values: verdict_sentences.format_levels(values, metric),
        "moved": verdict_sentences.level_change_phrase,
        "plotly": lambda: f"{request.script_root}{static_files.plotly_path()}",
        "mark_sentence": verdict_sentences.mark_sentence,
        "move": verdict_sentences.change_phrase,
        "shares": lambda shares: Markup(
            svg_charts.render_share_bar([(one.shade, one.count) for one in shares])
        ),
        "quiet_kinds": verdict_labels.QUIET_KINDS,
        "sparkline": lambda trend: Markup(svg_charts.render_sparkline(trend)),
        "style_nonce": style_nonce,
        "theme": current_theme,
        "trend_picture": lambda trend, **size: Markup(svg_charts.render_trend(trend, **size)),
        "version": __version__,
    }


def current_theme() -> str:
    """The reader's own choice between light and dark, empty while the system decides."""
    chosen = request.cookies.get("perfci-theme", "")
    return chosen if chosen in THEMES else ""


def break_long_name(text: str, limit: int = MAX_NAME_LENGTH) -> Markup:
    """Let a long name break where a reader would, after a dot or an underscore, and no number anywhere."""
    pieces = re.split(r"(?<=[._/(,:\[])(?=[^\W\d])", make_printable(text, limit))
    return Markup("<wbr>").join(pieces)


def format_date(moment: datetime) -> Markup:
    text = f"{moment.day} {moment:%b %Y}"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), text)


def format_moment(time: datetime) -> str:
    """To the minute, and where: ``2026-03-01 12:00 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def capitalize_first(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def commit_title(commit: Commit) -> str:
    return make_printable(commit.subject, 90) or commit.short_sha
