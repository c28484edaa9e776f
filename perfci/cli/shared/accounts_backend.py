"""Open the server or local store that the commands on projects, members and tokens work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from perfci.cli.shared.repository_and_config import current_config, is_db_option_set
from perfci.cli.shared.store_and_machine_lock import open_store_to_read, open_store_to_write
from perfci.model import PerfciError
from perfci.service.accounts.store_and_server_backends import (
    AccountsBackend,
    ServerAccountsBackend,
    StoreAccountsBackend,
)
from perfci.service.uploads.send_to_server import build_api_client

T = TypeVar("T", bound=BaseModel)

backend_option = click.option(
    "--server",
    metavar="URL",
    default="",
    help="work on this server  [default: [client] server, else the local store]",
)

all_projects_option = click.option(
    "--all-projects", is_flag=True, help="all projects of this store, not only one"
)


def current_project_unless_all(all_projects: bool) -> str | None:
    """The project at hand; None stands for all of them."""
    return None if all_projects else current_config().project


def build_validated_request(request_type: type[T], **values: Any) -> T:
    """A request in the API's own shape; an invalid value is an error that names its field."""
    try:
        return request_type.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise PerfciError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}, found {first['input']!r}"
        ) from None


def resolve_backend_address(server: str) -> str:
    """The address of the server that is named or configured; empty for the store, which --db always means."""
    if server and is_db_option_set():
        raise PerfciError("Give either --server or --db, not both.")
    address = server or ("" if is_db_option_set() else current_config().settings.client.server)
    return address.rstrip("/")


@contextmanager
def open_accounts_backend(server: str, *, writes: bool = False) -> Iterator[AccountsBackend]:
    """Open the server that is named or configured, else the local store; --db always means a store."""
    config, address = current_config(), resolve_backend_address(server)
    if address:
        with closing(build_api_client(config, address)) as client:
            yield ServerAccountsBackend(client)
    else:
        open_store = open_store_to_write if writes else open_store_to_read
        with closing(open_store(config)) as store:
            yield StoreAccountsBackend(store)
