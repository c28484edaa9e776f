"""A throw-away git repository with a measured module and a suite."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

ISOLATED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class GitProject:
    """Files in, commits out."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **ISOLATED},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def commit(self, subject: str, **files: str) -> str:
        """Write files (``__`` in a name stands for ``/``, a missing suffix is .py) and commit everything."""
        for name, text in files.items():
            path = name.replace("__", "/")
            self.write(path if "." in path else path + ".py", text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")
