"""``perfci serve`` as it is deployed: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from perfci.auth.tokens import hash_token_if_valid
from perfci.cli import run_cli
from perfci.cli.shared.supervised_process import STABLE_AFTER_S, SupervisedProcess
from perfci.formats import run_document
from tests.support.builders import a_result, a_run
from tests.support.deployed_server import serving
from tests.support.waiting import until


def of_session(process: subprocess.Popen[str]) -> list[str]:
    """What runs among the processes of a server: the words by which each was started."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "stat=,args=", "-s", str(process.pid)], capture_output=True, text=True
    ).stdout
    return [line for line in listed.splitlines() if not line.startswith("Z")]


def judges_of(process: subprocess.Popen[str]) -> set[str]:
    listed = subprocess.run(
        ["pgrep", "-s", str(process.pid), "-f", "judge-worker"], capture_output=True, text=True
    )
    return set(listed.stdout.split())


def fetch_url(url: str, token: str = "") -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=30) as response:
        return str(response.read().decode())


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_nothing_is_left_when_the_server_is_killed(working_folder: Path, workers: str) -> None:
    with serving(working_folder, "--workers", workers) as (process, url):
        assert until(lambda: any("judge-worker" in line for line in of_session(process)))
        assert until(lambda: json.loads(fetch_url(f"{url}readyz"))["status"] == "ready")

        process.kill()

        assert until(lambda: not of_session(process)), of_session(process)


@pytest.mark.slow
def test_only_who_has_the_printed_address_is_the_local_user(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", f"{working_folder}/state")
    (working_folder / "run.json").write_text(run_document.dump_run(a_run(a_result())))
    with serving(working_folder, "--no-worker", PERFCI_LOCAL_TOKEN="") as (process, url):
        (kept,) = (working_folder / "state" / "perfci").iterdir()
        mode, token = kept.stat().st_mode & 0o777, kept.read_text()
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch_url(f"{url}login")
        refused.value.close()
        page = fetch_url(f"{url}login", token)
        sent = run_cli(["upload", "run.json", "--server", url])
        process.send_signal(signal.SIGTERM)
        process.wait(60)

    assert (refused.value.code, mode, sent) == (401, 0o600, 0)
    assert "this browser may do everything" in page
    assert hash_token_if_valid(token)
    assert capsys.readouterr().out == f"1 run sent to {url.rstrip('/')}\n"
    assert not kept.exists()


def test_a_guessable_token_of_the_local_user_is_refused(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERFCI_LOCAL_TOKEN", "secret")

    assert run_cli(["serve", "--port", "0"]) == 2
    assert "PERFCI_LOCAL_TOKEN was expected to hold at least 16 letters" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_end_by_a_signal_and_count_together(working_folder: Path) -> None:
    with serving(working_folder, "--workers", "2", "--no-worker") as (process, url):
        for _ in range(20):
            fetch_url(f"{url}healthz")
        reply = fetch_url(f"{url}metrics")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert 'perfci_requests_total{method="GET",route="healthz",status="200"} 20.0' in reply
    assert (process.returncode, err) == (0, "")


@pytest.mark.slow
def test_restarts_a_judge_worker_that_died(working_folder: Path) -> None:
    with serving(working_folder) as (process, _):
        worker = f"pgrep -s {process.pid} -f judge-worker"
        assert until(lambda: subprocess.run(worker.split(), capture_output=True).stdout)
        first = subprocess.run(worker.split(), capture_output=True, text=True).stdout.split()

        os.kill(int(first[0]), signal.SIGKILL)

        assert until(
            lambda: (
                set(subprocess.run(worker.split(), capture_output=True, text=True).stdout.split()) - {*first}
            )
        )


@pytest.mark.slow
def test_logs_one_json_object_per_request_without_secrets(working_folder: Path) -> None:
    with serving(working_folder, "--no-worker", PERFCI_SERVER_LOG="json") as (process, url):
        request = urllib.request.Request(
            f"{url}api/v1/projects?token=pfciu_query", headers={"X-Request-Id": "request-7"}
        )
        request.add_header("Authorization", "Bearer pfciu_header")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    line = json.loads(err.splitlines()[0])
    assert (line["request_id"], line["status"], line["path"]) == ("request-7", 401, "/api/v1/projects")
    assert "pfciu_" not in err


@pytest.mark.slow
def test_a_server_without_logins_is_read_only_on_a_network(working_folder: Path) -> None:
    with serving(working_folder, "--host", "0.0.0.0", "--no-worker") as (process, url):
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}api/v1/projects", data=b"{}", timeout=30)
        refused.value.close()

    assert "because there is no login here" in lines[0]
    assert lines[1].startswith(
        "warning: listens on 0.0.0.0, beyond this machine, and what is sent there can be read"
    )
    assert refused.value.code in (403, 405)


def test_writing_without_logins_on_a_network_is_refused(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["serve", "--host", "0.0.0.0", "--writable"])

    assert code == 2
    assert "Whoever reaches 0.0.0.0 could write without a login: set [access] mode" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_explains_conflicting_settings_in_one_sentence(
    working_folder: Path, workers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERFCI_ACCESS_MODE", "github")

    code = run_cli(["serve", "--port", "0", "--workers", workers])

    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("perfci: ")
    assert "[access] github_client_id" in err


@pytest.mark.parametrize(
    ("ending", "expected_starts"),
    [
        (signal.SIGABRT, [0, 3, 8, 17, 34, 67, 128, 189, 250]),
        (signal.SIGKILL, list(range(0, 300, 2))),
        (signal.SIGTERM, list(range(0, 300, 2))),
    ],
)
def test_restarts_a_crashing_process_with_growing_delay(
    tmp_path: Path, ending: signal.Signals, expected_starts: list[int]
) -> None:
    now = [0.0]
    beside = SupervisedProcess(["no-such-verb"], {}, tmp_path, clock=lambda: now[0])
    starts = []

    def start_and_end() -> subprocess.Popen[bytes]:
        starts.append(now[0])
        process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
        process.send_signal(ending)
        process.wait()
        return process

    beside._start = start_and_end  # type: ignore[method-assign]
    for second in range(300):
        now[0] = float(second)
        beside.ensure_running()
    beside.stop()

    assert starts == expected_starts
    assert STABLE_AFTER_S == 60
