"""URL converters of names: one spelling of each, and no project named like a page."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import BaseConverter, ValidationError

from perfci.config import RESERVED_PROJECTS
from perfci.net.url_segments import FORMAT_SUFFIXES, decode_segment, encode_segment


def init_app(app: Flask) -> None:
    app.url_map.converters |= {"name": NameConverter, "project": ProjectConverter}


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
    reserved = RESERVED_PROJECTS
