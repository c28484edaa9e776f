"""URL converters of parameters in paths, and the JSON schemas by which the API describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.routing import BaseConverter, ValidationError

from perfci.config import RESERVED_PROJECTS
from perfci.net.url_segments import FORMAT_SUFFIXES, decode_segment, encode_segment
from perfci.report.incidents.week_report import Week, parse_week


class NameConverter(BaseConverter):
    """A name in a URL: one spelling, and never one that ends like ``.json`` or another format."""

    regex = "[^/]+?" + "".join(rf"(?<!\.{suffix})" for suffix in FORMAT_SUFFIXES)
    reserved: frozenset[str] = frozenset()

    def to_python(self, value: str) -> str:
        try:
            name = decode_segment(value, self.reserved)
            name.encode()
        except ValueError as error:
            raise ValidationError from error
        if "\x00" in name:  # PostgreSQL cannot even compare with it
            raise ValidationError
        return name

    def to_url(self, value: str) -> str:
        return encode_segment(value, self.reserved)


class ProjectConverter(NameConverter):
    """The name of a project, which is never that of a page."""

    reserved = RESERVED_PROJECTS


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


class WeekConverter(BaseConverter):
    """An ISO week, such as ``2026-W47``."""

    regex = "[0-9]{4}-W[0-9]{2}"

    def to_python(self, value: str) -> Week:
        if (week := parse_week(value)) is None:
            raise ValidationError
        return week


CONVERTERS = {
    "week": WeekConverter,
    "name": NameConverter,
    "project": ProjectConverter,
    "key": KeyConverter,
    "number": NumberConverter,
    "uid": UidConverter,
}

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
