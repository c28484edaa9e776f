"""Store short links of pages: the same page always has the same code."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.short_links import ShortLinkRow

CODE_LENGTHS = (8, 12, 32)
"""Characters of a code; a longer one is taken where the shorter one means another page already."""

LINKS = ShortLinkRow.__table__.c


@dataclass(frozen=True, slots=True)
class ShortLink:
    """A stored short link."""

    code: str
    project_id: int
    target: str


def find_short_link(tx: Session, code: str) -> ShortLink | None:
    """Find the short link of a code."""
    query = sa.select(LINKS.code, LINKS.project_id, LINKS.target).where(LINKS.code == code)
    row = tx.execute(query).one_or_none()
    return ShortLink(*row) if row else None


def find_or_add_short_link(
    tx: Session, project_id: int, target: str, *, actor: str, at: datetime
) -> ShortLink:
    """Find the short link of a page, or add it."""
    digest = hashlib.sha256(f"{project_id} {target}".encode()).digest()
    whole_code = base64.b32encode(digest).decode().lower()
    for length in CODE_LENGTHS:
        link = ShortLink(whole_code[:length], project_id, target)
        stored = find_short_link(tx, link.code)
        if stored is None:
            values = {"code": link.code, "project_id": project_id, "target": target}
            tx.add(ShortLinkRow(**values, created_by=actor, created_at=at))
            tx.flush()
            return link
        if stored == link:
            return stored
    raise AssertionError("two pages have one hash")
