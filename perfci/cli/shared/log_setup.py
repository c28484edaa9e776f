"""What a running server says of itself, on standard error: lines for people, or JSON for collectors."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has; the rest is what a caller gave as ``extra``."""


def configure_logging(log_format: Literal["text", "json"]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLinesFormatter()
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in ("alembic", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class JsonLinesFormatter(logging.Formatter):
    """One object a line, whatever a message holds."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        given = {name: value for name, value in record.__dict__.items() if name not in STANDARD_FIELDS}
        line = {
            "at": at,
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line | given, default=str)
