"""ETags from the version of a project's data, without reading the data."""

from __future__ import annotations

from hashlib import sha256

from flask import Request

from perfci import __version__
from perfci.auth.permissions import Actor
from perfci.store.projects import Project


def build_etag(project: Project, request: Request, actor: Actor) -> str:
    """Build the tag of a project's version, of the request, and of what its caller may see."""
    key = "\n".join((__version__, request.full_path, request.headers.get("Accept", ""), actor.visibility_key))
    return f"{project.version}-{sha256(key.encode()).hexdigest()[:16]}"


def matches_etag(etag: str, request: Request) -> bool:
    return request.if_none_match.contains_weak(etag)
