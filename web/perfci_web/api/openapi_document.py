"""The OpenAPI document, derived from the table of operations and the shapes of bodies and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from perfci import __version__
from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import ProblemDetails
from perfci_web.api.operation import Operation, StreamedAnswer
from perfci_web.api.problem_details import MEDIA_TYPE, PROBLEM_KINDS
from perfci_web.url_converters import SCHEMAS

PLACEHOLDER = re.compile(r"<(?:(?P<kind>[a-z]+)(?:\([^)]*\))?:)?(?P<name>[a-z_]+)>")
REF_TEMPLATE = "#/components/schemas/{model}"

TAGS_BY_MODULE = {
    "commit_impacts": "impact",
    "commits_machines_environments": "series",
    "comparisons": "verdicts",
    "github_trusted_publishing": "trusted_publishers",
    "incident_changes": "triage",
    "measurement_orders": "orders",
    "project_access_and_audit": "access",
    "suite_reporting_schedules": "reporting_schedules",
}
"""Tags that clients know, by the module of the handlers; any other module is its own tag."""

STATUS_HEADERS = {
    429: {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}},
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    405: {"Allow": {"schema": {"type": "string"}}},
}


@cache
def build_openapi_document(operations: tuple[Operation, ...], *, enforced: bool) -> Mapping[str, Any]:
    """Describe all operations; ``enforced`` says whether this server requires authentication."""
    schemas, definitions = _build_schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        description = _describe_operation(operation, schemas, enforced=enforced)
        paths.setdefault(format_openapi_path(operation), {})[operation.method.lower()] = description
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
    "Continuous performance regression service for PyTorch code. Lists are paged: request again with "
    "`cursor` set to `next` until there is none. Names in an address are spelled as in the addresses of "
    "pages: `/` as `:`, other characters that a URL may not hold as `~HH`. "
    "Errors are problem documents (RFC 9457)."
)


def format_openapi_path(operation: Operation) -> str:
    """Return the rule with OpenAPI's placeholders: ``/api/v1/projects/{project}/runs``."""
    return PLACEHOLDER.sub(lambda match: "{" + match["name"] + "}", operation.url_path)


def _build_schemas(
    operations: Iterable[Operation],
) -> tuple[dict[type[BaseModel], dict[str, Any]], dict[str, Any]]:
    """Return the schema of every shape, and the nested ones as components."""
    used = (shape for operation in operations for shape in (operation.body, *operation.answers.values()))
    models = (shape for shape in used if isinstance(shape, type))
    shapes: list[type[BaseModel]] = list(dict.fromkeys([ProblemDetails, *models]))
    schemas, shared = models_json_schema(
        [(shape, "validation") for shape in shapes], ref_template=REF_TEMPLATE
    )
    # Generators of clients call classes by their title, which "perfci.run/1" is no name of.
    definitions = {name: schema | {"title": name} for name, schema in shared.get("$defs", {}).items()}
    return {shape: schemas[shape, "validation"] for shape in shapes}, definitions


def _describe_operation(
    operation: Operation, schemas: Mapping[type[BaseModel], dict[str, Any]], *, enforced: bool
) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [_get_tag(operation)],
        "parameters": _describe_parameters(operation),
        "responses": _describe_responses(operation, schemas),
    }
    if operation.body is not None:
        description["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[operation.body]}},
        }
    if enforced:
        description["security"] = [{"token": []}]
        if operation.need in (AccessRequirement.PUBLIC, AccessRequirement.READ) and not operation.is_export:
            # Reads work without a token for public projects, with one for private ones too.
            description["security"] = [{}, {"token": []}]
    return description


def _get_tag(operation: Operation) -> str:
    module = operation.handler.__module__.rpartition(".")[2]
    return TAGS_BY_MODULE.get(module, module)


def _describe_parameters(operation: Operation) -> list[dict[str, Any]]:
    """Describe the parameters in the path, in the query and in headers."""
    parameters: list[dict[str, Any]] = [
        {
            "name": match["name"],
            "in": "path",
            "required": True,
            "schema": dict(SCHEMAS[match["kind"] or "default"]),
        }
        for match in PLACEHOLDER.finditer(operation.rule)
    ]
    query = operation.query.model_json_schema(ref_template=REF_TEMPLATE) if operation.query else {}
    for name, schema in query.get("properties", {}).items():
        parameter = {
            "name": name,
            "in": "query",
            "required": name in query.get("required", ()),
            "schema": _without_null(schema),
        }
        if schema.get("type") == "array":
            parameter |= {"style": "form", "explode": True}
        parameters.append(parameter)
    patterns = dict(operation.headers) | ({"If-Match": '^"[0-9]{1,9}"$'} if operation.revision else {})
    for name, pattern in patterns.items():
        header_schema = {"type": "string", "pattern": pattern}
        parameters.append({"name": name, "in": "header", "required": True, "schema": header_schema})
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without null, which a query cannot express."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    non_null = {
        name: value for name, value in schema.items() if name not in ("anyOf", "default") or value is not None
    }
    if not choices:
        return non_null
    non_null.pop("anyOf")
    return non_null | (choices[0] if len(choices) == 1 else {"anyOf": choices})


def _describe_responses(
    operation: Operation, schemas: Mapping[type[BaseModel], dict[str, Any]]
) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, answer in operation.answers.items():
        response: dict[str, Any] = {"description": STATUS_DESCRIPTIONS.get(status, "Done")}
        if isinstance(answer, StreamedAnswer):
            response["description"] = "Streamed"
            response["content"] = {answer.content_type.split(";")[0]: {"schema": {}}}
        elif answer is not None:
            response["content"] = {"application/json": {"schema": schemas[answer]}}
        responses[str(status)] = response
    if operation.etag:
        responses["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": "nothing changed since the answer with this ETag"}
    return responses | {
        str(kind.status): {"$ref": f"#/components/responses/{name}"} for name, kind in PROBLEM_KINDS.items()
    }


STATUS_DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted"}


def _problem_responses() -> Iterable[tuple[str, dict[str, Any]]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": REF_TEMPLATE.format(model=ProblemDetails.__name__)}}}
    for name, kind in PROBLEM_KINDS.items():
        response: dict[str, Any] = {"description": f"{kind.title}. {kind.text}", "content": content}
        if headers := STATUS_HEADERS.get(kind.status):
            response["headers"] = headers
        yield name, response
