"""The other formats of a page: the addresses that are its own with a suffix."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flask import current_app, request
from werkzeug.routing import Rule

from perfci_web.view_parts.link_preview import canonical_path

FORMAT_LABELS = {
    "json": "JSON",
    "csv": "CSV",
    "svg": "SVG",
    "png": "PNG",
    "md": "Markdown",
    "txt": "text",
    "atom": "Atom",
}
"""The endings of addresses by what the foot of a page calls them, in its order."""


@dataclass(frozen=True, slots=True)
class FormatLink:
    """One format of the current page; it has the query of the page, so that it shows the same."""

    label: str
    address: str


def list_page_formats(without: Collection[str] = ()) -> list[FormatLink]:
    """List the formats of the current page, but those in ``without``, which make no sense of it."""
    if request.url_rule is None:
        return []
    extensions = find_format_extensions(request.url_rule, current_app.url_map.iter_rules())
    return [
        FormatLink(FORMAT_LABELS[extension], canonical_path(extension))
        for extension in extensions
        if extension not in without
    ]


def find_format_extensions(page: Rule, rules: Iterable[Rule]) -> list[str]:
    """Find the formats that a page has among the rules of an application."""
    paths = {rule.rule for rule in rules}
    return [extension for extension in FORMAT_LABELS if f"{page.rule.removesuffix('/')}.{extension}" in paths]
