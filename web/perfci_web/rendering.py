"""What templates may say: the words, numbers and pictures of ``perfci.report``, and where the files lie."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from flask import Flask, request
from markupsafe import Markup

from perfci import __version__
from perfci.model import Commit
from perfci.report import calibration, incidents, sentences, svg, units, words
from perfci.report.names import LONGEST, printable
from perfci.verdicts.moves import cost_of
from perfci_web import assets
from perfci_web.guards import style_nonce

THEMES = ("light", "dark")


def install(app: Flask, clock: Callable[[], datetime]) -> None:
    """Give the templates their filters and globals."""

    def ago(moment: datetime) -> str:
        return units.age((clock() - moment).total_seconds())

    app.jinja_env.filters |= {
        "advice": sentences.advice,
        "ago": ago,
        "breakable": breakable,
        "date": date,
        "glyph": words.verdict_glyph,
        "interval": sentences.interval_text,
        "percent": units.percent,
        "printable": printable,
        "sentence": sentences.verdict_sentence,
        "status": words.status_word,
        "signed": units.signed_percent,
        "lasting": units.lasting,
        "moment": moment,
        "opened": opened,
        "tone": words.tone,
        "verdict": words.verdict_word,
        "word": words.word,
    }
    app.jinja_env.filters |= {
        "cost": cost_of,
        "creep": incidents.creep_sentence,
        "creep_command": incidents.creep_command,
        "incident_glyph": lambda kind: incidents.GLYPHS[kind],
        "incident_tone": lambda kind: incidents.TONES[kind],
        "retest": incidents.retest_sentence,
        "retest_command": incidents.retest_command,
    }
    app.jinja_env.globals |= {
        "arrow": words.arrow,
        "calibration": calibration,
        "asset": lambda name: f"{request.script_root}{assets.asset_path(name)}",
        "commit_name": commit_name,
        "counted": units.counting,
        "counts_sentence": sentences.counts_sentence,
        "interval_bar": lambda verdict, span: Markup(svg.interval_bar_svg(verdict, span=span, width=140)),
        "kind_tone": lambda kind: words.TONES[kind],
        "levels": lambda metric, *values: sentences.level_texts(values, metric),
        "moved": sentences.moved,
        "plotly": lambda: f"{request.script_root}{assets.plotly_path()}",
        "mark_sentence": sentences.mark_sentence,
        "move": sentences.move,
        "shares": lambda shares: Markup(svg.shares_svg([(one.shade, one.count) for one in shares])),
        "quiet_kinds": words.QUIET,
        "sparkline": lambda trend: Markup(svg.sparkline_svg(trend)),
        "style_nonce": style_nonce,
        "theme": theme,
        "trend_picture": lambda trend, **size: Markup(svg.trend_svg(trend, **size)),
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
