"""Addresses of a project's commits, diffs, pull requests and files on the forge that hosts its repository."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from flask import g
from sqlalchemy.orm import Session

from perfci.config import ForgeTable, Settings, apply_project_override_tables, parse_project_override_tables
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.projects import Project, find_project, find_repository_slug
from perfci_web.application_context import web_context

FULL_OR_SHORT_SHA = re.compile(r"[0-9a-f]{7,64}")

PATTERNS: Mapping[str, Mapping[str, str]] = {
    "github": {
        "job": "{repository}/actions/runs/{run}/attempts/{attempt}",
        "commit": "{repository}/commit/{sha}",
        "diff": "{repository}/compare/{base}...{head}",
        "pull_request": "{repository}/pull/{number}",
        "blame": "{repository}/blame/{sha}/{path}",
    },
    "gitlab": {
        "commit": "{repository}/-/commit/{sha}",
        "diff": "{repository}/-/compare/{base}...{head}",
        "pull_request": "{repository}/-/merge_requests/{number}",
        "blame": "{repository}/-/blame/{sha}/{path}",
    },
    "bitbucket": {
        "commit": "{repository}/commits/{sha}",
        "diff": "{repository}/branches/compare/{head}%0D{base}#diff",
        "pull_request": "{repository}/pull-requests/{number}",
        "blame": "{repository}/annotate/{sha}/{path}",
    },
    "gitea": {
        "commit": "{repository}/commit/{sha}",
        "diff": "{repository}/compare/{base}...{head}",
        "pull_request": "{repository}/pulls/{number}",
        "blame": "{repository}/blame/commit/{sha}/{path}",
    },
}
"""Addresses by kind of forge, below the address of the repository."""

OWN_PATTERNS = ("commit", "diff", "pull_request", "blame")
"""Addresses that a ``[forge]`` table may give patterns for."""

FORGE_NAMES = {"github": "GitHub", "gitlab": "GitLab", "bitbucket": "Bitbucket", "gitea": "Gitea"}

KINDS_BY_HOST_LABEL = {"github": "github", "gitlab": "gitlab", "bitbucket": "bitbucket", "codeberg": "gitea"}
"""What a label of a host name tells of its forge: ``gitlab`` in ``gitlab.example.com``."""


@dataclass(frozen=True, slots=True)
class ForgeLinks:
    """Addresses on one forge; each is empty where it is not known."""

    repository: str
    name: str
    patterns: Mapping[str, str]

    def commit(self, sha: str) -> str:
        return self._address("commit", sha=sha)

    def diff(self, base: str, head: str) -> str:
        """What changed after ``base`` up to and including ``head``."""
        return self._address("diff", base=base, head=head)

    def pull_request(self, number: int | str) -> str:
        return self._address("pull_request", number=str(number))

    def blame(self, sha: str, path: str) -> str:
        """Who wrote the lines of a file, as of a commit."""
        return self._address("blame", sha=sha, path=quote(path.lstrip("/")))

    def job(self, run: str, attempt: str) -> str:
        """The job that uploaded a run, where the forge runs jobs and names them by numbers."""
        numbers = (run, attempt or "1")
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            return ""
        return self._address("job", run=numbers[0], attempt=numbers[1])

    def _address(self, kind: str, **values: str) -> str:
        shas = [value for key, value in values.items() if key in ("sha", "base", "head")]
        pattern = self.patterns.get(kind, "")
        if not pattern or not all(map(FULL_OR_SHORT_SHA.fullmatch, shas)):
            return ""  # an import may name its commits otherwise
        address = pattern
        for key, value in {"repository": self.repository, **values}.items():
            address = address.replace(f"{{{key}}}", value)
        return address


NO_FORGE = ForgeLinks("", "", {})


def forge_links_of_project(slug: str) -> ForgeLinks:
    """The forge of a project, read once per request."""
    links_by_slug: dict[str, ForgeLinks] = g.setdefault("forge_links", {})
    if slug not in links_by_slug:
        context = web_context()
        with context.store.read() as tx:
            project = find_project(tx, slug)
            links_by_slug[slug] = load_forge_links(tx, context.settings, project) if project else NO_FORGE
    return links_by_slug[slug]


def load_forge_links(tx: Session, settings: Settings, project: Project) -> ForgeLinks:
    """The forge that settings name, else the GitHub repository that the project is bound to."""
    own_settings = apply_project_override_tables(settings, parse_project_override_tables(project.settings))
    if own_settings.forge.repository:
        return build_forge_links(own_settings.forge)
    bound = find_repository_of_project(tx, project.id)
    slug = bound.slug if bound else find_repository_slug(tx, project.id)
    if not slug:
        return NO_FORGE
    return build_forge_links(ForgeTable(repository=f"{settings.access.github_host}/{slug}", kind="github"))


def build_forge_links(table: ForgeTable) -> ForgeLinks:
    """The addresses below the repository that a ``[forge]`` table names; its own patterns come first."""
    repository = table.repository.removesuffix(".git")
    kind = table.kind or _kind_of_host(urlsplit(repository).hostname or "")
    own_patterns = {key: pattern for key in OWN_PATTERNS if (pattern := getattr(table, key))}
    name = FORGE_NAMES.get(kind, urlsplit(repository).hostname or "")
    return ForgeLinks(repository, name, {**PATTERNS.get(kind, {}), **own_patterns})


def _kind_of_host(host: str) -> str:
    """The kind of forge that a host name tells; empty where it tells none."""
    return next((kind for label, kind in KINDS_BY_HOST_LABEL.items() if label in host.split(".")), "")
