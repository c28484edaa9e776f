"""The OpenAPI document, derived from the table of operations and the shapes that travel; nothing is described twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from perfci import __version__
from perfci.auth.permissions import AccessRequirement
from perfci.net.shapes.problem_details import ProblemDetails
from perfci_web.api.operation import AnswerType, Operation, StreamedAnswer
from perfci_web.api.path_parameters import SCHEMAS
from perfci_web.api.problems import MEDIA_TYPE, PROBLEM_KINDS

PLACEHOLDER = re.compile(r"<(?:(?P<kind>[a-z]+)(?:\([^)]*\))?:)?(?P<name>[a-z_]+)>")
REF_TEMPLATE = "#/components/schemas/{model}"

STATUS_HEADERS = {
    429: {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}},
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    405: {"Allow": {"schema": {"type": "string"}}},
}


@cache
def build_document(operations: tuple[Operation, ...], *, enforced: bool) -> Mapping[str, Any]:
    """Describe all operations; ``enforced`` says whether this server asks who it is that calls."""
    schemas, definitions = _build_schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(openapi_path(one), {})[one.method.lower()] = _describe_operation(
            one, schemas, enforced=enforced
        )
    components: dict[str, Any] = {"schemas": definitions, "responses": dict(_problem_responses())}
    if enforced:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "perfci", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
    }


DESCRIPTION = (
    "Continuous performance regression service for PyTorch code. Lists come in pages: ask again with `cursor` set to "
    "`next` until there is none. Names in an address are spelled as in the addresses of pages: `/` as `:`, what a URL "
    "may not hold as `~HH`. Errors are problem documents (RFC 9457)."
)


def openapi_path(operation: Operation) -> str:
    """The rule with OpenAPI's placeholders: ``/api/v1/projects/{project}/runs``."""
    return PLACEHOLDER.sub(lambda found: "{" + found["name"] + "}", operation.path)


def _build_schemas(
    operations: Iterable[Operation],
) -> tuple[dict[type[BaseModel], dict[str, Any]], dict[str, Any]]:
    """The schema of every shape, those within others as components."""
    used = (shape for one in operations for shape in (one.body, *one.answers.values()))
    shapes: list[type[BaseModel]] = list(
        dict.fromkeys([ProblemDetails, *(one for one in used if isinstance(one, type))])
    )
    found, together = models_json_schema(
        [(shape, "validation") for shape in shapes], ref_template=REF_TEMPLATE
    )
    return {shape: found[shape, "validation"] for shape in shapes}, together.get("$defs", {})


def _describe_operation(
    operation: Operation, schemas: Mapping[type[BaseModel], dict[str, Any]], *, enforced: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.handler.__module__.rpartition(".")[2]],
        "parameters": [
            *_path_parameters(operation),
            *_query_parameters(operation, schemas),
            *_header_parameters(operation),
        ],
        "responses": _describe_responses(operation, schemas),
    }
    if operation.body is not None:
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[operation.body]}},
        }
    if enforced:
        told["security"] = _security_requirements(operation.need)
    return told


def _security_requirements(need: AccessRequirement) -> list[dict[str, list[str]]]:
    """What anybody may ask of a public project needs no token; a token shows the private ones as well."""
    return (
        [{"token": []}]
        if need not in (AccessRequirement.PUBLIC, AccessRequirement.READ)
        else [{}, {"token": []}]
    )


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": found["name"],
            "in": "path",
            "required": True,
            "schema": dict(SCHEMAS[found["kind"] or "default"]),
        }
        for found in PLACEHOLDER.finditer(operation.rule)
    ]


def _query_parameters(
    operation: Operation, schemas: Mapping[type[BaseModel], dict[str, Any]]
) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    shape = operation.query.model_json_schema(ref_template=REF_TEMPLATE)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in shape.get("required", ()),
            "schema": _without_null(schema),
            **({"style": "form", "explode": True} if _is_list_parameter(operation.query, name) else {}),
        }
        for name, schema in shape.get("properties", {}).items()
    ]


def _is_list_parameter(model: type[BaseModel], name: str) -> bool:
    return get_origin(model.model_fields[name].annotation) in (tuple, list)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query says nothing by leaving a name out: there is no way to write null."""
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    kept = {
        name: value for name, value in schema.items() if name not in ("anyOf", "default") or value is not None
    }
    if not choices:
        return kept
    kept.pop("anyOf")
    return kept | (choices[0] if len(choices) == 1 else {"anyOf": choices})


def _header_parameters(operation: Operation) -> list[dict[str, Any]]:
    patterns = dict(operation.headers) | ({"If-Match": '^"[0-9]{1,9}"$'} if operation.revision else {})
    return [
        {"name": name, "in": "header", "required": True, "schema": {"type": "string", "pattern": pattern}}
        for name, pattern in patterns.items()
    ]


def _describe_responses(
    operation: Operation, schemas: Mapping[type[BaseModel], dict[str, Any]]
) -> dict[str, Any]:
    told = {
        str(status): _describe_answer(answer, schemas, status) for status, answer in operation.answers.items()
    }
    if operation.etag:
        told["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        told["304"] = {"description": "nothing changed since the answer with this ETag"}
    return told | {
        str(word.status): {"$ref": f"#/components/responses/{name}"} for name, word in PROBLEM_KINDS.items()
    }


def _describe_answer(
    answer: AnswerType, schemas: Mapping[type[BaseModel], dict[str, Any]], status: int
) -> dict[str, Any]:
    if answer is None:
        return {"description": "done"}
    if isinstance(answer, StreamedAnswer):
        return {
            "description": "as it is made",
            "content": {answer.content_type.split(";")[0]: {"schema": {}}},
        }
    return {
        "description": STATUS_DESCRIPTIONS.get(status, "done"),
        "content": {"application/json": {"schema": schemas[answer]}},
    }


STATUS_DESCRIPTIONS = {200: "what was asked for", 201: "it is stored", 202: "it will be done"}


def _problem_responses() -> Iterable[tuple[str, dict[str, Any]]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": REF_TEMPLATE.format(model=ProblemDetails.__name__)}}}
    for name, word in PROBLEM_KINDS.items():
        headers = STATUS_HEADERS.get(word.status)
        told = {"description": f"{word.title}. {word.text}", "content": content}
        yield name, told | ({"headers": headers} if headers else {})
