"""Where the verbs on tokens and projects work: on a server that is named or configured, else on the store here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from perfci.cli.shared.context import config_here, store_here_is_named, store_to_read, store_to_write
from perfci.model import PerfciError
from perfci.service.accounts.backends import Registry, ServerRegistry, StoreRegistry
from perfci.service.uploads.send_runs import client_of

T = TypeVar("T", bound=BaseModel)

server_option = click.option(
    "--server", metavar="URL", default="", help="work there  [default: [client] server, else the store here]"
)


def said(shape: type[T], **values: Any) -> T:
    """What a user asks for, in the API's own shape."""
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise PerfciError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, found {first['input']!r}") from None


@contextmanager
def the_registry(server: str, *, writes: bool = False) -> Iterator[Registry]:
    """--db names a store, whatever server is configured."""
    config = config_here()
    if server and store_here_is_named():
        raise PerfciError("Say --server or --db: these verbs work on the one or on the other.")
    address = server or ("" if store_here_is_named() else config.settings.client.server)
    if address:
        with closing(client_of(config, address.rstrip("/"))) as client:
            yield ServerRegistry(client)
    else:
        with closing((store_to_write if writes else store_to_read)(config)) as store:
            yield StoreRegistry(store)
