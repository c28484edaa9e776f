"""A GitHub on loopback that publishes the keys of the tests, and signs what a test says a job is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from flask import Flask, Response, jsonify, request

from tests.support.loopback_application import served_on_loopback
from tests.support.signed_job_tokens import a_job, jwks, signed

SECRET = "secret-of-the-job"


@dataclass
class Issuer:
    """``job`` is what is signed in the place of a push to main; ``published`` counts how often the keys
    were read.
    """

    address: str = ""
    job: dict[str, Any] = field(default_factory=dict)
    published: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def ask_at(self) -> str:
        return f"{self.address}/token?api-version=2.0"

    def app(self) -> Flask:
        app = Flask("issuer")
        app.add_url_rule("/_services/token/.well-known/jwks", view_func=self.keys)
        app.add_url_rule("/token", view_func=self.token)
        return app

    def keys(self) -> Response:
        self.published += 1
        return jsonify(jwks())

    def token(self) -> Response | tuple[str, int]:
        if request.headers.get("Authorization") != f"Bearer {SECRET}" or request.args["api-version"] != "2.0":
            return "", 401
        about = {"iss": f"{self.address}/_services/token", "aud": request.args["audience"]}
        claims = a_job(datetime.now(UTC), jti=f"job-{next(self._numbers)}", **about, **self.job)
        return jsonify(value=signed(claims), count=1)


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    with served_on_loopback(issuer.app()) as issuer.address:
        yield issuer
