"""There is no container engine here, so the lines of the Dockerfile are run as they are, by a user who is
not root.

Its folders lie below a temporary one, and the environment is what the Dockerfile sets: no git, nothing of
the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfci.config.loader import SERVICE_TABLES, environment_variable_name
from perfci.config.settings import Settings
from tests.support.system_python import find_system_python, pip_environment

ROOT = Path(__file__).parent.parent
NOBODY = 65534
yaml = pytest.importorskip("yaml")


@dataclass(frozen=True)
class Instruction:
    word: str
    rest: str


def dockerfile() -> list[Instruction]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Instruction(*line.split(" ", 1)) for line in lines]


def of(word: str) -> list[str]:
    return [item.rest for item in dockerfile() if item.word == word]


def test_base_images_are_named_by_digest() -> None:
    (argument,) = of("ARG")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    images = [argument, *(service.get("image", "") for service in services.values())]

    pulled = [image for image in images if ":" in image]
    assert len(pulled) == 2
    assert [image for image in pulled if not re.search(r"@sha256:[0-9a-f]{64}\b", image)] == []


class Box:
    """The image: a folder that stands for its root, and somebody without rights who acts in it."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        for name in ("src", "opt", "bin", "tmp"):
            (folder / name).mkdir()
        (folder / "bin" / "python3").symlink_to(python)
        if os.geteuid() == 0:
            for name in ("src", "opt", "tmp", "."):
                shutil.chown(folder / name, NOBODY, NOBODY)

    def inside(self, text: str) -> str:
        return re.sub(r"(?<![\w.])/(opt/perfci|src|data)\b", rf"{self.folder}/\1", text)

    def copy_sources(self) -> None:
        for arguments in of("COPY"):
            if not arguments.startswith("--"):
                *names, target = arguments.split()
                for name in names:
                    self._copy(ROOT / name, self.folder / "src" / (name if target == "./" else target))

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)

    def start(self, argv: list[str], env: dict[str, str], cwd: str) -> subprocess.Popen[str]:
        drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.Popen(
            argv,
            env=env,
            cwd=self.folder / cwd,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **drop,
        )


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    python = find_system_python()
    folder = Path(tempfile.mkdtemp(prefix="perfci-box-"))
    folder.chmod(0o755)
    try:
        yield built(Box(folder, python))
    finally:
        shutil.rmtree(folder)


def built(box: Box) -> Box:
    box.copy_sources()
    path = f"{box.folder}/bin:/usr/bin:/bin"
    env = {
        "PATH": path,
        "HOME": str(box.folder / "tmp"),
        "TMPDIR": str(box.folder / "tmp"),
        **pip_environment(),
    }
    env["PIP_NO_COMPILE"] = "0"  # zero turns compiling off: the option stores a false
    for line in of("RUN"):
        process = box.start(["sh", "-c", box.inside(line)], env, "src")
        out, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, f"{line}\n{out}"
    return box


@pytest.mark.proof
def test_the_commands_of_the_dockerfile_install_and_serve_unprivileged(box: Box) -> None:
    env = {
        name: box.inside(value) for name, value in (pair.split("=", 1) for pair in shlex.split(of("ENV")[0]))
    }
    env |= {
        "PATH": f"{box.folder}/opt/perfci/bin",
        "PERFCI_SERVER_PORT": "0",
        "PERFCI_SERVER_HOST": "0.0.0.0",
    }

    server = box.start(json.loads(of("CMD")[0]), env, "data")
    try:
        url = first_line(server, "serving ").split()[1]
        ready = json.load(urllib.request.urlopen(f"{url}readyz", timeout=120))
        page = urllib.request.urlopen(url, timeout=120).read().decode()
    finally:
        server.send_signal(signal.SIGTERM)
        rest, _ = server.communicate(timeout=120)

    assert ready["status"] == "ready"
    assert "perfci" in page
    assert server.returncode == 0, rest
    assert (box.folder / "data" / "perfci.db").exists()


def first_line(server: subprocess.Popen[str], start: str) -> str:
    assert server.stdout is not None
    before = []
    end = time.monotonic() + 120
    while time.monotonic() < end:
        before.append(server.stdout.readline())
        if before[-1].startswith(start):
            return before[-1]
        assert before[-1], "".join(before)
    raise AssertionError("".join(before))


@pytest.mark.proof
def test_the_server_runs_without_git_and_without_torch(box: Box) -> None:
    installed = {path.name.split("-")[0].lower() for path in (box.folder / "opt").rglob("*.dist-info")}

    assert {"perfci", "flask", "psycopg", "gunicorn"} <= installed
    assert "torch" not in installed


def test_the_image_runs_as_an_unprivileged_user() -> None:
    assert of("USER") == ["10001:10001"]
    assert not any("apt" in line or "sudo" in line for line in of("RUN"))


def test_the_compose_file_is_valid() -> None:
    checker = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]

    checked = subprocess.run([*checker, str(ROOT / "compose.yaml")], capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_only_the_judge_reads_the_key_of_the_app() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]

    optional = {
        name: [entry["path"] for entry in services[name]["env_file"] if isinstance(entry, dict)]
        for name in ("app", "worker")
    }
    assert optional == {"app": ["app.env"], "worker": ["worker.env"]}


def test_the_image_takes_only_hashed_packages() -> None:
    installs = [line for line in of("RUN") if "pip install" in line]

    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


@pytest.mark.parametrize("name", ["server", "release"])
def test_hashed_requirements_are_the_versions_of_the_constraints(name: str) -> None:
    """`make lock` writes them anew."""
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), flags=re.M))
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.M))

    known = {_normalized(package): version for package, version in pins.items()}
    assert {p: v for p, v in locked.items() if known.get(_normalized(p), v) != v} == {}
    assert text.count("--hash=sha256:") >= len(locked)
    if name == "server":
        declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = declared["optional-dependencies"]
        needed = [*declared["dependencies"], *extras["login"], *extras["postgres"]]
        names = {_normalized(re.match(r"[\w.-]+", each)[0]) for each in needed}  # type: ignore[index]
        assert names <= {_normalized(package) for package in locked}


def _normalized(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_the_compose_file_sets_only_existing_settings() -> None:
    variables = {
        environment_variable_name(table, key)
        for table in SERVICE_TABLES
        for key in type(getattr(Settings(), table)).model_fields
    }

    named = set(
        re.findall(r"PERFCI_[A-Z_]+", (ROOT / "compose.yaml").read_text() + (ROOT / "Dockerfile").read_text())
    )

    assert named <= variables
