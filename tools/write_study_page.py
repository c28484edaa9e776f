"""Put the figures of a study into its page, and say when and on what they were taken."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def describe_circumstances(load: float) -> str:
    """One line for a table: the day, torch, the cores and how busy they were when it began and in the end."""
    today, torch = f"{datetime.now(UTC):%Y-%m-%d}", metadata.version("torch")
    loads = f"load {load:.1f} at the start, {os.getloadavg()[2]:.1f} at the end"
    return f"{today}, torch {torch}, {os.cpu_count()} cores, {loads}"


def replace_figures(page: Path, figures: str) -> None:
    """Replace what stands between the two marks of a page."""
    text = page.read_text()
    before, result, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (result and ended):
        raise SystemExit(f"{page} has no {BEGIN} followed by {END}")
    partial = page.with_suffix(".partial")
    partial.write_text(f"{before}{BEGIN}\n\n{figures.strip()}\n\n{END}{after}")
    partial.replace(page)
