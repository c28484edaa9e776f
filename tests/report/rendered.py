"""Parse Markdown as GitHub's own engine renders it, and separate text inside code from the rest."""

from __future__ import annotations

from html.parser import HTMLParser

from cmarkgfm import Options, github_flavored_markdown_to_html

TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
OURS = TABLE | {"h3", "p", "a", "strong", "ul", "li", "code", "pre", "details", "summary", "blockquote", "br"}
"""The tags a comment is made of."""


class Page(HTMLParser):
    """The rendered text, links and table cells of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.plain: list[str] = []
        self.code: list[str] = []
        self.cells: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} closes a tag that is not open"

    def handle_data(self, data: str) -> None:
        (self.code if "code" in self.open else self.plain).append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data


def page_of(markdown: str) -> Page:
    """Render Markdown, including raw HTML as GitHub does, and parse the result."""
    html = github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    assert set(page.tags) <= OURS
    return page
