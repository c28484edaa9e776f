"""Read ``PERFCI_*`` variables, which override the file: ``PERFCI_TABLE_KEY``, lists separated by commas."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, get_origin

from pydantic import ValidationError

from perfci.config.server_tables import Secrets
from perfci.config.settings import Settings, format_validation_error
from perfci.model import PerfciError

SERVICE_TABLES = ("store", "server", "access", "app", "client", "notify", "retention")
"""Tables of the service, which is configured without files; what is measured is set in the repository."""

MISSPELLING_CUTOFF = 0.9
"""Similarity of a misspelling. Variables that Kubernetes sets for a service named perfci reach 0.82."""
SPECIAL_NAMES = {("store", "url"): "PERFCI_DB"}


def variable_name(table: str, key: str) -> str:
    """Return the name of the variable that overrides a key of a table."""
    return SPECIAL_NAMES.get((table, key), f"PERFCI_{table}_{key}".upper())


def apply_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Override settings of the file by environment variables; empty variables are ignored."""
    places = {
        variable_name(table, key): (table, key)
        for table in SERVICE_TABLES
        for key in _table_fields(settings, table)
    }
    _reject_misspelled(environ, list(places))
    for name, (table, key) in places.items():
        if (table, key) not in SPECIAL_NAMES and (text := environ.get(name, "").strip()):
            settings = settings.model_copy(update={table: _override_key(settings, table, key, text, name)})
    return settings


def read_secrets(environ: Mapping[str, str]) -> Secrets:
    """Read the secrets, which only the environment holds."""
    return Secrets.model_validate(
        {key: environ.get(f"PERFCI_{key.upper()}", "") for key in Secrets.model_fields}
    )


def _table_fields(settings: Settings, table: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = type(getattr(settings, table)).model_fields
    return fields


def _override_key(settings: Settings, table: str, key: str, text: str, name: str) -> Any:
    before = getattr(settings, table)
    is_list = get_origin(_table_fields(settings, table)[key].annotation) is tuple
    value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
    try:
        return type(before).model_validate({**before.model_dump(), key: value})
    except ValidationError as error:
        raise PerfciError(f"{name}: {format_validation_error(error)}") from None


def _reject_misspelled(environ: Mapping[str, str], variable_names: Sequence[str]) -> None:
    for name in sorted(environ.keys() - set(variable_names)):
        if name.startswith(tuple(f"PERFCI_{table}_".upper() for table in SERVICE_TABLES)):
            for close in difflib.get_close_matches(name, variable_names, n=1, cutoff=MISSPELLING_CUTOFF):
                raise PerfciError(f"unknown variable {name}; did you mean {close}?")
