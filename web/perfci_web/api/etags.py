"""Has anything changed since? Told by the version of a project's data, without looking at the data."""

from __future__ import annotations

from hashlib import sha256

from flask import Request

from perfci import __version__
from perfci.auth.permissions import Actor
from perfci.store.projects import Project


def build_etag(project: Project, request: Request, actor: Actor) -> str:
    """Of a project's version, what was asked, and who may see how much of it."""
    asked = "\n".join(
        (__version__, request.full_path, request.headers.get("Accept", ""), actor.visibility_key)
    )
    return f"{project.version}-{sha256(asked.encode()).hexdigest()[:16]}"


def matches_etag(etag: str, request: Request) -> bool:
    return request.if_none_match.contains_weak(etag)
