"""Fingerprints of the compilers' caches: equal code with another kernel is another measurement."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

KERNEL_SUFFIXES = (".py", ".cpp", ".ptx")
"""What kernels are written in."""

AUTOTUNE_SUFFIX = ".best_config"
"""What inductor's autotuner writes for each kernel: the configuration it chose."""


def cache_fingerprint_flags() -> tuple[str, ...]:
    """Say the state of inductor's and Triton's caches as a flag, ``caches: 12 files, 1a2b3c4d5e6f``.

    Nothing where this process loaded no compiler. Two processes with one flag had the same kernels at hand,
    by their sources and by the configurations the autotuner chose. What was slower under another flag may
    be another choice, not slower code (pre-heating a GPU once made Triton's autotuner choose a
    configuration 2.7 times as slow).
    """
    return (f"caches: {fingerprint_caches(folders)}",) if (folders := compile_cache_folders()) else ()


def compile_cache_folders() -> list[Path]:
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


def fingerprint_caches(folders: Sequence[Path]) -> str:
    """Count the kernels and choices in these folders, and digest their contents.

    Equal for two cold compilations of one function. Not in it is where the caches lie, how long a
    configuration took when it was tried, and the pickled graphs, which differ in every process.
    """
    contents = sorted(content for folder in folders for content in _read_cache_files(folder))
    digest = hashlib.sha256(b"\n".join(contents)).hexdigest()
    return f"{len(contents)} files, {digest[:12]}"


def _read_cache_files(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.suffix in (*KERNEL_SUFFIXES, AUTOTUNE_SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # another process tidies the same cache
                content = path.read_bytes().replace(os.fsencode(folder), b"")
                yield _strip_autotune_times(content) if path.suffix == AUTOTUNE_SUFFIX else content


def _strip_autotune_times(content: bytes) -> bytes:
    try:
        choice = json.loads(content)
    except ValueError:
        return content
    return json.dumps(
        {name: value for name, value in choice.items() if "time" not in name}, sort_keys=True
    ).encode()
