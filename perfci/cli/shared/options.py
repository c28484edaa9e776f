"""Options every verb takes, before or after it, and the ones several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class GlobalOptions:
    """Values of the global options, which may stand before or after the verb; the later one wins."""

    db: str = ""
    project: str = ""
    config: Path | None = None
    debug: bool = False


def global_options(function: F) -> F:
    """Add --db, --project, --config and --debug to a command."""
    for option in reversed(_GLOBAL_OPTIONS):
        function = option(function)
    return function


def _store_global_option(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value not in (None, "", False):
        setattr(ctx.find_root().ensure_object(GlobalOptions), str(parameter.name), value)


_GLOBAL_OPTIONS = [
    click.option(
        "--db",
        metavar="URL",
        expose_value=False,
        callback=_store_global_option,
        help="the store: a database URL or a file",
    ),
    click.option(
        "--project",
        metavar="NAME",
        expose_value=False,
        callback=_store_global_option,
        help="the project's name",
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_store_global_option,
        help="configuration file  [default: ./perfci.toml]",
    ),
    click.option(
        "--debug", is_flag=True, expose_value=False, callback=_store_global_option, help="show tracebacks"
    ),
]

json_option = click.option(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="write JSON to FILE, bare: stdout",
)
suite_option = click.option(
    "--suite", type=click.Path(path_type=Path), metavar="DIR", help="the suite's folder"
)
bench_option = click.option(
    "--bench", default="", metavar="REGEX", help="only benchmarks whose name(parameters) match"
)
smoke_option = click.option("--smoke", is_flag=True, help="small sizes for two CPU cores")
wait_option = click.option(
    "--no-wait", is_flag=True, help="fail instead of waiting when the machine is in use"
)
