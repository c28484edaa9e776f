"""Hold perfci's figures on this GPU against independent ways, in ten minutes, and write docs/studies/gpu.md.

Each group of checks runs in a process of its own, since an error of CUDA spoils everything after it. Where
there is no GPU nothing runs, and the page stays as it is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from tools.gpu_checks.check_definition import CheckGroup, GpuCheck
from tools.write_study_page import replace_figures

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "studies" / "gpu.md"
NOT_RUN = "Not run: no machine with a GPU has run this yet, so no figure is known."
GROUPS = {
    "steps": ("tools.gpu_checks.training_steps", "STEP_CHECKS"),
    "memory": ("tools.gpu_checks.training_steps", "MEMORY_CHECKS"),
    "models": ("tools.gpu_checks.model_parity", "MODEL_CHECKS"),
    "kernels": ("tools.gpu_checks.profiled_kernels", "KERNEL_CHECKS"),
    "hardware": ("tools.gpu_checks.hardware_and_data_wait", "HARDWARE_CHECKS"),
    "compile": ("tools.gpu_checks.reference_suites", "COMPILE_CHECKS"),
    "suites": ("tools.gpu_checks.reference_suites", "SUITE_CHECKS"),
    "noise": ("tools.gpu_checks.reference_suites", "NOISE_CHECKS"),
}
HEADER = ("check", "limit", "independent way", "result", "holds")


@dataclass(frozen=True, slots=True)
class CheckRow:
    """What became of one check: its figures, or why it has none."""

    name: str
    figures: str
    holds: bool


def import_check_group(name: str) -> CheckGroup:
    """Import a group of checks; its module imports torch and the reference suites."""
    module, attribute = GROUPS[name]
    group: CheckGroup = getattr(importlib.import_module(module), attribute)
    return group


def run_check(check: GpuCheck) -> CheckRow:
    """Run one check; what it raises is its result."""
    try:
        result = check.run()
    except NotImplementedError as error:
        return CheckRow(check.name, f"skipped: {error}", holds=False)
    except Exception as error:  # one check that fails must not hide the others
        return CheckRow(check.name, f"failed: {type(error).__name__}: {first_line(error)}", holds=False)
    return CheckRow(check.name, result.figures, result.holds)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def run_group_here(group: CheckGroup, results: Path) -> None:
    """Run the checks of a group, and write each result when it is known."""
    with results.open("a") as file:
        for check in group.checks:
            file.write(json.dumps(asdict(run_check(check))) + "\n")
            file.flush()


def run_group_in_process(name: str, group: CheckGroup) -> list[CheckRow]:
    """Run a group in a process of its own, and end that when its time is over."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as results:
        command = [sys.executable, "-m", "tools.check_gpu", "--group", name, "--results", results.name]
        is_out_of_time = run_command_for(command, group.timeout_s)
        rows = [CheckRow(**json.loads(line)) for line in results.read().splitlines()]
    reason = f"no time was left of {group.timeout_s:g} s" if is_out_of_time else "its process ended before it"
    done = {row.name for row in rows}
    missing = [check.name for check in group.checks if check.name not in done]
    return [*rows, *(CheckRow(name, f"not run: {reason}", holds=False) for name in missing)]


def run_command_for(command: Sequence[str], timeout_s: float) -> bool:
    """Run a command in a session of its own; whether it, and all it started, had to be ended."""
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return True
    return False


def format_page(groups: Sequence[CheckGroup], rows: Mapping[str, CheckRow], circumstances: str) -> str:
    """The line on when and where, and the table; a check without a row has an empty result."""
    table = [HEADER, ("---",) * len(HEADER)]
    for check in (check for group in groups for check in group.checks):
        row = rows.get(check.name)
        result, holds = (row.figures, "yes" if row.holds else "**no**") if row else ("", "")
        table.append((check.name, check.limit, check.independent_way, result.replace("|", "\\|"), holds))
    return "\n".join([circumstances, "", *(f"| {' | '.join(cells)} |" for cells in table)])


def describe_run() -> str:
    """The day, the commit, the device, its driver's CUDA and torch."""
    import torch

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip() or 'unknown'}, "
        f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {metadata.version('torch')}."
    )


def missing_gpu_reason() -> str:
    """Why nothing can be checked here, or nothing."""
    import torch

    if not torch.cuda.device_count():
        return "torch sees no GPU here"
    return (
        "" if torch.version.cuda else "the checks are for NVIDIA's GPUs, and this torch is built for others"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="print a group, and write no page")
    parser.add_argument("--group", choices=GROUPS, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.group:
        run_group_here(import_check_group(chosen.group), chosen.results)
        return 0
    if reason := missing_gpu_reason():
        print(f"skipped: {reason}; docs/studies/gpu.md stays as it is")
        return 0
    rows: dict[str, CheckRow] = {}
    groups = {name: import_check_group(name) for name in chosen.only or GROUPS}
    for name, group in groups.items():
        for row in run_group_in_process(name, group):
            rows[row.name] = row
            print(f"{'holds ' if row.holds else 'FAILS '} {row.name}: {row.figures}", flush=True)
    if not chosen.only:
        replace_figures(PAGE, format_page(list(groups.values()), rows, describe_run()))
    return 0 if all(row.holds for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
