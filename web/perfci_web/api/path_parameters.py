"""Parameters in the paths of the API, each as URL converter and as JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.routing import BaseConverter


class KeyConverter(BaseConverter):
    """A run's key or a series' identity."""

    regex = "[0-9a-f]{64}"


class NumberConverter(BaseConverter):
    """The number of a verdict or an incident, within what a database counts to."""

    regex = "[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        return int(value)


class UidConverter(BaseConverter):
    """The uid of a token."""

    regex = "[0-9a-f]{12}"


CONVERTERS = {"key": KeyConverter, "number": NumberConverter, "uid": UidConverter}

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "key": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "number": {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
    "int": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "uid": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
    "project": {"type": "string", "minLength": 1, "maxLength": 600},
    "name": {"type": "string", "minLength": 1, "maxLength": 600},
    "default": {"type": "string", "minLength": 1},
}
"""JSON schemas by converter. Names are spelled as in page addresses: ``/`` as ``:``, other characters as
``~HH``.
"""
