"""Follow the links of a project's pages, and read their lists and tables as a reader does."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from html import unescape

from flask import Flask
from flask.testing import FlaskClient
from page_reading import words
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

from perfci_web.view_parts.page_formats import FORMAT_LABELS


def crawl_pages(app: Flask, start: Iterable[str], per_kind: int) -> Iterator[tuple[str, str]]:
    """Yield the address and the HTML of pages that links lead to: of each kind, as far as it has so many."""
    client, waiting = app.test_client(), deque(dict.fromkeys(start))
    seen, kinds = set(waiting), Counter[str]()
    router = app.url_map.bind("localhost")
    while waiting:
        address = waiting.popleft()
        kind = _kind_of_page(router, address)
        if not kind or kinds[kind] >= per_kind:
            continue
        html = read_page(client, address)
        if html is None:
            continue
        kinds[kind] += 1
        yield address, html
        for link in find_links(html):
            if link not in seen:
                seen.add(link)
                waiting.append(link)


def read_page(client: FlaskClient, address: str) -> str | None:
    """The HTML of a page; None where an address leads elsewhere or to another format."""
    answer = client.get(address)
    assert answer.status_code in (200, 302, 303), (address, answer.status_code)
    return answer.text if answer.status_code == 200 and answer.mimetype == "text/html" else None


def find_links(html: str) -> list[str]:
    """The addresses on this server that a page links to, without their fragments."""
    hrefs = (unescape(href).partition("#")[0] for href in re.findall(r'<a [^>]*?href="([^"]+)"', html))
    return [href for href in hrefs if href.startswith("/")]


def list_rows(html: str) -> list[list[str]]:
    """What a reader sees of the names of the rows of each table, and of the lines of each list."""
    lists = []
    for table in re.findall(r"(?s)<table>.*?</table>", html):
        rows = []
        for body in table.split("<tbody")[1:]:
            names = re.findall(r'(?s)<th scope="(row|rowgroup)"[^>]*>(.*?)</th>', body)
            heading = "".join(shown_words(text) for scope, text in names if scope == "rowgroup")
            rows += [f"{heading} {shown_words(text)}" for scope, text in names if scope == "row"]
        lists.append(rows)
    for plain in re.findall(r"(?s)<ul[^>]*>((?:(?!<ul).)*?)</ul>", html):
        lists.append([shown_words(line) for line in re.findall(r"(?s)<li[^>]*>(.*?)</li>", plain)])
    for menu in re.findall(r"(?s)<select[^>]*>(.*?)</select>", html):
        lists.append([shown_words(option) for option in re.findall(r"(?s)<option[^>]*>(.*?)</option>", menu)])
    return lists


def shown_words(html: str) -> str:
    """The words that stand there before a fold is opened."""
    folded = re.sub(r"(?s)<details[^>]*>.*?(<summary.*?</summary>).*?</details>", r"\1", html)
    return words(folded)


def table_cells(html: str) -> Iterator[dict[str, str]]:
    """The cells of each row of each table, by the heading of their column."""
    for table in re.findall(r"(?s)<table>.*?</table>", html):
        head, _, body = table.partition("</thead>")
        headings = [words(text) for text in re.findall(r"(?s)<th[^>]*>(.*?)</th>", head)]
        for row in re.findall(r"(?s)<tr[^>]*>(.*?)</tr>", body):
            cells = [words(text) for text in re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", row)]
            if len(cells) == len(headings):
                yield dict(zip(headings, cells, strict=True))


def _kind_of_page(router: MapAdapter, address: str) -> str:
    """The kind of a page: its endpoint; empty for what is no page of a project."""
    path = address.partition("?")[0]
    try:
        endpoint, values = router.match(path, "GET")
    except HTTPException:
        return ""
    is_page = "project" in values and not path.endswith(tuple(f".{name}" for name in FORMAT_LABELS))
    return endpoint if is_page else ""
