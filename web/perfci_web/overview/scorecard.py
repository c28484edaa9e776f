"""The scorecard of the overview: against the last release, or against what the address names."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.history.change_since_release import (
    ChangeSinceRelease,
    load_change_since_commit,
    load_change_since_release,
)
from perfci.model import Commit, PerfciError
from perfci.project_policies import ProjectPolicies
from perfci.store.projects import Project
from perfci.store.queries.comparisons.results_of_runs import find_newest_measured_commit
from perfci.store.queries.series_commits_machines import find_commit

AGAINST_KEY = "against"
"""What names the other side in an address: a tag, a branch, or the first characters of a sha."""


def load_scorecard(
    tx: Session, project: Project, policies: ProjectPolicies, against: str
) -> tuple[ChangeSinceRelease | None, str]:
    """Load the scorecard; where there is none against what was named, a sentence says why."""
    if not against:
        release = load_change_since_release(tx, project, policies.policy, policies.history.releases)
        return release, ""
    try:
        name, commit = _find_reference(tx, project, against)
    except PerfciError as error:
        return None, str(error)
    scorecard = load_change_since_commit(tx, project, policies.policy, name, commit)
    if scorecard is None:
        return None, (
            f"Nothing was measured both up to {name} ({commit.sha[:10]}) and after it by the same suite in "
            "the same place."
        )
    return scorecard, ""


def _find_reference(tx: Session, project: Project, text: str) -> tuple[str, Commit]:
    """Find the commit of a tag, a branch or a sha, with what a reader calls it."""
    tagged = find_newest_measured_commit(tx, project.id, tag=text)
    if tagged is not None:
        return text, tagged
    of_branch = find_newest_measured_commit(tx, project.id, branch=text)
    if of_branch is not None:
        return f"branch {text}", of_branch
    commit = find_commit(tx, project.slug, text)
    if commit is None:
        raise PerfciError(f"{project.slug} knows no tag, branch or commit {text}: is it measured?")
    return "commit", commit
