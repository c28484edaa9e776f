"""What the compilers found in their caches: another kernel chosen is another thing measured, on the same code."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PASSING = (".lock", ".tmp", ".pid")
"""Ends of files that are there for a moment."""

CHOSEN = ".best_config"
"""What inductor's autotuner writes for each kernel: the configuration it chose."""


def caches() -> tuple[str, ...]:
    """Say the state of inductor's and Triton's caches as a flag, ``caches: 12 files, 1a2b3c4d5e6f``.

    Nothing where this process loaded no compiler. Two processes with one flag had the same kernels at hand: count,
    relative names and sizes of the files, and the configurations the autotuner chose, go into the digest. What was
    slower under another flag may be another choice, not slower code (pre-heating a GPU once made Triton's autotuner
    choose a configuration 2.7 times as slow).
    """
    return (f"caches: {fingerprint(folders)}",) if (folders := cache_folders()) else ()


def cache_folders() -> list[Path]:
    """Where the compilers loaded in this process keep what they made."""
    folders = []
    dynamo = sys.modules.get("torch._dynamo.utils")
    inductor = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    if inductor is not None and dynamo is not None and dynamo.counters["aot_autograd"]:
        folders.append(Path(inductor.cache_dir()))
    triton = sys.modules.get("triton.knobs")
    if triton is not None:
        folders.append(Path(triton.cache.dir))
    return folders


def fingerprint(folders: Sequence[Path]) -> str:
    """Count the files of these folders and digest what tells them apart; times and absolute paths do not."""
    entries = sorted(entry for folder in folders for entry in _entries(folder))
    digest = hashlib.sha256("\n".join(entries).encode()).hexdigest()
    return f"{len(entries)} files, {digest[:12]}"


def _entries(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.name.endswith(PASSING):
                yield f"{path.relative_to(folder).as_posix()} {_told_by(path)}"
        except FileNotFoundError:
            continue  # another process tidies the same cache


def _told_by(path: Path) -> str:
    if path.suffix != CHOSEN:
        return str(path.stat().st_size)
    try:
        chosen = json.loads(path.read_bytes())
    except ValueError:
        return str(path.stat().st_size)
    return json.dumps({name: value for name, value in chosen.items() if "time" not in name}, sort_keys=True)
