"""A GitHub that remembers: pull requests, comments, checks, statuses; and that fails in all the ways it
does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import httpx
import jwt
from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

from perfci.github.app_auth import PERMISSIONS
from tests.support.github_openapi import PREFIXES, Description

Json = dict[str, Any]

OWNER = {"id": 10, "login": "acme"}
BASE, HEAD, NEWER = "b" * 40, "a" * 40, "c" * 40
STORE = "files.example.net"
"""Where artifacts are kept: another host than GitHub's."""


@dataclass(frozen=True)
class Grant:
    """What a token may do, and under whose name."""

    login: str
    permissions: dict[str, str]
    app: int | None = None

    def covers(self, needed: str) -> bool:
        name, level = needed.split(": ")
        return self.permissions.get(name) in ({"read", "write"} if level == "read" else {"write"})


@dataclass(frozen=True)
class CannedResponse:
    """An answer that comes instead of the real one; nothing is done."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = ""


class ConnectionFailed(Exception):
    """The connection was not made."""


class ResponseLost(Exception):
    """The connection ended before the answer, after everything was done."""


Trouble = CannedResponse | type[ConnectionFailed] | type[ResponseLost] | None
BOT = Grant("perfci[bot]", dict(PERMISSIONS), app=7)


@dataclass(repr=False)
class FakeGitHub(httpx.BaseTransport):
    """Both ends of the wire; ``troubles`` befall the next requests, one each."""

    description: Description
    tokens: dict[str, Grant] = field(default_factory=lambda: {"t0ken": BOT})
    public_key: str = ""
    pulls: list[Json] = field(default_factory=list)
    comments: list[Json] = field(default_factory=list)
    checks: list[Json] = field(default_factory=list)
    statuses: list[Json] = field(default_factory=list)
    issues: list[Json] = field(default_factory=list)
    reactions: list[tuple[int, str]] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    merge_base: str = BASE
    dispatched: list[Json] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    artifacts: dict[int, bytes] = field(default_factory=dict)
    artifact: bytes = b"PK"
    run: Json = field(default_factory=dict)
    runs: list[Json] = field(default_factory=list)
    installed: bool = True
    measured: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    received_requests: list[httpx.Request] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    now_s: float = 1_790_000_000.0
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._wsgi = httpx.WSGITransport(_app(self))

    @property
    def writes(self) -> list[str]:
        """What was sent to change something: method and path."""
        return [
            f"{item.method} {self.inside(item)}" for item in self.received_requests if item.method != "GET"
        ]

    def inside(self, requests: httpx.Request) -> str:
        return requests.url.path.removeprefix(PREFIXES[self.description.edition])

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def handle_request(self, requests: httpx.Request) -> httpx.Response:
        requests.read()
        self.received_requests.append(requests)
        if requests.url.host != STORE:
            self._hold_against_the_description(requests)
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, CannedResponse):
            return httpx.Response(trouble.status, headers=trouble.headers, json={"message": trouble.message})
        if trouble is ConnectionFailed:
            raise httpx.ConnectError("connection refused")
        answer = self._wsgi.handle_request(requests)
        if trouble is ResponseLost:
            raise httpx.ReadError("connection reset by peer")
        return answer

    def _hold_against_the_description(self, requests: httpx.Request) -> None:
        """Whatever is wrong is remembered, and told when the test ends."""
        path = requests.url.raw_path.decode().partition("?")[0]
        try:
            self.description.check(
                requests.method, path, dict(requests.url.params), dict(requests.headers), requests.content
            )
            _hold_against_what_the_description_leaves_out(requests)
        except Exception as error:
            self.wrong.append(f"{requests.method} {path}: {error} {error.__cause__ or ''}")


def _hold_against_what_the_description_leaves_out(requests: httpx.Request) -> None:
    body = json.loads(requests.content) if requests.content else {}
    assert requests.headers["Accept"] == "application/vnd.github+json"
    assert requests.headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert requests.headers["User-Agent"].startswith("perfci/")
    assert requests.headers["Authorization"].startswith("Bearer ")
    if "/check-runs" in requests.url.path and body:
        assert (body["status"] == "completed") == ("conclusion" in body)
    if "/comments" in requests.url.path and "/reactions" not in requests.url.path and body:
        assert len(body["body"]) <= 65_536
    if "/statuses/" in requests.url.path and body:
        assert len(body["description"]) <= 140


def pull(number: int = 7, head: str = HEAD, *, repository: int = 1, branch: str = "faster") -> Json:
    owner = "acme" if repository == 1 else f"fork{repository}"
    return {
        "number": number,
        "state": "open",
        "labels": [],
        "head": {"ref": branch, "sha": head, "repo": {"id": repository, "full_name": f"{owner}/model"}},
        "base": {"ref": "main", "sha": BASE, "repo": {"id": 1, "full_name": "acme/model"}},
    }


def a_workflow_run(number: int = 17) -> Json:
    """A run of perf.yml for pull request 7."""
    repository = {"id": 1, "full_name": "acme/model", "owner": OWNER}
    return {
        "id": number,
        "event": "pull_request",
        "head_sha": HEAD,
        "head_branch": "faster",
        "run_attempt": 1,
        "repository": repository,
        "head_repository": repository,
        "path": ".github/workflows/perf.yml",
        "status": "completed",
        "conclusion": "success",
        "pull_requests": [],
        "html_url": f"https://github.com/acme/model/actions/runs/{number}",
    }


def comment(number: int, body: str, login: str = BOT.login) -> Json:
    url = f"https://github.com/acme/model/pull/7#issuecomment-{number}"
    user, at = {"id": 70, "login": login}, "2026-03-01T11:30:00Z"
    return {"id": number, "body": body, "user": user, "html_url": url, "issue": 7, "updated_at": at}


def _app(hub: FakeGitHub) -> Flask:
    app = Flask("github", static_folder=None)
    prefix = PREFIXES[hub.description.edition]
    repository_url = f"{prefix}/repos/acme/model"

    def on(method: str, path: str) -> Callable[[Callable[..., Any]], Any]:
        return app.route(path, methods=[method])

    @app.before_request
    def permitted() -> None:
        if request.host == STORE or request.path.startswith(f"{prefix}/app"):
            return
        operation = hub.description.operation(request.method, request.path)
        if operation.permissions and not any(
            _grant(hub).covers(each_permission) for each_permission in operation.permissions
        ):
            abort(403, "Resource not accessible by integration")

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> tuple[Json, int]:
        return {"message": error.description}, error.code or 500

    @on("GET", repository_url)
    def repository() -> Json:
        return {
            "id": 1,
            "full_name": "acme/model",
            "owner": OWNER,
            "default_branch": "main",
            "private": False,
        }

    @on("GET", f"{repository_url}/collaborators/<login>/permission")
    def permission(login: str) -> Json:
        return {"permission": {"ada": "admin", "bob": "write"}.get(login, "read"), "role_name": "any"}

    @on("GET", f"{repository_url}/pulls")
    def pulls() -> Response:
        owner, _, branch = request.args.get("head", "").partition(":")
        results = [each_pull for each_pull in hub.pulls if each_pull["state"] == request.args["state"]]
        return _page(
            results
            if not branch
            else [
                result
                for result in results
                if result["head"]["ref"] == branch
                and result["head"]["repo"]
                and result["head"]["repo"]["full_name"].startswith(f"{owner}/")
            ]
        )

    @on("GET", f"{repository_url}/pulls/<int:number>")
    def one_pull(number: int) -> Json:
        return _found(hub.pulls, "number", number)

    @on("GET", f"{repository_url}/commits/<sha>/pulls")
    def pulls_of_commit(sha: str) -> Response:
        return _page([each_pull for each_pull in hub.pulls if each_pull.get("merge_commit_sha") == sha])

    @on("GET", f"{repository_url}/issues/<int:number>/comments")
    def comments(number: int) -> Response:
        return _page([each_comment for each_comment in hub.comments if each_comment["issue"] == number])

    @on("GET", f"{repository_url}/issues/comments")
    def talk() -> Response:
        results = [
            each_comment
            for each_comment in hub.comments
            if each_comment["updated_at"] >= request.args["since"]
        ]
        return _page(sorted(results, key=lambda item: item["updated_at"], reverse=True))

    @on("POST", f"{repository_url}/issues/<int:number>/comments")
    def create_comment(number: int) -> tuple[Json, int]:
        made = comment(len(hub.received_requests) + 1000, request.json["body"], _grant(hub).login) | {
            "issue": number
        }
        hub.comments.append(made)
        return made, 201

    @on("GET", f"{repository_url}/issues/comments/<int:number>")
    def one_comment(number: int) -> Json:
        return _found(hub.comments, "id", number)

    @on("POST", f"{repository_url}/issues/comments/<int:number>/reactions")
    def react(number: int) -> tuple[Json, int]:
        _found(hub.comments, "id", number)
        reaction = (number, request.json["content"])
        is_new = reaction not in hub.reactions
        hub.reactions += [reaction] if is_new else []
        return {"id": 1, "content": reaction[1]}, 201 if is_new else 200

    @on("GET", f"{repository_url}/issues/<int:number>/events")
    def issue_events(number: int) -> Response:
        return _page([event for event in hub.events if event["issue"] == number])

    @on("GET", f"{repository_url}/compare/<basehead>")
    def compare(basehead: str) -> Json:
        return {"merge_base_commit": {"sha": hub.merge_base}}

    @on("PATCH", f"{repository_url}/issues/comments/<int:number>")
    def update_comment(number: int) -> Json:
        return _changed(_found(hub.comments, "id", number), request.json)

    @on("DELETE", f"{repository_url}/issues/comments/<int:number>")
    def delete_comment(number: int) -> tuple[str, int]:
        hub.comments.remove(_found(hub.comments, "id", number))
        return "", 204

    @on("GET", f"{repository_url}/issues")
    def issues() -> Response:
        return _page([issue for issue in hub.issues[::-1] if request.args["labels"] in issue["labels"]])

    @on("POST", f"{repository_url}/issues")
    def create_issue() -> tuple[Json, int]:
        number = len(hub.issues) + 1
        url = f"https://github.com/acme/model/issues/{number}"
        hub.issues.append(request.json | {"number": number, "html_url": url})
        return hub.issues[-1], 201

    @on("GET", f"{repository_url}/commits/<sha>/check-runs")
    def checks(sha: str) -> Response:
        name = request.args["check_name"]
        results = [check for check in hub.checks[::-1] if check["head_sha"] == sha and check["name"] == name]
        return _page(results, "check_runs")

    @on("POST", f"{repository_url}/check-runs")
    def create_check_run() -> tuple[Json, int]:
        app_id = _grant(hub).app
        if app_id is None:
            abort(403, "You must authenticate via a GitHub App.")
        number = len(hub.checks) + 1
        about = {
            "id": number,
            "html_url": f"https://github.com/acme/model/runs/{number}",
            "app": {"id": app_id},
        }
        hub.checks.append(
            {"conclusion": None, "details_url": "https://perfci.example.com"} | request.json | about
        )
        return hub.checks[-1], 201

    @on("PATCH", f"{repository_url}/check-runs/<int:number>")
    def update_check_run(number: int) -> Json:
        result = _found(hub.checks, "id", number)
        if result["app"]["id"] != _grant(hub).app:
            abort(
                403, "Invalid app_id `7` - check run can only be modified by the GitHub App that created it."
            )
        return _changed(result, request.json)

    @on("GET", f"{repository_url}/commits/<sha>/statuses")
    def statuses(sha: str) -> Response:
        return _page([status for status in hub.statuses[::-1] if status["sha"] == sha])

    @on("POST", f"{repository_url}/statuses/<sha>")
    def create_commit_status(sha: str) -> tuple[Json, int]:
        about = {
            "target_url": None,
            "url": f"https://api.github.com/repos/acme/model/statuses/{sha}",
            "sha": sha,
        }
        hub.statuses.append(about | request.json)
        return hub.statuses[-1], 201

    @on("GET", f"{repository_url}/actions/runs/<int:number>")
    def workflow_run(number: int) -> Json:
        started = [run for run in hub.dispatched if run["id"] == number]
        return started[0] if started else a_workflow_run(number) | hub.run

    @on("POST", f"{repository_url}/actions/workflows/perf.yml/dispatches")
    def dispatch() -> tuple[str, int]:
        """A run begins to exist; its name is what ``run-name`` of the workflow makes of the inputs."""
        number, inputs = 900 + len(hub.dispatched), request.json["inputs"]
        branch = request.json["ref"]
        head = next((item["head"]["sha"] for item in hub.pulls if item["head"]["ref"] == branch), BASE)
        about = {
            "event": "workflow_dispatch",
            "head_branch": branch,
            "head_sha": head,
            "status": "queued",
            "conclusion": None,
            "display_title": f"perfci order {inputs['order']}",
            "inputs": inputs,
        }
        hub.dispatched.append(a_workflow_run(number) | about)
        return "", 204

    @on("GET", f"{repository_url}/actions/workflows/perf.yml/runs")
    def runs_of_workflow() -> Response:
        return _page(hub.dispatched[::-1], "workflow_runs")

    @on("POST", f"{repository_url}/actions/runs/<int:number>/cancel")
    def cancel(number: int) -> tuple[Json, int]:
        hub.cancelled.append(number)
        return {}, 202

    @on("GET", f"{repository_url}/actions/runs")
    def workflow_runs() -> Response:
        requests = request.args["event"], request.args["status"]
        results = [a_workflow_run() | run for run in hub.runs]
        return _page(
            [result for result in results if (result["event"], result["status"]) == requests], "workflow_runs"
        )

    @on("GET", f"{repository_url}/actions/runs/<int:number>/artifacts")
    def artifacts(number: int) -> Response:
        is_ordered = any(run["id"] == number for run in hub.dispatched)
        content = hub.artifacts.get(number, b"") if is_ordered else hub.artifact
        about = {"name": request.args["name"], "size_in_bytes": len(content), "expired": False}
        return _page([about | {"id": number if is_ordered else 5}] if content else [], "artifacts")

    @on("GET", f"{repository_url}/actions/artifacts")
    def newest_artifacts() -> Response:
        about = {"id": 5, "name": request.args["name"], "size_in_bytes": len(hub.artifact), "expired": False}
        runs = [{"id": 17 - age, "head_sha": sha} for age, sha in enumerate(hub.measured)]
        return _page([about | {"workflow_run": run} for run in runs], "artifacts")

    @on("GET", f"{repository_url}/actions/artifacts/<int:number>/zip")
    def artifact(number: int) -> Response:
        return Response(status=302, headers={"Location": f"https://{STORE}/signed/{number}?sig=s3cret"})

    @on("GET", "/signed/<int:number>")
    def stored(number: int) -> Response:
        content = hub.artifacts.get(number, hub.artifact)
        return Response(content[i : i + 1000] for i in range(0, len(content), 1000))

    @on("GET", f"{prefix}/app")
    def itself() -> Json:
        _signed(hub)
        return {"id": 7, "slug": "perfci"}

    @on("GET", f"{repository_url}/installation")
    def installation() -> Json:
        _signed(hub)
        return {"id": 44} if hub.installed else abort(404, "Not Found")

    @on("POST", f"{prefix}/app/installations/<int:number>/access_tokens")
    def mint(number: int) -> tuple[Json, int]:
        _signed(hub)
        token = f"ghs_{len(hub.tokens)}"
        hub.tokens[token] = Grant("perfci[bot]", request.json["permissions"], app=7)
        ends = datetime.fromtimestamp(hub.now_s + 3600, UTC)
        return {"token": token, "expires_at": ends.isoformat().replace("+00:00", "Z")}, 201

    return app


def _grant(hub: FakeGitHub) -> Grant:
    result = hub.tokens.get(request.headers["Authorization"].removeprefix("Bearer "))
    return result or abort(401, "Bad credentials")


def _signed(hub: FakeGitHub) -> None:
    """As GitHub checks an App's signature: with its key, not ended, and for ten minutes at most."""
    try:
        claims = jwt.decode(
            request.headers["Authorization"].removeprefix("Bearer "),
            hub.public_key,
            algorithms=["RS256"],
            options={"require": ["iat", "exp", "iss"], "verify_exp": False, "verify_iat": False},
        )
    except jwt.PyJWTError as error:
        abort(401, f"A JSON web token could not be decoded: {error}")
    if (
        not claims["iat"] <= hub.now_s < claims["exp"]
        or claims["exp"] - claims["iat"] > 600
        or claims["iss"] != "Iv1.7"
    ):
        abort(401, "'Expiration time' claim ('exp') is too far in the future")


def _page(items: list[Json], name: str | None = None) -> Response:
    """One page of a list, with links to the others."""
    page, size = int(request.args.get("page", 1)), int(request.args.get("per_page", 30))
    some = items[(page - 1) * size : page * size]
    answer = Response(json.dumps({"total_count": len(items), name: some} if name else some))
    if page * size < len(items):
        query = urlencode(request.args.to_dict() | {"page": str(page + 1)})
        answer.headers["Link"] = (
            f'<{request.base_url}?{query}>; rel="next", <{request.base_url}?page=1>; rel="first"'
        )
    return answer


def _found(items: list[Json], key: str, value: int) -> Json:
    return next((item for item in items if item[key] == value), None) or abort(404, "Not Found")


def _changed(stored: Json, sent: Json) -> Json:
    stored.update(sent)
    return stored
