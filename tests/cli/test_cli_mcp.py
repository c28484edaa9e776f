"""``perfci mcp`` over the protocol itself answers like the API and the commands."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from perfci import __version__
from perfci.cli import run_cli
from perfci.cli.mcp import AssistantTools, open_server_or_store_client
from perfci.config import load_config
from perfci.net.url_segments import encode_segment
from perfci.store import open_store
from perfci.store.column_conversions import series_identity
from perfci_web import create_app
from tests.support.builders import (
    NOON,
    PROJECT,
    a_series,
    a_sha,
)
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile
from tests.support.judged_step import store_judged_step

P = f"/api/v1/projects/{encode_segment(PROJECT)}"
SERIES = series_identity(PROJECT, a_series())


@pytest.fixture
def database(working_folder: Path) -> str:
    """Five commits of one series with a step, and a verdict on it."""
    url = f"sqlite:///{working_folder}/perfci.db"
    with closing(open_store(url, create=True)) as store, store.begin() as tx:
        store_judged_step(tx)
    return url


def call_tools(database: str, questions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the tools answer; ``tools`` is what is offered."""
    from mcp import ClientSession, StdioServerParameters  # a second of CPU, which other test processes save
    from mcp.client.stdio import stdio_client

    async def talk() -> dict[str, Any]:
        arguments = ["-m", "perfci.cli", "--db", database, "--project", PROJECT, "mcp"]
        server_parameters = StdioServerParameters(command=sys.executable, args=arguments)
        async with (
            stdio_client(server_parameters) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            server = (await session.initialize()).server_info
            result: dict[str, Any] = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
            result["server"] = (server.name, server.version)
            for name, values in questions.items():
                answer = await session.call_tool(name, values)
                result[name] = answer.structured_content if not answer.is_error else answer.content[0].text
            return result

    with ThreadPoolExecutor(1) as elsewhere:  # a browser that another test opened keeps a loop in this thread
        return elsewhere.submit(anyio.run, talk).result()


def get_from_api(database: str, path: str) -> Any:
    with closing(open_store(database, create=False)) as store:
        return create_app(store).test_client().get(P + path).get_json()


@pytest.mark.slow
def test_answers_like_the_api(database: str) -> None:
    answers = call_tools(
        database,
        {
            "compare_commits": {"base": a_sha(3), "head": a_sha(4)},
            "get_verdict": {"number": 1, "processes": True},
            "find_series": {"text": "time_step"},
            "get_points": {"series": SERIES},
            "list_open_incidents": {},
            "get_incident": {"number": 77},
        },
    )

    assert answers["compare_commits"] == get_from_api(database, f"/comparisons/{a_sha(3)}...{a_sha(4)}")
    assert answers["get_verdict"] == get_from_api(database, "/verdicts/1")
    assert answers["find_series"]["items"] == get_from_api(database, "/series")["items"]
    assert answers["get_points"] == get_from_api(database, f"/series/{SERIES}/points?max_points=30")
    assert answers["list_open_incidents"] == {"items": [], "more": False}
    assert "no incident" in answers["get_incident"].lower()
    assert answers["server"] == ("perfci", __version__)
    assert answers["tools"] == [
        "list_projects",
        "list_open_incidents",
        "get_incident",
        "compare_commits",
        "get_levels",
        "get_verdict",
        "find_series",
        "get_points",
    ]


def test_answers_like_the_commands_with_json(
    database: str, working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_store(database, create=False)) as store:
        reconcile(
            store,
            NOON + timedelta(days=2),
            a_budgeted_incident("a1", a_move("x"), a_move("y")),
            a_budgeted_incident("b1", a_move("z")),
        )

    def verb(*arguments: str) -> Any:
        capsys.readouterr()
        assert run_cli(["--db", database, "--project", PROJECT, *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    with open_server_or_store_client(load_config(working_folder, db=database, project=PROJECT), "") as client:
        tools = AssistantTools(client, PROJECT)
        listed, incident, items = (
            tools.list_open_incidents()["items"],
            tools.get_incident(1),
            tools.list_projects()["items"],
        )

    assert same(verb("incidents", "list")["incidents"], listed)
    assert same(verb("incidents", "show", "1"), incident)
    assert same(verb("project", "list"), items)


def test_gets_levels_of_commits_that_were_not_compared_by_name(database: str, working_folder: Path) -> None:
    with open_server_or_store_client(load_config(working_folder, db=database, project=PROJECT), "") as client:
        tools = AssistantTools(client, PROJECT)
        levels = tools.get_levels(a_sha(1), a_sha(5))
        others = tools.get_levels(a_sha(1), a_sha(5), text="memory")

    item = {"series": SERIES, "cell": "training.Step.time_step", "metric": "time", "unit": "seconds"}
    assert levels == {"items": [{**item, "base": 1.0, "head": 1.2}], "more": False}
    assert others["items"] == []


def test_answers_are_as_short_as_was_asked(database: str, working_folder: Path) -> None:
    with open_server_or_store_client(load_config(working_folder, db=database, project=PROJECT), "") as client:
        tools = AssistantTools(client, PROJECT)
        verdict, proven = tools.get_verdict(1), tools.get_verdict(1, processes=True)
        uncompared = tools.compare_commits(a_sha(1), a_sha(5))

    assert "processes" not in verdict
    assert verdict == {name: proven[name] for name in proven if name != "processes"}
    assert uncompared["items"] == []
    assert "get_levels" in uncompared["note"]


def same(verb: Any, tool: Any) -> bool:
    """Whether a verb says what a tool says, which leaves out what is not; moments are one however they are
    written.
    """
    if isinstance(tool, dict):
        return all(same(verb.get(name), value) for name, value in tool.items())
    if isinstance(tool, list):
        return len(verb) == len(tool) and all(map(same, verb, tool))
    return verb == tool or (
        isinstance(tool, str) and datetime.fromisoformat(verb) == datetime.fromisoformat(tool)
    )
