"""From nothing to a server for a team, by the commands, settings and files that docs/operation.md gives."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from alembic import command
from alembic.config import Config

from perfci.formats import run_document
from perfci.store import migrate_schema, open_database
from tests.support import loopback_github_login
from tests.support.builders import a_result, a_run
from tests.support.built_wheel import find_or_build_wheel
from tests.support.documented_machine import DocumentedMachine, parse_settings, read_code_blocks
from tests.support.documented_proxies import SEARCH_PATH, make_certificate, nginx, running
from tests.support.reserved_ports import get_port_number, reserve_port
from tests.support.system_python import find_system_python, pip_environment
from tools.server_requirements import list_requirements

pytestmark = pytest.mark.slow

TWO_COMMANDS, SETTINGS, UNIT, ADMINISTER = read_code_blocks("A server in two commands")
INSTALL, SERVE = TWO_COMMANDS.splitlines()
SETTINGS_OF_THE_SHELL, CREATE_PROJECT, CREATE_TOKEN = ADMINISTER.splitlines()
(BACK_UP_AND_TRY,) = read_code_blocks("Backups")

WITHOUT_JUDGE = {"PERFCI_SERVER_PORT": "0", "PERFCI_SERVER_WORKER": "false"}
OLD_SCHEMA = "0015"
EMPTY = "This store is empty: nothing was measured yet."
MAX_EXPOSURE = 20
"""Tenths of what `systemd-analyze security` counts, where it calls 100 unsafe; a service that can be reached
by network has 5 for that."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> DocumentedMachine:
    """The first command was run. What it would download is borrowed from the environment of the tests."""
    machine = DocumentedMachine(tmp_path_factory.mktemp("machine"))
    wheel = find_or_build_wheel(tmp_path_factory)
    of_perfci = list_requirements(wheel)[-1]
    release(machine, wheel, [of_perfci])
    machine.run(INSTALL, PIP_NO_DEPS="1", PIP_NO_INDEX="1")
    (site,) = (machine.folder / "opt" / "perfci" / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return machine


def release(machine: DocumentedMachine, wheel: Path, requirements: list[str]) -> None:
    folder = machine.folder / "release"
    shutil.copy(wheel, folder)
    (folder / f"requirements-{wheel.name.split('-')[1]}.txt").write_text("\n".join(requirements))


def open_served_page(machine: DocumentedMachine) -> str:
    with machine.serving(SERVE, **WITHOUT_JUDGE) as line, httpx.Client(timeout=120) as browser:
        assert line.startswith("serving http://127.0.0.1:")
        return browser.get(line.split()[1], follow_redirects=True).text


def test_two_commands_install_and_serve(machine: DocumentedMachine) -> None:
    assert EMPTY in open_served_page(machine)


@pytest.mark.proof
def test_the_first_command_installs_all_that_the_second_one_needs(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = DocumentedMachine(tmp_path / "machine", find_system_python())
    wheel = find_or_build_wheel(tmp_path_factory)
    release(machine, wheel, list_requirements(wheel))

    machine.run(INSTALL, **pip_environment())
    machine.run(INSTALL, **pip_environment())  # as for an upgrade

    assert EMPTY in open_served_page(machine)


def test_systemd_accepts_the_unit_and_finds_it_hardened(machine: DocumentedMachine) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze, which Debian has: apt-get install systemd")
    unit = machine.folder / "perfci.service"
    unit.write_text(machine.inside(UNIT))

    verified, rated = (
        subprocess.run(["systemd-analyze", *options, str(unit)], capture_output=True, text=True)
        for options in (
            ["verify", "--man=no"],
            ["security", "--no-pager", "--offline=yes", f"--threshold={MAX_EXPOSURE}"],
        )
    )

    assert [line for line in verified.stderr.splitlines() if unit.name in line] == []
    assert rated.returncode == 0, rated.stdout


@dataclass(frozen=True)
class TeamServer:
    """The service, nginx before it, the browser of somebody who logged in, and what was printed so far."""

    machine: DocumentedMachine
    service: ExitStack
    browser: httpx.Client
    address: str
    cookies: list[str]
    created: str
    token: str
    uploaded: str

    @property
    def database(self) -> Path:
        return self.machine.folder / "var" / "lib" / "perfci" / "perfci.db"


@pytest.fixture(scope="module")
def team(machine: DocumentedMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamServer]:
    if shutil.which("nginx", path=SEARCH_PATH) is None:
        pytest.skip("needs nginx, which Debian has: apt-get install nginx")
    certificate = make_certificate(tmp_path_factory.mktemp("tls"))
    with ExitStack() as stack:
        github = stack.enter_context(loopback_github_login.served())
        front, back = (get_port_number(stack.enter_context(reserve_port())) for _ in range(2))
        address = f"https://127.0.0.1:{front}"
        settings = fill_in(address, back, github.address)
        write_settings(machine, settings)
        command = nginx(tmp_path_factory.mktemp("nginx"), front, f"127.0.0.1:{back}", certificate)
        stack.enter_context(running(command))
        service = stack.enter_context(ExitStack())
        service.enter_context(machine.service(UNIT))
        trusting = ssl.create_default_context(cafile=str(certificate.chain))
        browser = stack.enter_context(httpx.Client(base_url=address, verify=trusting, timeout=120))
        cookies = log_in(browser)
        created = machine.run(SETTINGS_OF_THE_SHELL + " && " + CREATE_PROJECT)
        token = machine.run(SETTINGS_OF_THE_SHELL + " && " + CREATE_TOKEN).strip()
        uploaded = upload(machine, address, token, certificate.chain)
        yield TeamServer(machine, service, browser, address, cookies, created, token, uploaded)


def fill_in(address: str, port: int, github: str) -> dict[str, str]:
    """The documented settings, with what everybody fills in."""
    return parse_settings(SETTINGS) | {
        "PERFCI_SERVER_PUBLIC_URL": address,
        "PERFCI_SERVER_PORT": str(port),
        "PERFCI_ACCESS_GITHUB_HOST": github,
        "PERFCI_ACCESS_GITHUB_CLIENT_ID": loopback_github_login.CLIENT,
        "PERFCI_GITHUB_CLIENT_SECRET": loopback_github_login.SECRET,
        "PERFCI_SECRET_KEY": "0123456789abcdef" * 4,
    }


def write_settings(machine: DocumentedMachine, settings: dict[str, str]) -> None:
    lines = [f"{name}={value}" for name, value in settings.items()]
    (machine.folder / "etc" / "perfci.env").write_text(machine.inside("\n".join(lines)) + "\n")


def log_in(browser: httpx.Client) -> list[str]:
    """Log in by GitHub as its user does; the cookies that the browser was given."""
    question = browser.get("/login/github").headers["Location"]
    answer = httpx.get(question).headers["Location"]
    return browser.get(answer).headers.get_list("Set-Cookie")


def upload(machine: DocumentedMachine, address: str, token: str, certificate: Path) -> str:
    """Upload from a machine that trusts the certificate."""
    (machine.folder / "home" / "run.json").write_text(
        run_document.dump_run(a_run(a_result(), project="acme/model"))
    )
    command = f"/opt/perfci/bin/perfci upload run.json --server {address}"
    return machine.run(command, folder="home", PERFCI_TOKEN=token, SSL_CERT_FILE=str(certificate))


def test_a_team_logs_in_uploads_and_reads_its_results(team: TeamServer) -> None:
    login = team.browser.get("/login").text
    page = team.browser.get("/acme:model/benchmarks").text

    assert "You are octocat." in login
    assert all("; Secure; HttpOnly; " in cookie for cookie in team.cookies)
    assert team.created == "created acme/model (private)\n"
    assert team.uploaded == f"1 run sent to {team.address}\n"
    assert "training.Step" in page


def test_an_admin_makes_a_project_and_a_token_in_the_browser(team: TeamServer) -> None:
    csrf = re.search(r'name="csrf" value="([^"]+)"', team.browser.get("/login").text)
    assert csrf
    headers = {"X-CSRF-Token": csrf[1], "Origin": team.address}

    project = team.browser.post("/api/v1/projects", json={"project": "acme/other"}, headers=headers)
    token = team.browser.post(
        "/api/v1/projects/acme:other/tokens",
        json={"name": "ci", "scopes": ["results:write"]},
        headers=headers,
    )
    forged = team.browser.post("/api/v1/projects", json={"project": "acme/third"})

    assert (project.status_code, token.status_code, forged.status_code) == (201, 201, 403)
    assert token.json()["secret"].startswith("pfciu_")
    assert "acme/other" in team.browser.get("/").text


def test_a_backup_of_the_running_service_is_restored_and_served(team: TeamServer) -> None:
    printed = team.machine.run(SETTINGS_OF_THE_SHELL + "\n" + BACK_UP_AND_TRY)
    restored = f"sqlite:///{team.machine.folder}/tmp/try.db"
    with (
        team.machine.serving(SERVE, folder="home", PERFCI_DB=restored, **WITHOUT_JUDGE) as line,
        httpx.Client(timeout=120, follow_redirects=True) as browser,
    ):
        address, _, token = line.split()[1].partition("?")
        browser.get(f"{address}?{token}")
        page = browser.get(f"{address}acme:model/benchmarks").text

    assert "is copied to perfci-backup.db" in printed
    assert printed.endswith("all checks passed\n")
    assert "training.Step" in page


def test_an_upgrade_keeps_results_and_logins(team: TeamServer) -> None:
    team.service.close()
    downgrade(f"sqlite:///{team.database}", OLD_SCHEMA)
    with pytest.raises(AssertionError, match="run `perfci db upgrade`"):
        team.machine.run(f"{SETTINGS_OF_THE_SHELL} && exec {SERVE}")
    with team.machine.service(UNIT):
        page = team.browser.get("/acme:model/benchmarks").text
        login = team.browser.get("/login").text

    assert "training.Step" in page
    assert "You are octocat." in login


def test_the_log_of_the_service_holds_no_secret(team: TeamServer) -> None:
    log = team.machine.service_log.read_text()
    cookies = [value for value in team.browser.cookies.values() if value]
    secrets = [team.token, loopback_github_login.SECRET, "gho_fake", "code=", *cookies]

    assert "POST /api/v1/runs 201" in log
    assert cookies
    assert [secret for secret in secrets if secret in log] == []


def downgrade(url: str, schema: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate_schema.MIGRATIONS))
    engine = open_database.make_engine(open_database.parse_database_url(url))
    with engine.execution_options(perfci_begin="IMMEDIATE").begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, schema)
    engine.dispose()
