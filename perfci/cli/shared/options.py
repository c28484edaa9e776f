"""Options that several verbs share, and the lengths of time that are typed into them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any, TypeVar

import click

from perfci.model import PerfciError

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
    # An option that is not given after the verb must not undo the one before it.
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


@dataclass(frozen=True, slots=True)
class SuiteChoice:
    """What ``--suite`` chose: a folder, the configured one when absent, and which of its cells."""

    folder: Path | None = None
    name: str = ""

    def is_default_suite_only(self, bench: str) -> bool:
        """Whether only the default suite is measured: by name, or because nothing else was asked for."""
        return self.name == "default" or (not self.name and not bench)


def _parse_suite_choice(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> SuiteChoice:
    names = [value for value in values if value in ("default", "full")]
    folders = [value for value in values if value not in names]
    if len(names) > 1 or len(folders) > 1:
        raise click.BadParameter(
            f"{' and '.join(values)}: one folder and one of default and full may be given"
        )
    return SuiteChoice(Path(folders[0]) if folders else None, names[0] if names else "")


suite_choice_option = click.option(
    "--suite",
    multiple=True,
    metavar="default|full|DIR",
    callback=_parse_suite_choice,
    help="the cells that guard every commit, or all of them (default, unless --bench is given); "
    "or the suite's folder",
)
bench_option = click.option(
    "--bench", default="", metavar="REGEX", help="only benchmarks whose name(parameters) match"
)
smoke_option = click.option("--smoke", is_flag=True, help="small sizes for two CPU cores")
wait_option = click.option(
    "--no-wait", is_flag=True, help="fail instead of waiting when the machine is in use"
)
server_option = click.option(
    "--server", metavar="URL", default="", help="server URL  [default: [client] server]"
)


SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str, units: str = "smh") -> float | None:
    """Seconds of ``90s``, ``20m``, ``1.5h`` or ``7d``, with the units that are allowed; None for anything
    else.
    """
    match = re.fullmatch(rf"(\d{{1,9}}(?:\.\d+)?)([{units}])", text.strip())
    return float(match[1]) * SECONDS_PER_UNIT[match[2]] if match else None


def parse_time_budget(text: str) -> float | None:
    """Seconds of a ``--budget``; None for an empty one."""
    if not text:
        return None
    seconds = parse_duration(text)
    if seconds is None:
        raise PerfciError(f"--budget {text!r}: a number with a unit was expected, such as 90s, 20m or 1h")
    return seconds


def parse_days(text: str) -> int | None:
    """Days of ``90d``; None for anything else."""
    match = re.fullmatch(r"([0-9]{1,5})d", text)
    return int(match[1]) if match else None


class EndOfDayParam(click.ParamType[datetime]):
    """A calendar day, converted to its last second in UTC."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return datetime.combine(datetime.fromisoformat(value).date(), time(23, 59, 59), UTC)
        except ValueError:
            self.fail(f"{value!r} is not a day; expected for example 2026-05-04", param, ctx)
