"""Make a commit importable: check it out, make its environment, and build it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from perfci.config import EnvironmentTable
from perfci.model import Commit, PerfciError
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import folder_lock

LOG_TAIL = 4000  # characters of a build's log kept with its result
BUILD_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """Where a commit's code is imported from, or why it could not be built."""

    commit: Commit
    tree: Path
    python: str
    paths: tuple[str, ...]
    modules: tuple[str, ...]
    failure_reason: str = ""
    build_log: str = ""


class BuildFailed(Exception):
    """A build step went wrong: a result of that commit, not an error of perfci."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


def prepare_commit(repository: GitRepository, commit: Commit, settings: EnvironmentTable) -> PreparedCommit:
    """Check a commit out, find or make its environment and build it; finished steps are reused."""
    with folder_lock(repository.private_folder):
        tree = repository.export_commit_files(commit.sha)
        try:
            python = ensure_environment(repository, tree, settings)
            built = build_commit(repository, commit, tree, python, settings)
        except BuildFailed as failed:
            return PreparedCommit(
                commit, tree, sys.executable, (), (), failure_reason=str(failed), build_log=failed.log
            )
    paths = (str(built),) if built else list_import_paths(tree, settings.paths)
    return PreparedCommit(commit, tree, python, paths, list_top_level_modules(paths))


def list_import_paths(tree: Path, configured: Sequence[str]) -> tuple[str, ...]:
    """List the folders a commit is imported from: configured ones, else ``src`` where it has packages."""
    if configured:
        return tuple(str(tree / path) for path in configured)
    source = tree / "src"
    has_packages = source.is_dir() and any((child / "__init__.py").exists() for child in source.iterdir())
    return (str(source),) if has_packages else (str(tree),)


def list_top_level_modules(paths: Sequence[str]) -> tuple[str, ...]:
    """Name what can be imported from these folders: whatever of it gets loaded has to come from here."""
    names = set()
    for folder in map(Path, paths):
        for child in folder.iterdir():
            if child.suffix == ".py" and child.stem.isidentifier():
                names.add(child.stem)
            elif (child / "__init__.py").exists():
                names.add(child.name)
    return tuple(sorted(names - sys.stdlib_module_names))


# ------------------------------------------------------------------ environments


def ensure_environment(repository: GitRepository, tree: Path, settings: EnvironmentTable) -> str:
    """Return the interpreter to measure with; a virtual environment is made once per content of its lock."""
    base = settings.python or sys.executable
    if not settings.requirements and not settings.lock_files:
        return base
    lock = [_interpreter_version(base), _runner_requirement(), *settings.requirements]
    lock += [_read_lock_file(tree, name) for name in settings.lock_files]
    digest = hashlib.sha256("\0".join(lock).encode()).hexdigest()[:16]
    folder = repository.private_folder / "envs" / digest
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    requirements = [word for line in settings.requirements for word in shlex.split(line)]
    _run_step([base, "-m", "venv", str(folder)], tree, {}, "making the environment")
    _run_step(
        [str(python), "-m", "pip", "install", _runner_requirement(), *requirements], tree, {}, "pip install"
    )
    (folder / "ready").touch()
    return str(python)


def _interpreter_version(python: str) -> str:
    try:
        return subprocess.run([python, "-VV"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        raise PerfciError(
            f"[environment] python: {python!r} does not run; give the path of a Python 3.11+"
        ) from None


def _runner_requirement() -> str:
    return f"asv_runner=={metadata.version('asv_runner')}"


def _read_lock_file(tree: Path, name: str) -> str:
    try:
        return (tree / name).read_text()
    except OSError:  # a commit without the file has another environment, and is measured all the same
        return ""


# ------------------------------------------------------------------ builds


def build_commit(
    repository: GitRepository, commit: Commit, tree: Path, python: str, settings: EnvironmentTable
) -> Path | None:
    """Run the configured build commands once per commit; they install into a folder of that commit."""
    if not settings.build:
        return None
    recipe = hashlib.sha256("\0".join([python, *settings.build]).encode()).hexdigest()[:8]
    folder = repository.private_folder / "builds" / f"{commit.sha}-{recipe}"
    target = folder / "target"
    if (folder / "ready").exists():
        return target
    shutil.rmtree(folder, ignore_errors=True)
    cache = folder / "wheels"
    for part in (target, cache):
        part.mkdir(parents=True)
    for command in settings.build:
        _run_build_command(command, tree, repository.root, python, target, cache, commit.sha)
    (folder / "ready").touch()
    return target


def _run_build_command(
    command: str, tree: Path, root: Path, python: str, target: Path, cache: Path, sha: str
) -> None:
    """Run one command in asv's notation: ``in-dir=DIR``, ``NAME=value`` and ``return-code=any`` may come
    first.
    """
    places = {
        "target": str(target),
        "build_dir": str(tree),
        "build_cache_dir": str(cache),
        "env_dir": str(Path(python).parent.parent),
        "conf_dir": str(root),
        "commit": sha,
    }
    words = _fill_placeholders(command, places, [str(path) for path in cache.glob("*.whl")])
    folder, variables, any_code = tree, {"PIP_TARGET": str(target)}, False
    while words and "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        if name == "in-dir":
            folder = Path(value)
        elif name == "return-code":
            any_code = value == "any"
        else:
            variables[name] = value
    if words:
        argv = [python if words[0] in ("python", "python3") else words[0], *words[1:]]
        _run_step(argv, folder, variables, "build", any_code=any_code)


def _fill_placeholders(command: str, places: dict[str, str], wheels: Sequence[str]) -> list[str]:
    """Split a command into words, with asv's placeholders filled in; ``{wheel_file}`` is the one wheel."""
    if "{wheel_file}" in command and len(wheels) != 1:
        raise BuildFailed(
            f"build: {len(wheels)} wheels in the cache where {{wheel_file}} needs exactly one", ""
        )
    wheel_file = wheels[0] if len(wheels) == 1 else ""
    try:
        return [word.format(**places, wheel_file=wheel_file) for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError) as error:
        raise PerfciError(
            f"[environment] build: {command!r} has a placeholder that is not known: {error}"
        ) from None


def _run_step(
    argv: list[str], folder: Path, variables: dict[str, str], step_name: str, *, any_code: bool = False
) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise BuildFailed(f"{step_name}: there is no program {argv[0]!r}", "") from None
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"{step_name} did not end within {BUILD_TIMEOUT_S:g} s", "") from None
    if done.returncode and not any_code:
        log = done.stdout[-LOG_TAIL:]
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        raise BuildFailed(f"{step_name} failed with code {done.returncode}: {last.strip()}", log)
