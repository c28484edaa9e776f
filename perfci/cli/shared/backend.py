"""Where the verbs on tokens and projects work: on a server that is named or configured, else on the store here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from perfci.cli.shared.context import (
    current_config,
    is_db_option_set,
    open_store_to_read,
    open_store_to_write,
)
from perfci.model import PerfciError
from perfci.service.accounts.backends import AccountsBackend, ServerAccountsBackend, StoreAccountsBackend
from perfci.service.uploads.send_runs import build_client

T = TypeVar("T", bound=BaseModel)

backend_option = click.option(
    "--server", metavar="URL", default="", help="work there  [default: [client] server, else the store here]"
)


def parse_request(request_type: type[T], **values: Any) -> T:
    """What a user asks for, in the API's own shape."""
    try:
        return request_type.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise PerfciError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}, found {first['input']!r}"
        ) from None


@contextmanager
def open_backend(server: str, *, writes: bool = False) -> Iterator[AccountsBackend]:
    """--db names a store, whatever server is configured."""
    config = current_config()
    if server and is_db_option_set():
        raise PerfciError("Say --server or --db: these verbs work on the one or on the other.")
    address = server or ("" if is_db_option_set() else config.settings.client.server)
    if address:
        with closing(build_client(config, address.rstrip("/"))) as client:
            yield ServerAccountsBackend(client)
    else:
        with closing((open_store_to_write if writes else open_store_to_read)(config)) as store:
            yield StoreAccountsBackend(store)
