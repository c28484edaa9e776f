"""Answer 304 to who has the newest answer already, without making it again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any

from flask import Response, request

from perfci import __version__
from perfci.store.derived_values import load_data_state
from perfci_web.application_context import web_context
from perfci_web.url_lookups import require_project

View = Callable[..., Response]


def revalidate(view: View) -> View:
    """Give the answers of a view that shows stored data of a project, and no time, the ETag of the data."""

    @wraps(view)
    def answer(*, project: str, **names: Any) -> Response:
        etag = _build_etag(project)
        if request.if_none_match.contains_weak(etag):
            response = Response(status=304)
        else:
            response = view(project=project, **names)
        if response.status_code in (200, 304):
            response.set_etag(etag, weak=True)
        return response

    return answer


def _build_etag(project: str) -> str:
    """The tag of an address, the data of its project, and the policies that these are shown by.

    It is made before the data are read: where they change in between, the next request makes the answer anew.
    """
    context = web_context()
    with context.store.read() as tx:
        policies = context.load_policies(require_project(tx, project))
        state = load_data_state(tx, project)
    key = repr((__version__, request.full_path, request.script_root, policies, state))
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
