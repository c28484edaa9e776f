"""``perfci mcp``: read-only tools over the stored results, for an assistant (Model Context Protocol)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from itertools import dropwhile, islice
from typing import Annotated, Any

import click
from pydantic import BaseModel, Field

from perfci import __version__
from perfci.auth.permissions import READ_ONLY_LOCAL
from perfci.cli.shared.options import global_options, server_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_client import ApiClient
from perfci.net.http_client import build_wsgi_transport, open_http_client

ToolFunction = Callable[..., dict[str, Any]]

DEFAULT_ITEMS, MAX_ITEMS = 30, 200
"""Items of one answer, unless ``most`` asks for others: more would fill an assistant's context window."""

ItemLimit = Annotated[int, Field(ge=2, le=MAX_ITEMS, description="items of the answer")]
NOT_COMPARED = "These commits were not compared with each other; get_levels lists what both were measured at."

INSTRUCTIONS = (
    "perfci measures every commit of a project and judges what changed. An incident is one range of "
    "commits in which "
    "series moved together; a verdict says whether one series changed between two commits, with an "
    "interval and the "
    "smallest change the data could have shown. Ratios are head/base. Quote the sentence of an answer as "
    "it is."
)


@click.command("mcp")
@server_option
@global_options
def mcp_command(server: str) -> None:
    """Serve read-only tools to an assistant over standard input and output.

    Queries the configured server, or the local store.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError:
        raise PerfciError("perfci mcp needs the package mcp: run `pip install 'perfci[mcp]'`") from None
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)  # standard output belongs to the protocol
    config = current_config()
    with open_server_or_store_client(config, server or config.settings.client.server) as client:
        mcp_server = MCPServer("perfci", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
        for tool in AssistantTools(client, config.project).all_tools:
            mcp_server.tool(structured_output=True)(_with_tool_errors(tool, ToolError))
        mcp_server.run("stdio")


def _with_tool_errors(tool: ToolFunction, make_error: Callable[[str], Exception]) -> ToolFunction:
    """A tool whose PerfciError becomes a tool error: the protocol passes on its sentence, of others only the
    class.
    """

    @wraps(tool)
    def call_tool(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except PerfciError as error:
            raise make_error(str(error)) from None

    return call_tool


@contextmanager
def open_server_or_store_client(config: Config, server: str) -> Iterator[ApiClient]:
    """A typed client of a server, or of the application over the local store."""
    if server:
        with open_http_client(server, token=config.secrets.token.get_secret_value()) as http_client:
            yield ApiClient(http_client)
        return
    from perfci_web import create_app  # slow to import: only for the local store

    with closing(open_store_to_read(config)) as store:
        app = create_app(store, settings=config.settings, identify=lambda request: READ_ONLY_LOCAL)
        with open_http_client("http://localhost", transport=build_wsgi_transport(app)) as http_client:
            yield ApiClient(http_client)


class AssistantTools:
    """The tools; an empty ``project`` is the one of this folder."""

    def __init__(self, client: ApiClient, project: str) -> None:
        self._client, self._project = client, project

    @property
    def all_tools(self) -> tuple[ToolFunction, ...]:
        """Every tool, in the order the assistant sees them."""
        return (
            self.list_projects,
            self.list_open_incidents,
            self.get_incident,
            self.compare_commits,
            self.get_levels,
            self.get_verdict,
            self.find_series,
            self.get_points,
        )

    def list_projects(self) -> dict[str, Any]:
        """List the projects of this server."""
        return {"items": [_serialize_response(project) for project in self._client.list_projects()]}

    def list_open_incidents(self, project: str = "", most: ItemLimit = DEFAULT_ITEMS) -> dict[str, Any]:
        """List open incidents, newest first: the change, its size and its range of commits."""
        incidents = self._client.list_incidents(project or self._project)
        return _first_items((incident for incident in incidents if incident.open), most)

    def get_incident(self, number: int, project: str = "") -> dict[str, Any]:
        """Show one incident by its number: changed series, candidate commits, event history, and which line
        of the code explains it where that is stored.
        """
        return _serialize_response(self._client.get_incident(project or self._project, number))

    def compare_commits(
        self, base: str, head: str, project: str = "", most: ItemLimit = DEFAULT_ITEMS
    ) -> dict[str, Any]:
        """Compare two measured commits: the verdict of every series, worst first."""
        comparison = self._client.get_comparison_summary(project or self._project, base, head, limit=most)
        note = {} if comparison.items else {"note": NOT_COMPARED}
        return _serialize_response(comparison) | note

    def get_levels(
        self,
        base: str,
        head: str,
        text: str = "",
        after: str = "",
        project: str = "",
        most: ItemLimit = DEFAULT_ITEMS,
    ) -> dict[str, Any]:
        """List the level of every series at two commits, compared or not; base may equal head.

        ``text`` selects series by a word of their benchmark or metric; more are after the ``series`` id.
        """
        levels = self._client.list_levels_at_two_commits(project or self._project, base, head, names=True)
        if after:
            levels = islice(dropwhile(lambda level: level.series != after, levels), 1, None)
        return _first_items((level for level in levels if text in f"{level.cell} {level.metric}"), most)

    def get_verdict(self, number: int, project: str = "", processes: bool = False) -> dict[str, Any]:
        """Show one verdict by its id; with ``processes``, every process and sample it rests on as well."""
        verdict = _serialize_response(self._client.get_verdict(project or self._project, number))
        return verdict if processes else {name: verdict[name] for name in verdict if name != "processes"}

    def find_series(
        self, text: str = "", project: str = "", most: ItemLimit = DEFAULT_ITEMS
    ) -> dict[str, Any]:
        """Find series whose benchmark or metric contains a word; ``get_points`` takes the id of one."""
        series = self._client.list_series(project or self._project, limit=500)
        return _first_items((entry for entry in series if text in f"{entry.benchmark} {entry.metric}"), most)

    def get_points(self, series: str, project: str = "", most: ItemLimit = DEFAULT_ITEMS) -> dict[str, Any]:
        """Show the history of one series by its id: about ``most`` values in the order of commits, the
        levels, and where they change.
        """
        return _serialize_response(
            self._client.get_series_points(project or self._project, series, max_points=most)
        )


def _first_items(responses: Iterable[BaseModel], most: int) -> dict[str, Any]:
    """The first items, and whether there are more."""
    # One more than is shown tells whether there are more.
    items = [_serialize_response(response) for response in islice(responses, most + 1)]
    return {"items": items[:most], "more": len(items) > most}


def _serialize_response(response: BaseModel) -> dict[str, Any]:
    return response.model_dump(mode="json", exclude_none=True)
