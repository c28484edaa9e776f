"""``perfci mcp``: what the API answers, as tools that an assistant may call. Nothing here can change anything."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from itertools import islice
from typing import Any

import click
from pydantic import BaseModel

from perfci.auth.permissions import READ_ONLY_LOCAL
from perfci.cli.shared.context import current_config, open_store_to_read
from perfci.cli.shared.flush_report import server_option
from perfci.cli.shared.options import global_options
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_client import ApiClient
from perfci.net.http_client import open_http_client, wsgi_transport

ToolFunction = Callable[..., dict[str, Any]]

MAX_ITEMS = 200
"""Items one answer holds: more would fill an assistant's memory with what it cannot read anyway."""

INSTRUCTIONS = (
    "perfci measures every commit of a project and judges what changed. An incident is one range of commits in which "
    "series moved together; a verdict says whether one series changed between two commits, with an interval and the "
    "smallest change the data could have shown. Ratios are head/base. Quote the sentence of an answer as it is."
)


@click.command("mcp")
@server_option
@global_options
def command(server: str) -> None:
    """Serve read-only tools to an assistant over standard input and output.

    They ask the server of [client] server or --server, and without one the store of this folder.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError:
        raise PerfciError("perfci mcp needs the package mcp: run `pip install 'perfci[mcp]'`") from None
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)  # standard output belongs to the protocol
    config = current_config()
    with open_api_client(config, server or config.settings.client.server) as client:
        offered = MCPServer("perfci", instructions=INSTRUCTIONS, log_level="WARNING")
        for tool in AssistantTools(client, config.project).all_tools:
            offered.tool(structured_output=True)(_with_tool_errors(tool, ToolError))
        offered.run("stdio")


def _with_tool_errors(tool: ToolFunction, make_error: Callable[[str], Exception]) -> ToolFunction:
    """The tool, its refusals as sentences for the assistant: of any other exception the protocol tells only a name."""

    @wraps(tool)
    def call_tool(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except PerfciError as error:
            raise make_error(str(error)) from None

    return call_tool


@contextmanager
def open_api_client(config: Config, server: str) -> Iterator[ApiClient]:
    """The typed client of a server, or of an application over the store that is here."""
    if server:
        with open_http_client(server, token=config.secrets.token.get_secret_value()) as door:
            yield ApiClient(door)
        return
    from perfci_web import create_app  # takes as long to import as all the rest

    with closing(open_store_to_read(config)) as store:
        app = create_app(store, settings=config.settings, identify=lambda request: READ_ONLY_LOCAL)
        with open_http_client("http://localhost", transport=wsgi_transport(app)) as door:
            yield ApiClient(door)


class AssistantTools:
    """What an assistant may ask; an empty ``project`` is the one of this folder."""

    def __init__(self, client: ApiClient, project: str) -> None:
        self._client, self._project = client, project

    @property
    def all_tools(self) -> tuple[ToolFunction, ...]:
        return (
            self.list_projects,
            self.list_open_incidents,
            self.get_incident,
            self.compare_commits,
            self.get_verdict,
            self.find_series,
            self.get_points,
        )

    def list_projects(self) -> dict[str, Any]:
        """List the projects of this server."""
        return {"items": [_serialize_response(one) for one in self._client.list_projects()]}

    def list_open_incidents(self, project: str = "") -> dict[str, Any]:
        """List what moved and still asks for somebody, newest first: what, by how much, in which range of commits."""
        incidents = self._client.list_incidents(project or self._project)
        return _first_items(one for one in incidents if one.open)

    def get_incident(self, number: int, project: str = "") -> dict[str, Any]:
        """Show one incident by its number: every series that moved, the suspected commits, what people did so far."""
        return _serialize_response(self._client.get_incident(project or self._project, number))

    def compare_commits(self, base: str, head: str, project: str = "") -> dict[str, Any]:
        """Tell what changed between two commits that were compared, by the verdict of every series, worst first."""
        return _serialize_response(
            self._client.get_comparison(project or self._project, base, head, limit=MAX_ITEMS)
        )

    def get_verdict(self, number: int, project: str = "") -> dict[str, Any]:
        """Show one verdict by its id, with every process and sample it rests on."""
        return _serialize_response(self._client.get_verdict(project or self._project, number))

    def find_series(self, text: str = "", project: str = "") -> dict[str, Any]:
        """Find series whose benchmark or metric contains a word; ``points`` takes the id of one."""
        found = self._client.list_series(project or self._project, limit=500)
        return _first_items(one for one in found if text in f"{one.benchmark} {one.metric}")

    def get_points(self, series: str, project: str = "") -> dict[str, Any]:
        """Show the history of one series by its id: a value for each commit, the levels, and where they change."""
        return _serialize_response(self._client.get_points(project or self._project, series, most=MAX_ITEMS))


def _first_items(responses: Iterable[BaseModel]) -> dict[str, Any]:
    """The first of many, and whether there are more."""
    items = [_serialize_response(one) for one in islice(responses, MAX_ITEMS + 1)]
    return {"items": items[:MAX_ITEMS], "more": len(items) > MAX_ITEMS}


def _serialize_response(response: BaseModel) -> dict[str, Any]:
    return response.model_dump(mode="json", exclude_none=True)
