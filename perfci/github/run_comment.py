"""Read the comment that orders a measurement: ``/perfci run [expression] [pairs]``, or a bisect."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perfci.model import PerfciError

RUN_COMMAND, BISECT_COMMAND = "/perfci run", "/perfci bisect"
PAIR_COUNT = re.compile(r"[0-9]{1,6}")
QUOTED = re.compile(r"(`+)\s*(.*?)\s*\1")


@dataclass(frozen=True, slots=True)
class RunCommand:
    """What is to be measured: an expression that selects benchmarks, empty for the default ones, and a fixed
    number of pairs, or as many as decide it. A bisect has a limit of processes instead.
    """

    bench: str = ""
    pairs: int | None = None
    is_bisect: bool = False
    max_processes: int | None = None


def is_run_comment(body: str) -> bool:
    """Whether a comment begins with one of the commands."""
    line = get_first_line(body)
    return any(line == command or line.startswith(f"{command} ") for command in (RUN_COMMAND, BISECT_COMMAND))


def get_first_line(body: str) -> str:
    """The line of a comment that may be a command; a browser ends it with CRLF."""
    return body.partition("\n")[0].rstrip()


def parse_run_command(body: str) -> RunCommand:
    """Parse the first line of a comment; the expression is checked by whoever places the order."""
    line = get_first_line(body)
    if line.startswith(BISECT_COMMAND):
        same = _parse_expression_and_number(line.removeprefix(BISECT_COMMAND).strip())
        if not same.bench:
            raise PerfciError(f"A benchmark was expected, as in {BISECT_COMMAND} ^training.")
        return RunCommand(same.bench, is_bisect=True, max_processes=same.pairs)
    return _parse_expression_and_number(line.removeprefix(RUN_COMMAND).strip())


def _parse_expression_and_number(text: str) -> RunCommand:
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
