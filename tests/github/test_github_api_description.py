"""perfci sends what GitHub's description of its API allows, and reads what it documents."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from perfci.github import api_operations as ask
from perfci.github import payloads
from perfci.github.api_operations import ALL_OPERATIONS, GitHubOperation
from perfci.github.app_auth import DISPATCH_PERMISSIONS, MERGE_BASE_PERMISSIONS, PERMISSIONS
from tests.support import npm_packages
from tests.support.github_openapi import PREFIXES, Description

ANSWERS: dict[GitHubOperation, Any] = {
    ask.GET_REPOSITORY: payloads.RepositoryDetails,
    ask.GET_PERMISSION: payloads.Permission,
    ask.GET_PULL: payloads.PullRequest,
    ask.LIST_PULLS: list[payloads.PullRequest],
    ask.LIST_PULLS_OF_COMMIT: list[payloads.PullRequest],
    ask.LIST_COMMENTS: list[payloads.Comment],
    ask.LIST_REPOSITORY_COMMENTS: list[payloads.Comment],
    ask.GET_COMMENT: payloads.Comment,
    ask.LIST_ISSUE_EVENTS: list[payloads.IssueEvent],
    ask.CREATE_COMMENT: payloads.Comment,
    ask.UPDATE_COMMENT: payloads.Comment,
    ask.LIST_ISSUES: list[payloads.Issue],
    ask.CREATE_ISSUE: payloads.Issue,
    ask.LIST_CHECKS: payloads.CheckRuns,
    ask.CREATE_CHECK: payloads.CheckRun,
    ask.UPDATE_CHECK: payloads.CheckRun,
    ask.LIST_STATUSES: list[payloads.CommitStatus],
    ask.CREATE_STATUS: payloads.CommitStatus,
    ask.GET_WORKFLOW_RUN: payloads.WorkflowRun,
    ask.LIST_WORKFLOW_RUNS: payloads.WorkflowRuns,
    ask.LIST_RUNS_OF_WORKFLOW: payloads.WorkflowRuns,
    ask.COMPARE_COMMITS: payloads.MergeBase,
    ask.LIST_ARTIFACTS: payloads.Artifacts,
    ask.LIST_REPOSITORY_ARTIFACTS: payloads.Artifacts,
    ask.GET_APP: payloads.AppInfo,
    ask.GET_INSTALLATION: payloads.InstallationRef,
    ask.CREATE_INSTALLATION_TOKEN: payloads.MintedToken,
}
"""What perfci reads from each answer; the others' answers are not read."""

LONG = {"title": "x", "summary": "x" * 65_536}
UNREAD = {
    ask.DELETE_COMMENT,
    ask.DOWNLOAD_ARTIFACT,
    ask.CREATE_REACTION,
    ask.DISPATCH_WORKFLOW,
    ask.CANCEL_WORKFLOW_RUN,
}


def test_the_description_contains_every_operation() -> None:
    assert set(ALL_OPERATIONS) == set(ANSWERS) | UNREAD


@pytest.mark.parametrize("operation", list(ANSWERS), ids=lambda item: f"{item.method} {item.path}")
def test_reads_githubs_own_examples(description: Description, operation: GitHubOperation) -> None:
    example = description.example(operation)

    assert example is not None
    payloads.parse_payload(ANSWERS[operation], json.dumps(example).encode())


@pytest.mark.parametrize("operation", list(ANSWERS), ids=lambda item: f"{item.method} {item.path}")
def test_reads_only_documented_response_fields(description: Description, operation: GitHubOperation) -> None:
    schema = description.answer(operation)

    assert list(faults(description, ANSWERS[operation], schema, operation.path)) == []


def faults(description: Description, shape: Any, schema: Any, at: str) -> Iterator[str]:
    """Fields that the description does not know, or that may be null or absent where the shape needs them."""
    if get_origin(shape) in (list, tuple):
        yield from faults(description, get_args(shape)[0], description.resolved(schema)["items"], f"{at}[]")
    elif dataclasses.is_dataclass(shape):
        existing, required, _ = merged(description, schema)
        for field in dataclasses.fields(shape):
            inner = get_type_hints(shape)[field.name]
            needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if field.name not in existing:
                if needed or not is_in_some_alternative(description, schema, field.name):
                    yield f"{at}.{field.name} is unknown"
                continue
            if needed and field.name not in required:
                yield f"{at}.{field.name} may be absent"
            optional = get_origin(inner) is types.UnionType
            if merged(description, existing[field.name])[2] and not optional:
                yield f"{at}.{field.name} may be null"
            inner = get_args(inner)[0] if optional else inner
            yield from faults(description, inner, existing[field.name], f"{at}.{field.name}")


