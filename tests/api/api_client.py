"""Asking the API in the tests' own words."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import Any

from builders import NOON
from flask import Flask
from werkzeug.test import TestResponse

from perfci.formats import run_document
from perfci.model import Run

NOW = NOON + timedelta(days=30)


class Api:
    def __init__(self, app: Flask) -> None:
        self.app = app
        self.client = app.test_client()

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(f"/api/v1{path}", **more)

    def upload(self, run: Run, **headers: str) -> TestResponse:
        return self.send(run_document.write(run).encode(), key=run_document.idempotency_key(run), **headers)

    def send(self, body: bytes, *, key: str = "0" * 64, packed: bool = False, **headers: str) -> TestResponse:
        """Post a body to /runs as it is."""
        about = {"Idempotency-Key": key, "Content-Type": "application/json"} | headers
        if packed:
            body, about = gzip.compress(body), about | {"Content-Encoding": "gzip"}
        return self.client.post("/api/v1/runs", data=body, headers=about)
