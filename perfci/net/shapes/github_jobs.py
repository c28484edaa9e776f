"""Repositories whose jobs may upload, and the tokens these are given, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.shapes import VISIBLE_LINE_PATTERN, RequestShape, Shape

GitHubId = Annotated[int, Field(ge=1, lt=10**18)]
ShortText = Annotated[str, Field(max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class RepositoryBindingShape(Shape):
    """What a project is bound to: the numbers are what the repository is, ``repository`` what it was last
    called.
    """

    repository: str
    repository_id: int
    owner_id: int
    workflow: str
    environment: str = ""
    refs: tuple[str, ...]


class NewRepositoryBinding(RequestShape):
    """``workflow`` begins with ``.github/`` where the repository holds it itself; jobs on ``refs`` write
    histories.
    """

    repository: ShortText
    repository_id: GitHubId
    owner_id: GitHubId
    workflow: ShortText = ".github/workflows/perf.yml"
    environment: ShortText | None = None
    refs: Annotated[tuple[ShortText, ...], Field(max_length=50)] = ("refs/heads/main",)


class IdTokenExchange(RequestShape):
    """What GitHub says of a job, signed, for the audience of this server."""

    project: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]
    token: Annotated[str, Field(min_length=1, pattern=r"^[\x21-\x7e]+$")]


class CreatedJobToken(Shape):
    """``text`` is the token itself: this answer is the only one that ever holds it."""

    secret: str
    expires_at: datetime
    may_write_history: bool
    """Whether what the job measured may enter a history."""
