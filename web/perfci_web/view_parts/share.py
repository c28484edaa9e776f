"""What a reader takes along of a page: its links, and its sentence as text and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from flask import g, request

from perfci.report.escaping import code_span, make_printable, markdown_link
from perfci_web.application_context import may_triage
from perfci_web.view_parts.link_preview import canonical_address, server_address

MAX_SENTENCE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Share:
    """Links and texts of one page; ``frozen`` shows the same for ever, where a page has such an address."""

    live: str
    frozen: str
    frozen_path: str
    sentence: str
    markdown: str


def build_share(sentence: object, frozen_path: str | None = "") -> Share:
    """Build what is shared of the current page; the texts lead to the frozen address where there is one."""
    live = canonical_address()
    frozen = f"{server_address()}{frozen_path.removeprefix(request.script_root)}" if frozen_path else ""
    text = make_printable(str(sentence), MAX_SENTENCE_LENGTH)
    linked = frozen or live
    return Share(
        live=live,
        frozen=frozen,
        frozen_path=frozen_path or "",
        sentence=f"{text} {linked}",
        markdown=f"{code_span(text, limit=MAX_SENTENCE_LENGTH)} {markdown_link('perfci', linked)}",
    )


def may_share() -> bool:
    """Whether the caller may make short links of the project of this page."""
    project = g.get("project")
    return project is not None and may_triage(project)
