"""Repositories whose jobs may upload, and the tokens these are given, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.shapes import VISIBLE, Asked, Shape

Number = Annotated[int, Field(ge=1, lt=10**18)]
Text = Annotated[str, Field(max_length=500, pattern=VISIBLE)]


class RepositoryShape(Shape):
    """What a project is bound to: the numbers are what the repository is, ``repository`` what it was last called."""

    repository: str
    repository_id: int
    owner_id: int
    workflow: str
    environment: str = ""
    refs: tuple[str, ...]


class NewRepository(Asked):
    """``workflow`` begins with ``.github/`` where the repository holds it itself; jobs on ``refs`` write histories."""

    repository: Text
    repository_id: Number
    owner_id: Number
    workflow: Text = ".github/workflows/perf.yml"
    environment: Text | None = None
    refs: Annotated[tuple[Text, ...], Field(max_length=50)] = ("refs/heads/main",)


class JobToken(Asked):
    """What GitHub says of a job, signed, for the audience of this server."""

    project: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE)]
    token: Annotated[str, Field(min_length=1, pattern=r"^[\x21-\x7e]+$")]


class RunTokenMade(Shape):
    """``text`` is the token itself: this answer is the only one that ever holds it."""

    text: str
    expires_at: datetime
    baseline: bool
    """Whether what the job measured may enter a history."""