def is_in_some_alternative(description: Description, schema: Any, name: str) -> bool:
    """Whether answers of one kind have a field, such as the label of events about labels."""
    choices = description.resolved(schema).get("anyOf", ())
    return any(name in merged(description, choice)[0] for choice in choices)


def merged(description: Description, schema: Any) -> tuple[dict[str, Any], set[str], bool]:
    """Fields that every alternative has, those that are always there, and whether it may be null."""
    schema = description.resolved(schema)
    existing, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
    is_null = bool(schema.get("nullable"))
    for part in schema.get("allOf", ()):
        more, needed, _ = merged(description, part)
        existing, required = existing | more, required | needed
    choices = [merged(description, item) for item in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))]
    if choices:
        for name in set.intersection(*(set(choice[0]) for choice in choices)):
            existing.setdefault(name, choices[0][0][name])
        required |= set.intersection(*(choice[1] for choice in choices))
        is_null = is_null or any(choice[2] for choice in choices)
    return existing, required, is_null


def test_names_permissions_as_github_does(description: Description) -> None:
    properties = description.document["components"]["schemas"]["app-permissions"]["properties"]
    needs = {
        tuple(permission.split(": ")) for operation in ALL_OPERATIONS for permission in operation.permissions
    } | {
        item
        for token in (PERMISSIONS, DISPATCH_PERMISSIONS, MERGE_BASE_PERMISSIONS)
        for item in token.items()
    }

    assert [(name, level) for name, level in needs if level not in properties[name]["enum"]] == []


def test_the_manual_lists_every_permission_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "github.md").read_text()
    section = page.partition("## What a token is used for")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {item.strip("` ") for row in rows for item in row.split(" or ")}

    named = {permission for operation in ALL_OPERATIONS for permission in operation.permissions}

    assert {name for name in named if not is_included(name, listed)} == set()
    assert listed <= named


def is_included(need: str, listed: set[str]) -> bool:
    return need in listed or need.replace(": read", ": write") in listed


def test_the_description_detects_deviations(description: Description) -> None:
    """That the oracle sees mistakes, so that its silence means something."""
    prefix = PREFIXES[description.edition]
    repository_url = f"{prefix}/repos/acme/model"
    wrong = [
        ("POST", f"{repository_url}/issues/7/comments", {}, {"text": "x"}),
        ("POST", f"{repository_url}/issues/7/comments", {}, {"body": "x", "marker": "x"}),
        (
            "POST",
            f"{repository_url}/check-runs",
            {},
            {"name": "x", "head_sha": "x", "conclusion": "regressed"},
        ),
        (
            "POST",
            f"{repository_url}/check-runs",
            {},
            {"name": "x", "head_sha": "x", "output": {"title": "x"}},
        ),
        ("POST", f"{repository_url}/check-runs", {}, {"name": "x", "head_sha": "x", "output": LONG}),
        ("POST", f"{repository_url}/statuses/{'a' * 40}", {}, {"state": "neutral"}),
        ("GET", f"{repository_url}/issues/7/comments", {"per_page": "abc"}, None),
        ("GET", f"{repository_url}/issues/7/comments", {"perpage": "100"}, None),
        ("GET", f"{repository_url}/compare/feature/x...main", {}, None),
        ("POST", f"{prefix}/app/installations/4/access_tokens", {}, {"permissions": {"check": "write"}}),
    ]

    missed = [case for case in wrong if not is_caught(description, *case)]

    assert missed == []


def is_caught(description: Description, method: str, path: str, query: dict[str, str], body: Any) -> bool:
    sent = json.dumps(body).encode() if body is not None else b""
    try:
        description.check(method, path, query, {"Content-Type": "application/json"}, sent)
    except Exception:
        return True
    return False


def test_skips_without_npm_except_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    def read() -> bytes:
        return npm_packages.content(npm_packages.EXAMPLES, "api.github.com/index.json")

    monkeypatch.delenv("PERFCI_TEST_NPM", raising=False)
    with pytest.raises(pytest.skip.Exception, match="npm was not found"):
        npm_packages.skip_without_npm(read)
    monkeypatch.setenv("PERFCI_TEST_NPM", "required")
    with pytest.raises(
        pytest.fail.Exception, match=r"npm was not found.*PERFCI_TEST_NPM=required asks for it"
    ):
        npm_packages.skip_without_npm(read)
