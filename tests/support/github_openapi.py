"""GitHub's own description of its API, cut down to what perfci asks; every request of the tests is held
against it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache as once
from pathlib import Path
from typing import Any

from openapi_core import Config, OpenAPI
from openapi_core.testing import MockRequest

from perfci.github.api_operations import ALL_OPERATIONS, GitHubOperation
from tests.support import npm_packages

HOSTS = {"api.github.com": "https://api.github.com", "ghes-3.19": "https://ghes.example.com/api/v3"}
PREFIXES = {"api.github.com": "", "ghes-3.19": "/api/v3"}
Json = dict[str, Any]


class Description:
    """One edition of GitHub: github.com, or an Enterprise Server."""

    def __init__(self, edition: str) -> None:
        self.edition = edition
        self.base_url = HOSTS[edition]
        self.document = _cut_of(edition)
        self._oracle = OpenAPI.from_dict(self.document, Config(spec_validator_cls=None))
        self._accepted: set[tuple[Any, ...]] = set()

    def check(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> None:
        """Raise where GitHub would not take a request, or would pass over something in it.

        Tests send the same requests again and again with other tokens, of which a description says nothing.
        """
        said = frozenset((name, value) for name, value in headers.items() if name.lower() != "authorization")
        whole = (method, path, tuple(query.items()), said, body)
        if whole not in self._accepted:
            self._check_anew(method, path, query, headers, body)
            self._accepted.add(whole)

    def _check_anew(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> None:
        host = self.base_url.partition("/api/")[0]
        request = MockRequest(
            host, method.lower(), path, args=dict(query), headers=dict(headers), data=body or None
        )
        self._oracle.validate_request(request)
        declared = self._declared(self.operation(method, path))
        if unknown := set(query) - declared:
            raise ValueError(f"{method} {path} has no parameter {', '.join(sorted(unknown))}")

    def operation(self, method: str, path: str) -> GitHubOperation:
        inside = path.removeprefix(PREFIXES[self.edition])
        [result] = [
            operation
            for operation in ALL_OPERATIONS
            if operation.method == method and _pattern(operation.path).fullmatch(inside)
        ]
        return result

    def example(self, operation: GitHubOperation) -> Any:
        """GitHub's own example of an answer, none where it has none."""
        for answer in self._described(operation)["responses"].values():
            for media in answer.get("content", {}).values():
                for item in media.get("examples", {}).values():
                    return self.resolved(item)["value"]
        return None

    def answer(self, operation: GitHubOperation) -> Json:
        """The schema of what is answered when all went well."""
        answers = self._described(operation)["responses"]
        [each_answer] = [answers[status] for status in ("200", "201") if status in answers]
        schema: Json = self.resolved(each_answer)["content"]["application/json"]["schema"]
        return schema

    def resolved(self, node: Json) -> Json:
        while "$ref" in node:
            node = _at(self.document, node["$ref"])
        return node

    def _described(self, operation: GitHubOperation) -> Json:
        paths: Json = self.document["paths"][operation.path][operation.method.lower()]
        return paths

    def _declared(self, operation: GitHubOperation) -> set[str]:
        parameters = map(self.resolved, self._described(operation).get("parameters", []))
        return {parameter["name"] for parameter in parameters if parameter["in"] == "query"}


@once
def described(edition: str) -> Description:
    return Description(edition)


def cut(whole: Json) -> Json:
    """What perfci asks, with all that it refers to."""
    excerpt: Json = {
        "openapi": whole["openapi"],
        "info": whole["info"],
        "servers": whole["servers"],
        "paths": {},
    }
    for operation in ALL_OPERATIONS:
        paths = whole["paths"][operation.path][operation.method.lower()]
        excerpt["paths"].setdefault(operation.path, {})[operation.method.lower()] = paths
    for reference in _reached(whole, excerpt):
        _, part, kind, name = reference.split("/")
        excerpt.setdefault(part, {}).setdefault(kind, {})[name] = whole[part][kind][name]
    _close(excerpt)
    _alias(excerpt)
    return excerpt


def _reached(whole: Json, node: Any) -> set[str]:
    """All that is referred to from a place, however far away."""
    waiting, seen = list(_references(node)), set[str]()
    while waiting:
        reference = waiting.pop()
        if reference not in seen:
            seen.add(reference)
            waiting += _references(_at(whole, reference))
    return seen


def _close(excerpt: Json) -> None:
    """A body may hold what the description names and nothing else: GitHub passes over a misspelt field in
    silence.
    """
    bodies = [
        item["requestBody"]
        for path in excerpt["paths"].values()
        for item in path.values()
        if "requestBody" in item
    ]
    reached = [_at(excerpt, reference) for body in bodies for reference in _reached(excerpt, body)]
    for node in _nodes([bodies, reached]):
        if isinstance(node.get("properties"), dict) and node.get("type") == "object":
            node.setdefault("additionalProperties", False)


def _alias(excerpt: Json) -> None:
    """Answers are JSON under the name that GitHub recommends to ask for, too."""
    for node in _nodes(excerpt):
        content = node.get("content")
        if isinstance(content, dict) and "application/json" in content:
            content["application/vnd.github+json"] = content["application/json"]


def _nodes(node: Any) -> Iterator[Json]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(inner)


def _references(node: Any) -> Iterator[str]:
    return (each_node["$ref"] for each_node in _nodes(node) if isinstance(each_node.get("$ref"), str))


def _at(document: Json, reference: str) -> Json:
    for part in reference.split("/")[1:]:
        document = document[part]
    return document


@once
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))


def _cut_of(edition: str) -> Json:
    """Kept beside the whole files, under a name that changes with what is asked for and with how it is
    cut.
    """
    fingerprint = (
        repr([(operation.method, operation.path) for operation in ALL_OPERATIONS])
        + Path(__file__).read_text()
    )
    cache_file = (
        npm_packages.cache()
        / f"github-{edition}-{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.json"
    )
    if not cache_file.exists():
        whole = json.loads(npm_packages.content(npm_packages.OPENAPI, f"generated/{edition}.json"))
        npm_packages.write(cache_file, json.dumps(cut(whole)).encode())
    document: Json = json.loads(cache_file.read_bytes())
    return document
