"""The log of a server: one line for a record, whatever is in its text."""

from __future__ import annotations

import logging

from perfci.cli.shared.server_logging import TextFormatter


def formatted(message: str, *, error: Exception | None = None) -> str:
    exc_info = (type(error), error, None) if error else None
    record = logging.LogRecord("perfci", logging.INFO, "", 0, "%s", (message,), exc_info)
    return TextFormatter().format(record)


def test_a_line_break_in_a_path_forges_no_line() -> None:
    text = formatted("GET /acme/\n2026-01-01 00:00:00,000 INFO all is well\x1b[31m\u2028")

    assert text.endswith(r"GET /acme/\n2026-01-01 00:00:00,000 INFO all is well\x1b[31m\u2028")
    assert len(text.splitlines()) == 1


def test_a_traceback_is_indented_below_its_line() -> None:
    text = formatted("failed", error=ValueError("first\n2026-01-01 00:00:00,000 INFO forged\x1b[31m"))

    assert text.split("\n")[1:] == [
        "  ValueError: first",
        r"  2026-01-01 00:00:00,000 INFO forged\x1b[31m",
    ]


def test_letters_of_every_language_stay() -> None:
    assert formatted("größer 快").endswith(" INFO größer 快")
