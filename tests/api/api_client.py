"""Asking the API in the tests' own words; every answer is held against what the server says of itself."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from openapi_core import Config, OpenAPI
from openapi_core.contrib.werkzeug import WerkzeugOpenAPIResponse
from openapi_core.templating.paths.exceptions import OperationNotFound, PathNotFound
from openapi_core.testing import MockRequest
from werkzeug.test import TestResponse

from perfci.formats import run_document
from perfci.model import Run
from perfci_web.api.openapi_document import build_openapi_document
from perfci_web.api.operation import API_PREFIX
from perfci_web.api.operation_table import ALL_OPERATIONS
from perfci_web.api.problem_details import MEDIA_TYPE
from tests.support.builders import NOON

NOW = NOON + timedelta(days=30)


class Api:
    def __init__(self, app: Flask) -> None:
        self.app = app
        app.test_client_class = ContractCheckingClient
        self.client = app.test_client()

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(f"/api/v1{path}", **more)

    def upload(self, run: Run, **headers: str) -> TestResponse:
        return self.send(
            run_document.dump_run(run).encode(), key=run_document.idempotency_key(run), **headers
        )

    def send(self, body: bytes, *, key: str = "0" * 64, packed: bool = False, **headers: str) -> TestResponse:
        """Post a body to /runs as it is."""
        about = {"Idempotency-Key": key, "Content-Type": "application/json"} | headers
        if packed:
            body, about = gzip.compress(body), about | {"Content-Encoding": "gzip"}
        return self.client.post("/api/v1/runs", data=body, headers=about)


class ContractCheckingClient(FlaskClient):
    """Every answer of the API is one that the served document promises; unknown addresses and methods
    answer so.
    """

    def open(self, *about: Any, **more: Any) -> TestResponse:
        answer = super().open(*about, **more)
        request = MockRequest("http://localhost", answer.request.method.lower(), answer.request.path)
        if request.path.startswith(API_PREFIX):
            try:
                CONTRACT.validate_response(request, WerkzeugOpenAPIResponse(answer))
            except (PathNotFound, OperationNotFound):
                assert answer.status_code in (404, 405)
        return answer


CONTRACT = OpenAPI.from_dict(
    json.loads(json.dumps(build_openapi_document(ALL_OPERATIONS, enforced=False))),
    Config(
        spec_validator_cls=None,  # test_api_openapi.py holds the document against the standard
        extra_media_type_deserializers={MEDIA_TYPE: json.loads, "application/x-ndjson": bytes},
    ),
)
