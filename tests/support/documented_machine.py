"""A machine that is set up as docs/operation.md says: a folder in which the paths of that page lie."""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from tests.support.waiting import WITHIN_S, until

PAGE = (Path(__file__).parents[2] / "docs" / "operation.md").read_text()
DOCUMENTED_PATHS = re.compile(r"(?<![\w.])/(opt/perfci|var/lib/perfci|etc/perfci\.env|tmp/try\.db)\b")
ON_PATH = "/opt/perfci/bin:/usr/bin:/bin"


def read_code_blocks(heading: str) -> list[str]:
    """The code blocks of a section of docs/operation.md."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```\w*\n(.*?)```", section, flags=re.S)


def parse_settings(text: str) -> dict[str, str]:
    """The variables of a file that both systemd and a shell read."""
    return dict(line.split("=", 1) for line in text.splitlines())


class DocumentedMachine:
    """An empty folder, an empty home, and a Python."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder, self.python = folder, python
        for name in ("release", "home", "tmp", "bin", "opt", "etc", "var/lib/perfci"):
            (folder / name).mkdir(parents=True)
        (folder / "bin" / "python3").symlink_to(python)

    def inside(self, text: str) -> str:
        """A text of the page with the paths of this machine, whose only user is the one of the tests."""
        return DOCUMENTED_PATHS.sub(rf"{self.folder}/\1", text.replace("runuser -u perfci -- ", ""))

    def run(self, command: str, *, folder: str = "release", **variables: str) -> str:
        """What a command prints; it has to succeed."""
        done = subprocess.run(
            ["sh", "-ec", self.inside(command)],
            cwd=self.folder / folder,
            env=self._environment(variables),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def serving(self, command: str, *, folder: str = "release", **variables: str) -> Iterator[str]:
        """The first line that a server prints, which ends with exit code 0 at the end of the block."""
        words = shlex.split(self.inside(command))
        with self._process(words, folder, variables, subprocess.PIPE) as process:
            assert process.stdout is not None
            yield process.stdout.readline()

    @property
    def service_log(self) -> Path:
        return self.folder / "service.log"

    @contextlib.contextmanager
    def service(self, unit: str) -> Iterator[None]:
        """Run what a unit of systemd says, from when it told systemd that it is ready."""
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(self.inside(unit))
        options = parser["Service"]
        address = self.folder / "notify"
        address.unlink(missing_ok=True)
        settings = parse_settings(Path(options["EnvironmentFile"]).read_text())
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications,
            self.service_log.open("a") as log,
        ):
            notifications.bind(str(address))
            notifications.settimeout(0.1)
            variables = {**settings, "NOTIFY_SOCKET": str(address)}
            command, folder = shlex.split(options["ExecStart"]), options["WorkingDirectory"]
            with self._process(command, folder, variables, log) as process:
                assert until(lambda: _is_ready(notifications) or process.poll() is not None)
                assert process.poll() is None, self.service_log.read_text()
                yield

    @contextlib.contextmanager
    def _process(
        self, command: list[str], folder: str, variables: Mapping[str, str], output: int | IO[str]
    ) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            command,
            cwd=self.folder / folder,
            env=self._environment(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            log, _ = process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0, log or self.service_log.read_text()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": f"{self.folder}/bin:{self.inside(ON_PATH)}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            **variables,
        }


def _is_ready(notifications: socket.socket) -> bool:
    """Whether a service said so, by the protocol of sd_notify(3)."""
    try:
        return notifications.recv(4096).startswith(b"READY=1\n")
    except TimeoutError:
        return False
