"""Save and load profiles and explanations. The caller owns the transaction ``tx``."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.explanations import ArtifactRow, CallProfileRow, ExplanationRow, ProfilePartRow

ARTIFACTS, PROFILES, PARTS, EXPLANATIONS = (
    row.__table__ for row in (ArtifactRow, CallProfileRow, ProfilePartRow, ExplanationRow)
)

FILE_COLUMNS = (PROFILES.c.tree_id, PROFILES.c.tables_id, PROFILES.c.trace_id)

MAX_ARTIFACT_BYTES = 64_000_000
"""Content of a larger file is not kept; traces of long calls may be."""


@dataclass(frozen=True, slots=True)
class ProfilePart:
    """A ``phase``, ``operator``, ``kernel`` or ``line``: seconds and calls in one call of the benchmark."""

    kind: str
    name: str
    seconds: float
    calls: float


@dataclass(frozen=True, slots=True)
class NewProfile:
    """A profile to store; ``setup`` names the machine and settings it was taken with."""

    sha: str
    cell: str
    setup: str
    environment: Mapping[str, str]
    wall_s: float
    cpu_s: float
    parts: Sequence[ProfilePart]
    tree: bytes
    tables: bytes
    trace: bytes


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A stored profile whose files are still there."""

    id: int
    sha: str
    cell: str
    setup: str
    environment: Mapping[str, str]
    tree: bytes
    tables: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredExplanation:
    """A stored explanation; ``document`` is what the report serialized."""

    id: int
    base: str
    head: str
    cell: str
    metric: str
    conclusion: str
    document: Mapping[str, Any]
    created_at: datetime

    @property
    def sentence(self) -> str:
        return str(self.document["sentence"])


def add_profile(tx: Session, project_id: int, profile: NewProfile, *, at: datetime) -> int:
    """Store a profile with its parts and files; return its id."""
    row = {
        "project_id": project_id,
        "sha": profile.sha,
        "cell": profile.cell,
        "setup": profile.setup,
        "environment": dict(profile.environment),
        "wall_s": profile.wall_s,
        "cpu_s": profile.cpu_s,
        "tree_id": _ensure_artifact(tx, profile.tree, at),
        "tables_id": _ensure_artifact(tx, profile.tables, at),
        "trace_id": _ensure_artifact(tx, profile.trace, at),
        "created_at": at,
    }
    profile_id = int(tx.execute(sa.insert(PROFILES).returning(PROFILES.c.id), row).scalar_one())
    parts = [
        {
            "profile_id": profile_id,
            "kind": part.kind,
            "name": part.name,
            "seconds": part.seconds,
            "calls": part.calls,
        }
        for part in profile.parts
    ]
    if parts:
        tx.execute(sa.insert(PARTS), parts)
    return profile_id


def _ensure_artifact(tx: Session, content: bytes, at: datetime) -> int | None:
    """Store a file unless its content is there already; return its id, None of one that is too large."""
    if not content or len(content) > MAX_ARTIFACT_BYTES:
        return None
    digest = hashlib.sha256(content).hexdigest()
    existing_id = tx.scalar(sa.select(ARTIFACTS.c.id).where(ARTIFACTS.c.hash == digest))
    if existing_id is not None:
        return int(existing_id)
    row = {
        "hash": digest,
        "size": len(content),
        "content": gzip.compress(content, 6, mtime=0),
        "created_at": at,
    }
    return int(tx.execute(sa.insert(ARTIFACTS).returning(ARTIFACTS.c.id), row).scalar_one())


