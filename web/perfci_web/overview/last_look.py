"""When a reader last looked at a project, kept in a cookie, and what became of incidents since."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from flask import Response, request
from sqlalchemy.orm import Session

from perfci.report.incidents.news_text import News, NewsItem
from perfci.store.incidents.incident_lists import list_incidents_changed_since
from perfci.store.projects import Project

LOOKED_COOKIE = "perfci-looked"
"""Holds the second of the last look and nothing else; each project has its own, by its path."""

LOOKED_KEY = "looked"
"""What marks everything as looked at in an address."""

KEPT = timedelta(days=365)

MAX_NEWS = 20


def find_last_look(cookies: Mapping[str, str], now: datetime) -> datetime | None:
    """Read when the reader last looked; None for a cookie that holds no time up to now."""
    text = cookies.get(LOOKED_COOKIE, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 11):
        return None
    moment = datetime.fromtimestamp(int(text), UTC)
    return moment if moment <= now else None


def remember_look(response: Response, path: str, now: datetime) -> None:
    """Keep in the browser that everything up to now was looked at."""
    response.set_cookie(
        LOOKED_COOKIE,
        str(int(now.timestamp())),
        max_age=KEPT,
        path=path,
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def load_news(tx: Session, project: Project, since: datetime) -> News:
    """Load what became of incidents since a moment."""
    records = list_incidents_changed_since(tx, project.id, since, limit=MAX_NEWS + 1)
    items = [
        NewsItem(
            record.number, record.headline, record.state, record.assignee, is_new=record.first_seen > since
        )
        for record in records
    ]
    return News(since, tuple(items[:MAX_NEWS]), len(items) - len(items[:MAX_NEWS]))
