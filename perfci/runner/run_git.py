"""Run git in a folder, without a shell, without prompts, and without programs that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from git import Git, GitCommandNotFound
from git.exc import CommandError

from perfci.model import PerfciError

REPOSITORY_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)
"""What git sets for its hooks (`git rev-parse --local-env-vars`), and what would name another repository."""

ENVIRONMENT = {
    # https://git-scm.com/docs/git#_environment_variables: ask for no password, take no lock for refreshing
    # the user's index, which their own git may need meanwhile, know no transport that is a command (ext::).
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
}

NO_PROGRAMS = (
    "--no-pager",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "log.showSignature=false"),
    *("-c", "submodule.recurse=false"),
)
"""Filters of files (LFS) stay: what is measured depends on them."""


NO_COMMAND = 127
"""The exit code of `env` where the command is missing."""


def run_git(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Return the output without its last newline; the last line of an error output becomes the error."""
    variables = {**ENVIRONMENT, **(env or {})}
    # GitPython adds variables to the environment of this process; it cannot take any out.
    unwanted = [f"--unset={name}" for name in REPOSITORY_VARIABLES if name in os.environ.keys() - variables]
    try:
        output = Git(str(folder)).execute(
            [*(("env", *unwanted) if unwanted else ()), "git", *NO_PROGRAMS, *arguments],
            env=variables,
            stdout_as_string=False,
            strip_newline_in_stdout=True,
        )
    except CommandError as error:
        if isinstance(error, GitCommandNotFound) or error.status == NO_COMMAND:
            raise PerfciError("git was not found; install git 2.25 or newer and put it on the PATH") from None
        text = str(error.stderr).strip().removeprefix("stderr: ").strip("' \n")
        raise PerfciError(
            f"git {arguments[0]} failed: {text.splitlines()[-1] if text else error.status}"
        ) from None
    # Names of files and people may hold bytes that are no UTF-8.
    return output.decode("utf-8", "surrogateescape")
