"""Write runs as run documents, ``perfci.run/1``, one on each line: nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfci.formats import WarnCallback, run_document
from perfci.model import Run


def write(runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]:
    for run in runs:
        yield run_document.dump_run(run).encode() + b"\n"
