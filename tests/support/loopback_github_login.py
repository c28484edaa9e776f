"""A fake GitHub on loopback that checks what the real one checks; a test sets its users."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from flask import Flask, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as Answer

from tests.support.loopback_application import served_on_loopback

CLIENT, SECRET = "client-of-tests", "secret-of-tests"


@dataclass
class FakeGitHub:
    number: int = 583231
    name: str = "octocat"
    orgs: set[str] = field(default_factory=set)
    repositories: dict[str, bool] = field(default_factory=dict)
    broken: bool = False
    hangs_up: bool = False
    address: str = ""
    login_request: dict[str, str] = field(default_factory=dict)
    questions: int = 0

    def app(self) -> Flask:
        app = Flask("loopback_github_login")
        app.before_request(self.hang_up)
        app.add_url_rule("/login/oauth/authorize", view_func=self.authorize)
        app.add_url_rule("/login/oauth/access_token", view_func=self.access_token, methods=["POST"])
        app.add_url_rule("/api/v3/user", view_func=self.user)
        app.add_url_rule("/api/v3/repos/<owner>/<name>", view_func=self.repository)
        app.add_url_rule("/api/v3/user/memberships/orgs/<org>", view_func=self.membership)
        return app

    def hang_up(self) -> None:
        connection = request.environ.get("werkzeug.socket")
        if self.hangs_up and connection:
            self.questions += 1
            connection.shutdown(socket.SHUT_RDWR)

    def authorize(self) -> Answer:
        self.login_request = request.args.to_dict()
        query = urlencode({"code": "c0de", "state": self.login_request["state"]})
        return redirect(f"{self.login_request['redirect_uri']}?{query}")

    def access_token(self) -> Response | tuple[Response, int]:
        form = request.form
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(
            b"="
        )
        existing = (form["client_id"], form["client_secret"], form["code"]) == (CLIENT, SECRET, "c0de")
        same = form["redirect_uri"] == self.login_request["redirect_uri"]
        if not existing or not same or challenge.decode() != self.login_request["code_challenge"]:
            return jsonify(error="bad_verification_code"), 400
        return jsonify(
            access_token="gho_fake", token_type="bearer", scope=self.login_request.get("scope", "")
        )

    def user(self) -> Response | tuple[str, int]:
        self.questions += 1
        if self.broken:
            return "", 502
        if request.headers.get("Authorization") != "Bearer gho_fake":
            return "", 401
        return jsonify(id=self.number, login=self.name)

    def repository(self, owner: str, name: str) -> Response | tuple[str, int]:
        if f"{owner}/{name}" not in self.repositories:
            return "", 404
        permissions = {"admin": self.repositories[f"{owner}/{name}"], "pull": True}
        return jsonify(id=1296269, full_name=f"{owner}/{name}", owner={"id": 583231}, permissions=permissions)

    def membership(self, org: str) -> Response | tuple[str, int]:
        self.questions += 1
        if self.broken:
            return "", 502
        return jsonify(state="active") if org in self.orgs else ("", 404)


@contextmanager
def served() -> Iterator[FakeGitHub]:
    github = FakeGitHub()
    with served_on_loopback(github.app()) as github.address:
        yield github
