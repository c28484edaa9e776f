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
from perfci.report.escaping import LONGEST, printable
from perfci.report.incidents import incident_text
from perfci.verdicts.incidents.step_causes import cost_of
from perfci_web import static_files
from perfci_web.middleware import style_nonce

THEMES = ("light", "dark")


def install(app: Flask, clock: Callable[[], datetime]) -> None:
    """Give the templates their filters and globals."""

    def ago(moment: datetime) -> str:
        return number_format.age((clock() - moment).total_seconds())

    app.jinja_env.filters |= {
        "advice": verdict_sentences.advice,
        "ago": ago,
        "breakable": breakable,
        "date": date,
        "glyph": verdict_labels.verdict_glyph,
        "interval": verdict_sentences.interval_text,
        "percent": number_format.percent,
        "printable": printable,
        "sentence": verdict_sentences.verdict_sentence,
        "status": verdict_labels.status_word,
        "signed": number_format.signed_percent,
        "lasting": number_format.lasting,
        "moment": moment,
        "opened": opened,
        "tone": verdict_labels.tone,
        "verdict": verdict_labels.verdict_word,
        "word": verdict_labels.word,
    }
    app.jinja_env.filters |= {
        "cost": cost_of,
        "creep": incident_text.creep_sentence,
        "creep_command": incident_text.creep_command,
        "incident_glyph": lambda kind: incident_text.GLYPHS[kind],
        "incident_tone": lambda kind: incident_text.TONES[kind],
        "retest": incident_text.retest_sentence,
        "retest_command": incident_text.retest_command,
    }
    app.jinja_env.globals |= {
        "arrow": verdict_labels.arrow,
        "calibration": calibration_text,
        "asset": lambda name: f"{request.script_root}{static_files.asset_path(name)}",
        "commit_name": commit_name,
        "counted": number_format.counting,
        "counts_sentence": verdict_sentences.counts_sentence,
        "interval_bar": lambda verdict, span: Markup(svg_charts.interval_bar_svg(verdict, span=span, width=140)),
        "kind_tone": lambda kind: verdict_labels.TONES[kind],
        "levels": lambda metric, *values: verdict_sentences.level_texts(values, metric),
        "moved": verdict_sentences.moved,
        "plotly": lambda: f"{request.script_root}{static_files.plotly_path()}",
        "mark_sentence": verdict_sentences.mark_sentence,
        "move": verdict_sentences.move,
        "shares": lambda shares: Markup(svg_charts.shares_svg([(one.shade, one.count) for one in shares])),
        "quiet_kinds": verdict_labels.QUIET,
        "sparkline": lambda trend: Markup(svg_charts.sparkline_svg(trend)),
        "style_nonce": style_nonce,
        "theme": theme,
        "trend_picture": lambda trend, **size: Markup(svg_charts.trend_svg(trend, **size)),
        "version": __version__,
    }


def theme() -> str:
    """The reader's own choice between light and dark, empty while the system decides."""
    chosen = request.cookies.get("perfci-theme", "")
    return chosen if chosen in THEMES else ""


def breakable(text: str, limit: int = LONGEST) -> Markup:
    """Let a long name break where a reader would, after a dot or an underscore, and no number anywhere."""
    pieces = re.split(r"(?<=[._/(,:\[])(?=[^\W\d])", printable(text, limit))
    return Markup("<wbr>").join(pieces)


def date(moment: datetime) -> Markup:
    text = f"{moment.day} {moment:%b %Y}"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), text)


def moment(at: datetime) -> str:
    """To the minute, and where: ``2026-03-01 12:00 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def opened(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def commit_name(commit: Commit) -> str:
    return printable(commit.subject, 90) or commit.short
