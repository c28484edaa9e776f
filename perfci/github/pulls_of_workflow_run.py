"""Find the open pull requests of a workflow run through the API, never from what the run wrote."""

from __future__ import annotations

from perfci.github.client import GitHubClient
from perfci.github.payloads import PullRequest, WorkflowRun
from perfci.github.pull_report import ReportOutdated


def find_open_pulls_of_run(client: GitHubClient, run: WorkflowRun) -> list[PullRequest]:
    """Open pull requests from the run's branch that are still at the run's commit: one, or one for each base.

    GitHub lists none with runs of forks, and names of branches are not unique among forks of one owner: the
    number of the head's repository decides.
    """
    repository, head = run.repository.full_name, run.head_repository
    if head is None or run.head_branch is None:
        raise ReportOutdated(
            f"Workflow run {run.id} of {repository} came from a fork that is gone; it has no report."
        )
    owner = head.full_name.partition("/")[0]
    pulls = [
        pull
        for pull in client.list_open_pulls(repository, owner, run.head_branch)
        if pull.head.repo is not None and pull.head.repo.id == head.id
    ]
    if not pulls:
        raise ReportOutdated(f"No open pull request of {repository} comes from {owner}:{run.head_branch}.")
    still = [pull for pull in pulls if pull.head.sha == run.head_sha]
    if not still:
        raise ReportOutdated(
            f"{repository}#{pulls[0].number} is at {pulls[0].head.sha[:12]} by now and workflow run "
            f"{run.id} measured {run.head_sha[:12]}: its result is not shown."
        )
    return still
