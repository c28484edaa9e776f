"""docs/README.md leads to every page, and no link of a page is dead."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def list_links(page: Path) -> list[tuple[Path, str]]:
    """The files that a page leads to, each with the heading that is named."""
    links = LINK.findall(FENCED_CODE.sub("", page.read_text()))
    split = [link.partition("#") for link in links if not re.match(r"[a-z]+:", link)]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in split]


@cache
def list_anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", FENCED_CODE.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = list_links(page)

    assert [str(file) for file, _ in links if not file.exists()] == []
    assert [
        f"{file.name}#{anchor}"
        for file, anchor in links
        if anchor and file.suffix == ".md" and anchor not in list_anchors(file)
    ] == []


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = {INDEX}, [INDEX]
    while waiting:
        pages = {file for file, _ in list_links(waiting.pop()) if file.suffix == ".md" and file.exists()}
        waiting.extend(pages - reached)
        reached |= pages

    assert sorted(str(page.relative_to(ROOT)) for page in {*PAGES} - reached) == []
    assert INDEX in {file for file, _ in list_links(ROOT / "README.md")}


def test_the_index_itself_names_every_page_for_users() -> None:
    named = {file for file, _ in list_links(INDEX)}

    assert sorted(page.name for page in INDEX.parent.glob("*.md") if page not in named | {INDEX}) == []
