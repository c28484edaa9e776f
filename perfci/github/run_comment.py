"""Read the comment that orders a measurement: ``/perfci run [expression] [pairs]``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfci.model import PerfciError

RUN_COMMAND = "/perfci run"
PAIR_COUNT = re.compile(r"[0-9]{1,6}")
QUOTED = re.compile(r"(`+)\s*(.*?)\s*\1")


@dataclass(frozen=True, slots=True)
class RunCommand:
    """What is to be measured: an expression that selects benchmarks, empty for the default ones, and a fixed
    number of pairs, or as many as decide it.
    """

    bench: str = ""
    pairs: int | None = None


def is_run_comment(body: str) -> bool:
    """Whether a comment begins with the command."""
    line = get_first_line(body)
    return line == RUN_COMMAND or line.startswith(f"{RUN_COMMAND} ")


def get_first_line(body: str) -> str:
    """The line of a comment that may be a command; a browser ends it with CRLF."""
    return body.partition("\n")[0].rstrip()


def parse_run_command(body: str) -> RunCommand:
    """Parse the first line of a comment; the expression is checked by whoever places the order."""
    text = get_first_line(body).removeprefix(RUN_COMMAND).strip()
    before, _, last = text.rpartition(" ")
    pairs = int(last) if PAIR_COUNT.fullmatch(last) else None
    bench = text if pairs is None else before.strip()
    if quoted := QUOTED.fullmatch(bench):
        return RunCommand(quoted[2], pairs)
    if len(bench.split()) > 1:
        raise PerfciError(
            f"One expression and a number of pairs were expected, as in {RUN_COMMAND} ^training 20, not "
            f"{bench!r}: an expression with blanks stands between backticks."
        )
    return RunCommand(bench, pairs)
