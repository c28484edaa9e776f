"""Events as GitHub sends them: its own examples, about the repository, the commits and the forks of a
test.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

from tests.support.npm_packages import EXAMPLES, content

Json = dict[str, Any]

HERE: Json = {"id": 1, "full_name": "acme/model", "name": "model", "default_branch": "main", "fork": False}
ZERO = "0" * 40


def pull_request_event(pull: Json, action: str = "synchronize") -> Json:
    """A pull request of the stateful GitHub was opened, or has a newer commit."""
    head, number = pull["head"], pull["number"]
    fork = {"fork": head["repo"]["id"] != HERE["id"]}
    about = pull | {"head": head | {"repo": head["repo"] | fork}}
    return example("pull_request", action, number=number, pull_request=about, repository=HERE)


def run_of(pull: Json, number: int, conclusion: str | None = "success", action: str = "completed") -> Json:
    """The run of perf.yml for a pull request was asked for, or has ended. Of a fork GitHub names no pull
    request.
    """
    head = pull["head"]
    status = "completed" if action == "completed" else "queued"
    run = {
        "id": number,
        "name": "perf",
        "path": ".github/workflows/perf.yml",
        "event": "pull_request",
        "status": status,
        "conclusion": conclusion,
        "head_sha": head["sha"],
        "head_branch": head["ref"],
        "pull_requests": [],
        "repository": HERE,
        "head_repository": head["repo"],
        "run_attempt": 1,
    }
    return example("workflow_run", action, workflow_run=run, repository=HERE)


def commented(pull: Json, body: str, login: str) -> Json:
    """Somebody wrote a comment on a pull request."""
    talk = {
        "number": pull["number"],
        "pull_request": {"url": "https://api.github.com/repos/acme/model/pulls/7"},
    }
    comment = {"body": body, "user": {"login": login}}
    return example("issue_comment", "created", issue=talk, comment=comment, repository=HERE)


def pushed(sha: str) -> Json:
    return example("push", ref="refs/heads/main", before=ZERO, after=sha, repository=HERE)


def dispatched(**inputs: str) -> Json:
    """Somebody started the workflow by hand, on main."""
    return example("workflow_dispatch", ref="refs/heads/main", repository=HERE) | {"inputs": inputs}


def scheduled() -> Json:
    """GitHub documents no more of it."""
    return {"schedule": "23 3 * * *", "repository": HERE}


def example(kind: str, action: str | None = None, **changes: Any) -> Json:
    result = next(each_example for each_example in _examples()[kind] if each_example.get("action") == action)
    return _changed(deepcopy(result), changes)


def _changed(value: Json, changes: Json) -> Json:
    for name, new in changes.items():
        before = value.get(name)
        value[name] = _changed(before, new) if isinstance(before, dict) and isinstance(new, dict) else new
    return value


@cache
def _examples() -> dict[str, list[Json]]:
    return {
        kind["name"]: kind["examples"] for kind in json.loads(content(EXAMPLES, "api.github.com/index.json"))
    }