def load_profiles(tx: Session, project_id: int, sha: str, cell: str, *, limit: int) -> list[StoredProfile]:
    """Load the newest profiles of a cell at a commit whose files are still there, the newest first."""
    query = (
        sa.select(*PROFILES.c)
        .where(
            PROFILES.c.project_id == project_id,
            PROFILES.c.sha == sha,
            PROFILES.c.cell == cell,
            PROFILES.c.tree_id.is_not(None),
            PROFILES.c.tables_id.is_not(None),
        )
        .order_by(PROFILES.c.id.desc())
        .limit(limit)
    )
    rows = tx.execute(query).all()
    files = _load_artifacts(tx, {number for row in rows for number in (row.tree_id, row.tables_id)})
    return [
        StoredProfile(
            id=row.id,
            sha=row.sha,
            cell=row.cell,
            setup=row.setup,
            environment=row.environment,
            tree=files[row.tree_id],
            tables=files[row.tables_id],
            created_at=row.created_at,
        )
        for row in rows
    ]


def list_profiled_cells(tx: Session, project_id: int, sha: str) -> list[str]:
    """The cells that are profiled at a commit, in order."""
    where = (PROFILES.c.project_id == project_id, PROFILES.c.sha == sha)
    return list(tx.scalars(sa.select(PROFILES.c.cell).where(*where).distinct().order_by(PROFILES.c.cell)))


def load_trace(tx: Session, profile_id: int) -> bytes | None:
    """Load the trace of a profile; None where it was pruned."""
    trace_id = tx.scalar(sa.select(PROFILES.c.trace_id).where(PROFILES.c.id == profile_id))
    return None if trace_id is None else _load_artifacts(tx, {trace_id})[trace_id]


def _load_artifacts(tx: Session, ids: set[int]) -> dict[int, bytes]:
    rows = tx.execute(sa.select(ARTIFACTS.c.id, ARTIFACTS.c.content).where(ARTIFACTS.c.id.in_(ids)))
    return {row.id: gzip.decompress(row.content) for row in rows}


def load_profile_parts(tx: Session, profile_id: int) -> list[ProfilePart]:
    """Load the parts of a profile, the largest first of each kind."""
    query = sa.select(*PARTS.c).where(PARTS.c.profile_id == profile_id)
    rows = tx.execute(query.order_by(PARTS.c.kind, PARTS.c.seconds.desc(), PARTS.c.id))
    return [ProfilePart(row.kind, row.name, row.seconds, row.calls) for row in rows]


def add_explanation(
    tx: Session,
    project_id: int,
    *,
    base: str,
    head: str,
    cell: str,
    metric: str,
    conclusion: str,
    document: Mapping[str, Any],
    at: datetime,
) -> int:
    """Store an explanation; return its id."""
    row = {
        "project_id": project_id,
        "base": base,
        "head": head,
        "cell": cell,
        "metric": metric,
        "conclusion": conclusion,
        "document": dict(document),
        "created_at": at,
    }
    return int(tx.execute(sa.insert(EXPLANATIONS).returning(EXPLANATIONS.c.id), row).scalar_one())


def load_explanations(tx: Session, project_id: int, base: str, head: str) -> list[StoredExplanation]:
    """Load the newest explanation of every cell and metric between two commits."""
    query = (
        sa.select(*EXPLANATIONS.c)
        .where(
            EXPLANATIONS.c.project_id == project_id,
            EXPLANATIONS.c.base == base,
            EXPLANATIONS.c.head == head,
        )
        .order_by(EXPLANATIONS.c.id)
    )
    newest = {(row.cell, row.metric): row for row in tx.execute(query)}
    return [
        StoredExplanation(
            row.id, row.base, row.head, row.cell, row.metric, row.conclusion, row.document, row.created_at
        )
        for row in newest.values()
    ]


def delete_old_profile_files(tx: Session, older_than: datetime) -> int:
    """Delete the files of profiles that are older, unless a newer one has the same; return how many.

    What the profiles summed up and explained stays.
    """
    for column in FILE_COLUMNS:
        tx.execute(sa.update(PROFILES).where(PROFILES.c.created_at < older_than).values({column.name: None}))
    used = sa.union_all(*(sa.select(column).where(column.is_not(None)) for column in FILE_COLUMNS))
    deleted = tx.execute(sa.delete(ARTIFACTS).where(ARTIFACTS.c.id.not_in(used)))
    return int(deleted.rowcount)  # type: ignore[attr-defined]
