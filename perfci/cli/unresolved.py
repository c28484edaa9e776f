"""``perfci unresolved``: list results whose unit is unknown, and say what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import click

from perfci.cli.shared.accounts_backend import backend_option, resolve_backend_address
from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.judge_new_results import judge_new_results
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    open_store_to_write,
    run_read_transaction,
)
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_schemas.unresolved_results import MetricMeaning
from perfci.number_format import format_count
from perfci.service.uploads.resolve_units import (
    find_supplied_unit,
    format_metric_option,
    parse_metric_option,
    resolve_waiting_results,
)
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.projects import find_project
from perfci.store.queries.measured_series import load_latest_result_id
from perfci.store.unresolved_results import UnitAnswer, load_unresolved_results


@click.group("unresolved")
@global_options
def unresolved_group() -> None:
    """Results that wait, because their file does not say in which unit or direction they are."""


@unresolved_group.command("list")
@backend_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """List results that wait, with the file's unit, the reason, and the option that says what they mean."""
    config, address = current_config(), resolve_backend_address(server)
    if address:
        with closing(build_api_client(config, address)) as client:
            shapes = list(client.list_unresolved_results(config.project))
        lines = [f"{shape.benchmark}: {shape.reason}; {format_metric_option(shape)}" for shape in shapes]
        write_list(json_file, [shape.model_dump(mode="json") for shape in shapes], lines, "nothing waits")
        return
    records = run_read_transaction(lambda tx, project: load_unresolved_results(tx, project.id))
    lines = [f"{record.benchmark}: {record.reason}; {format_metric_option(record)}" for record in records]
    write_list(json_file, records, lines, "nothing waits")


@unresolved_group.command("resolve")
@click.argument("meanings", nargs=-1, required=True, metavar="NAME=UNIT:DIRECTION...")
@backend_option
@global_options
def resolve_command(meanings: tuple[str, ...], server: str) -> None:
    """Say what results mean: NAME is a benchmark, a metric, or 'METRIC of BENCHMARK'.

    It holds for later results of that benchmark, metric and unit as well. Exit code 2 if nothing waits
    under such a name.
    """
    config, address = current_config(), resolve_backend_address(server)
    supplied = dict(map(parse_metric_option, meanings))
    resolved = _resolve_at_server(config, address, supplied) if address else _resolve_here(config, supplied)
    if not resolved:
        raise PerfciError(
            f"nothing of {config.project} waits under {' or '.join(supplied)}: "
            "`perfci unresolved list` shows the names"
        )
    click.echo(f"{format_count(resolved, 'result')} resolved")


def _resolve_here(config: Config, supplied: Mapping[str, UnitAnswer]) -> int:
    context = local_user_audit_context()
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            before = load_latest_result_id(tx)
            records = resolve_waiting_results(tx, config.project, supplied, context.at)
            if records and (project := find_project(tx, config.project)):
                for record in records:
                    detail = {"format": record.format, "benchmark": record.benchmark}
                    context.add_audit_entry(tx, "result.resolve", record.metric, project.id, detail)
        if records:
            judge_new_results(store, config, before)
    return len(records)


def _resolve_at_server(config: Config, address: str, supplied: Mapping[str, UnitAnswer]) -> int:
    resolved = 0
    with closing(build_api_client(config, address)) as client:
        for shape in list(client.list_unresolved_results(config.project)):
            if answer := find_supplied_unit(shape, supplied):
                meaning = MetricMeaning(unit=answer.unit, direction=answer.direction)
                # Those that mean the same are resolved with the first of them.
                resolved += client.set_metric_unit(config.project, shape.id, meaning).resolved
    return resolved
