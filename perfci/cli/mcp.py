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

from perfci.auth.permissions import LOOKER
from perfci.cli.shared.context import config_here, store_to_read
from perfci.cli.shared.flush_report import server_option
from perfci.cli.shared.options import global_options
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_client import Client
from perfci.net.http_client import in_process, open_client

Tool = Callable[..., dict[str, Any]]

MOST = 200
"""Items one answer holds: more would fill an assistant's memory with what it cannot read anyway."""

ABOUT = (
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
    config = config_here()
    with client_of(config, server or config.settings.client.server) as client:
        offered = MCPServer("perfci", instructions=ABOUT, log_level="WARNING")
        for tool in Tools(client, config.project).all:
            offered.tool(structured_output=True)(_told(tool, ToolError))
        offered.run("stdio")


def _told(tool: Tool, error_of: Callable[[str], Exception]) -> Tool:
    """The tool, its refusals as sentences for the assistant: of any other exception the protocol tells only a name."""

    @wraps(tool)
    def asked(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except PerfciError as error:
            raise error_of(str(error)) from None

    return asked


@contextmanager
def client_of(config: Config, server: str) -> Iterator[Client]:
    """The typed client of a server, or of an application over the store that is here."""
    if server:
        with open_client(server, token=config.secrets.token.get_secret_value()) as door:
            yield Client(door)
        return
    from perfci_web import create_app  # takes as long to import as all the rest

    with closing(store_to_read(config)) as store:
        app = create_app(store, settings=config.settings, identify=lambda request: LOOKER)
        with open_client("http://localhost", transport=in_process(app)) as door:
            yield Client(door)


class Tools:
    """What an assistant may ask; an empty ``project`` is the one of this folder."""

    def __init__(self, client: Client, project: str) -> None:
        self._client, self._project = client, project

    @property
    def all(self) -> tuple[Tool, ...]:
        return (self.projects, self.open_incidents, self.incident, self.compare, self.verdict, self.series, self.points)

    def projects(self) -> dict[str, Any]:
        """List the projects of this server."""
        return {"items": [_plain(one) for one in self._client.projects()]}

    def open_incidents(self, project: str = "") -> dict[str, Any]:
        """List what moved and still asks for somebody, newest first: what, by how much, in which range of commits."""
        incidents = self._client.incidents(project or self._project)
        return _some(one for one in incidents if one.open)

    def incident(self, number: int, project: str = "") -> dict[str, Any]:
        """Show one incident by its number: every series that moved, the suspected commits, what people did so far."""
        return _plain(self._client.incident(project or self._project, number))

    def compare(self, base: str, head: str, project: str = "") -> dict[str, Any]:
        """Tell what changed between two commits that were compared, by the verdict of every series, worst first."""
        return _plain(self._client.comparison(project or self._project, base, head, limit=MOST))

    def verdict(self, number: int, project: str = "") -> dict[str, Any]:
        """Show one verdict by its id, with every process and sample it rests on."""
        return _plain(self._client.verdict(project or self._project, number))

    def series(self, containing: str = "", project: str = "") -> dict[str, Any]:
        """Find series whose benchmark or metric contains a word; ``points`` takes the id of one."""
        found = self._client.series(project or self._project, limit=500)
        return _some(one for one in found if containing in f"{one.benchmark} {one.metric}")

    def points(self, series: str, project: str = "") -> dict[str, Any]:
        """Show the history of one series by its id: a value for each commit, the levels, and where they change."""
        return _plain(self._client.points(project or self._project, series, most=MOST))


def _some(found: Iterable[BaseModel]) -> dict[str, Any]:
    """The first of many, and whether there are more."""
    items = [_plain(one) for one in islice(found, MOST + 1)]
    return {"items": items[:MOST], "more": len(items) > MOST}


def _plain(shape: BaseModel) -> dict[str, Any]:
    return shape.model_dump(mode="json", exclude_none=True)
