"""Responses that are Atom feeds (RFC 4287)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree

from flask import Response, request

NAMESPACE = "http://www.w3.org/2005/Atom"


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One entry of a feed; ``identity`` never changes, ``address`` is a path on this server."""

    identity: str
    title: str
    address: str
    updated: datetime
    author: str = ""
    summary: str = ""


def build_atom_response(
    title: str, identity: str, entries: Iterable[FeedEntry], updated: datetime
) -> Response:
    """Build a feed; ``updated`` is its date where it has no entry."""
    entries = list(entries)
    feed = ElementTree.Element("feed", xmlns=NAMESPACE)
    _add_text(feed, "title", title)
    _add_text(feed, "id", uuid5(NAMESPACE_URL, identity).urn)
    newest = max((entry.updated for entry in entries), default=updated)
    _add_text(feed, "updated", newest.isoformat(timespec="seconds"))
    ElementTree.SubElement(feed, "link", rel="self", href=request.url)
    for entry in entries:
        _add_entry(feed, entry)
    text = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return Response(text, content_type="application/atom+xml; charset=utf-8")


def _add_entry(feed: ElementTree.Element, entry: FeedEntry) -> None:
    element = ElementTree.SubElement(feed, "entry")
    _add_text(element, "title", entry.title)
    _add_text(element, "id", uuid5(NAMESPACE_URL, entry.identity).urn)
    _add_text(element, "updated", entry.updated.isoformat(timespec="seconds"))
    ElementTree.SubElement(element, "link", href=f"{request.host_url.rstrip('/')}{entry.address}")
    author = ElementTree.SubElement(element, "author")
    _add_text(author, "name", entry.author or "unknown")
    if entry.summary:
        _add_text(element, "summary", entry.summary)


def _add_text(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text
