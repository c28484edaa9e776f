"""Logging of a running server to standard error: lines for people, or JSON for log collectors."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes of every log record; all others come from a caller's ``extra``."""


def configure_logging(log_format: Literal["text", "json"]) -> None:
    """Log from level INFO on, chatty libraries from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLinesFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in ("alembic", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """Format each record as one line, and the lines of its traceback indented below it.

    Control characters are escaped: the path of a request or the text of an error could else forge a line, or
    send commands to a terminal.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, as logging names it
        return _escape_control_characters(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802, as logging names it
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {_escape_control_characters(line)}" for line in lines)


def _escape_control_characters(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class JsonLinesFormatter(logging.Formatter):
    """Format each record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extra = {name: value for name, value in record.__dict__.items() if name not in STANDARD_FIELDS}
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line | extra, default=str)
