"""``perfci order``: place, list, show and cancel measurement orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perfci.cli.orders.order_queue import open_order_queue
from perfci.cli.shared.accounts_backend import backend_option, build_validated_request
from perfci.cli.shared.command_output import write_json, write_list
from perfci.cli.shared.options import bench_option, global_options, json_option, parse_time_budget
from perfci.cli.shared.repository_and_config import current_config, current_repository
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import IncidentOrder, NewOrder, OrderShape
from perfci.service.orders.check_order_content import (
    BACKFILL,
    BISECT,
    ENGINES,
    LOCAL_ENGINE,
    MAX_PAIRS,
    MAX_PROCESSES,
    MAX_STRIDE,
    MIN_BISECT_PROCESSES,
    MIN_PAIRS,
    RAY_ENGINE,
)
from perfci.service.orders.order_text import format_order, format_order_line

STATES = ("open", "closed", "queued", "dispatched", "running", "done", "failed", "cancelled")
MAX_LISTED = 500

number_argument = click.argument("number", type=click.IntRange(1), metavar="NUMBER")


incident_option = click.option(
    "--incident", type=click.IntRange(1), metavar="NUMBER", help="measure the range of an incident"
)
range_engine_option = click.option(
    "--engine",
    type=click.Choice((LOCAL_ENGINE, RAY_ENGINE)),
    default=None,
    help="who carries it out  [default: [engines] ranges]",
)


@click.group("order")
@global_options
def order_group() -> None:
    """Order measurements: a worker (`perfci work`) carries them out, here or on another machine."""


@order_group.command("place")
@click.argument("revisions", nargs=-1, metavar="BASE HEAD | REV")
@bench_option
@click.option(
    "--pairs",
    type=click.IntRange(MIN_PAIRS, MAX_PAIRS),
    help="measure exactly so many pairs  [default: as many as decide]",
)
@click.option(
    "--suite",
    type=click.Choice(("default", "full")),
    default=None,
    help="the cells that guard every commit, or all  [default: default, with --bench full]",
)
@click.option("--engine", type=click.Choice(ENGINES), default="local", show_default=True)
@backend_option
@json_option
@global_options
def place_command(
    revisions: tuple[str, ...],
    bench: str,
    pairs: int | None,
    suite: str | None,
    engine: str,
    server: str,
    json_file: str | None,
) -> None:
    """Order pairs of BASE and HEAD, or a measurement of one commit, REV, for the history.

    An open order of the same content is joined instead of measured twice.
    """
    repository = current_repository()
    if len(revisions) not in (1, 2):
        raise PerfciError("Give BASE and HEAD to compare two commits, or one commit to measure.")
    shas = [repository.resolve_revision(revision) for revision in revisions]
    order = build_validated_request(
        NewOrder,
        base=shas[0] if len(shas) == 2 else None,
        head=shas[-1],
        bench=bench,
        pairs=pairs,
        suite=suite or "",
        engine=engine,
    )
    with open_order_queue(server, writes=True) as queue:
        _write_placed(queue.place(order), json_file)


@order_group.command("bisect")
@click.argument("revisions", default="", metavar="[GOOD..BAD]")
@incident_option
@bench_option
@click.option("--metric", default="", metavar="NAME", help="the metric that moved  [default: the first one]")
@click.option("--budget", default="", metavar="TIME", help="name the smallest range after so long, e.g. 20m")
@click.option(
    "--max-processes",
    type=click.IntRange(MIN_BISECT_PROCESSES, MAX_PROCESSES),
    help="name the smallest range after so many  [default: 160]",
)
@range_engine_option
@backend_option
@json_option
@global_options
def bisect_order_command(
    revisions: str,
    incident: int | None,
    bench: str,
    metric: str,
    budget: str,
    max_processes: int | None,
    engine: str | None,
    server: str,
    json_file: str | None,
) -> None:
    """Order the search for the commit after GOOD and up to BAD that moved one benchmark.

    With --incident, what moved most in it is searched in its range, and the incident gets the answer.
    """
    budget_s = parse_time_budget(budget)
    bounds = {"max_processes": max_processes, "budget_s": None if budget_s is None else round(budget_s)}
    content = {"bench": bench, "metric": metric}
    _place_range(BISECT, revisions, incident, content, bounds, engine, server, json_file)


@order_group.command("backfill")
@click.argument("revisions", default="", metavar="[A..B]")
@incident_option
@bench_option
@click.option("--stride", type=click.IntRange(1, MAX_STRIDE), help="measure every so many commits")
@click.option(
    "--max-processes", type=click.IntRange(1, MAX_PROCESSES), help="choose as many commits as these allow"
)
@range_engine_option
@backend_option
@json_option
@global_options
def backfill_order_command(
    revisions: str,
    incident: int | None,
    bench: str,
    stride: int | None,
    max_processes: int | None,
    engine: str | None,
    server: str,
    json_file: str | None,
) -> None:
    """Order results of the commits of A..B that have none, the coarse picture first.

    With --incident, of the commits in its range, for the benchmarks that moved.
    """
    if incident is not None and stride is not None:
        raise PerfciError("--incident fills every gap of its range; leave out --stride.")
    content = {"bench": bench, "stride": stride}
    _place_range(
        BACKFILL, revisions, incident, content, {"max_processes": max_processes}, engine, server, json_file
    )


def _place_range(
    kind: str,
    revisions: str,
    incident: int | None,
    content: Mapping[str, Any],
    bounds: Mapping[str, int | None],
    engine: str | None,
    server: str,
    json_file: str | None,
) -> None:
    if incident is not None:
        if revisions or any(content.values()):
            raise PerfciError(
                "--incident says what is measured; leave out the range and what else is measured."
            )
        wanted = build_validated_request(IncidentOrder, **bounds, engine=engine)
        with open_order_queue(server, writes=True) as queue:
            _write_placed(queue.place_for_incident(incident, kind, wanted), json_file)
        return
    good, dots, bad = revisions.partition("..")
    if not dots or not good:
        raise PerfciError(f"{revisions!r}: a range A..B was expected, or --incident NUMBER.")
    repository = current_repository()
    order = build_validated_request(
        NewOrder,
        kind=kind,
        base=repository.resolve_revision(good),
        head=repository.resolve_revision(bad or "HEAD"),
        **content,
        **bounds,
        engine=engine or current_config().settings.engines.ranges,
    )
    with open_order_queue(server, writes=True) as queue:
        _write_placed(queue.place(order), json_file)


def _write_placed(placed: OrderShape, json_file: str | None) -> None:
    if json_file:
        write_json(json_file, placed.model_dump(mode="json"))
    if json_file != "-":
        joined = len(placed.requests) > 1
        click.echo(f"order {placed.id} {'was open already and is joined' if joined else 'is placed'}")


@order_group.command("list")
@click.option("--state", type=click.Choice(STATES), help="only orders of this state  [default: all]")
@backend_option
@json_option
@global_options
def list_command(state: str | None, server: str, json_file: str | None) -> None:
    """List the newest orders with their state, what they ask for and who asked."""
    with open_order_queue(server) as queue:
        orders = queue.list_orders(state, MAX_LISTED)
    shown = [order.model_dump(mode="json") for order in orders]
    write_list(json_file, shown, [format_order_line(order) for order in orders], "there is no such order")


@order_group.command("show")
@number_argument
@backend_option
@json_option
@global_options
def show_command(number: int, server: str, json_file: str | None) -> None:
    """Show an order: how far it is, who asked for it, and what it came to."""
    with open_order_queue(server) as queue:
        _write_order(queue.get(number), json_file)


@order_group.command("cancel")
@number_argument
@backend_option
@global_options
def cancel_command(number: int, server: str) -> None:
    """Cancel an open order; a worker that measures it stops."""
    with open_order_queue(server, writes=True) as queue:
        queue.cancel(number)
    click.echo(f"order {number} is cancelled")


def _write_order(order: OrderShape, json_file: str | None) -> None:
    if json_file:
        write_json(json_file, order.model_dump(mode="json"))
    if json_file != "-":
        click.echo(format_order(order))
