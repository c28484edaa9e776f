"""What the tests show of every format; the table in docs/formats.md is written from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).parent / "files"

PAIRS, VALUES = "yes, its processes", "no, values only"


@dataclass(frozen=True)
class FormatCase:
    """Two files of one commit, and what is expected of them.

    ``replaced`` makes the second file of the first where there is only one: it is the same file with another
    number. ``machine`` is a text of the file whose change makes another machine, empty where the file names
    none. ``kept_back`` are results without a unit.
    """

    name: str
    made_by: str
    first: str
    second: str = ""
    replaced: tuple[str, str] = ("", "")
    names_commit: bool = False
    machine: str = ""
    compared: str = VALUES
    kept_back: int = 0
    content: str = ""
    commit_note: str = ""

    def read_files(self) -> tuple[bytes, bytes]:
        """The bytes of both files."""
        first = self.content.encode() if self.content else (FILES / self.name / self.first).read_bytes()
        if self.second:
            return first, (FILES / self.name / self.second).read_bytes()
        old, new = (text.encode() for text in self.replaced)
        assert old in first
        return first, first.replace(old, new)

    @property
    def table_row(self) -> str:
        """The row of this format in docs/formats.md."""
        cells = (
            f"`{self.name}`",
            self.made_by,
            self.commit_note or ("in the file" if self.names_commit else "HEAD, `--commit`"),
            "in the file" if self.machine else "`--machine`",
            self.compared,
        )
        return f"| {' | '.join(cells)} |"


TABLE_HEAD = (
    "| format | files of the test | commit | machine | `compare --files` |",
    "|---|---|---|---|---|",
)

HAND = "written after the tool's code"

PYTORCH_RECORD = {
    "timestamp": 1750000000,
    "schema_version": "v3",
    "head_sha": "1c" * 20,
    "workflow_id": 17,
    "run_attempt": 1,
    "job_id": 3,
    "runners": [{"type": "linux.aws.h100", "cpu_info": "Xeon", "cpu_count": 96}],
    "benchmark": {"name": "torchao", "extra_info": {"device": "cpu"}},
    "model": {"name": "llama"},
    "metric": {"name": "tokens_per_second", "benchmark_values": [12.5, 13.0]},
}

CASES = (
    FormatCase(
        "asv",
        "asv 0.6.6",
        "recorded-1.tar.gz",
        "recorded-2.tar.gz",
        names_commit=True,
        machine="box",
        compared="no, asv keeps no processes",
    ),
    FormatCase(
        "pytest-benchmark",
        "pytest-benchmark 5.3.1",
        "recorded-1.json",
        "recorded-2.json",
        names_commit=True,
        machine="AMD EPYC",
        compared=PAIRS,
        kept_back=2,
    ),
    FormatCase(
        "pytorch",
        HAND,
        "v3.json",
        replaced=("1750000000", "1750000001"),
        names_commit=True,
        machine="Xeon",
        content=json.dumps(PYTORCH_RECORD),
    ),
    FormatCase("vllm", HAND, "latency.json", replaced=("1.25", "1.26"), compared=PAIRS),
    FormatCase("hyperfine", "hyperfine 1.15.0", "recorded-1.json", "recorded-2.json", compared=PAIRS),
    FormatCase(
        "google-benchmark",
        "google-benchmark 1.9.5",
        "recorded-1.json",
        "recorded-2.json",
        machine='"num_cpus": 2',
        compared=PAIRS,
        kept_back=2,
    ),
    FormatCase(
        "pyperf", "pyperf 2.10.0", "recorded-1.json", "recorded-2.json", machine="AMD EPYC", compared=PAIRS
    ),
    FormatCase("jmh", HAND, "documented-1.json", "documented-2.json", compared=PAIRS, kept_back=1),
    FormatCase(
        "torchbench",
        HAND,
        "documented-1.json",
        "documented-2.json",
        names_commit=True,
        commit_note="HEAD, `--commit`, else PyTorch's in the file",
        machine="A100",
        kept_back=2,
    ),
    FormatCase(
        "optimum-benchmark", HAND, "benchmark.json", replaced=("6.25", "6.26"), machine="7742", compared=PAIRS
    ),
    FormatCase("nvbench", HAND, "2021.json", replaced=("0.0023", "0.0024"), machine="H100"),
    FormatCase("generic", HAND, "custom.json", replaced=("12.5", "12.6"), kept_back=1),
    FormatCase("bencher", HAND, "documented-1.json", "documented-2.json", kept_back=1),
    FormatCase(
        "csv",
        "a table",
        "table.csv",
        replaced=("12.5", "12.6"),
        names_commit=True,
        machine="h100",
        content=f"benchmark,batch,unit,value,commit,machine\nencode,8,ms,12.5,{'1c' * 20},h100\n",
    ),
)
