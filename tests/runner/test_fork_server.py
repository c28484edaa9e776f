"""What the other tests fork in place of starting it: it tells a benchmark what a start from nothing tells."""

from __future__ import annotations

import os
import subprocess

import pytest
from runner.conftest import a_runner

from perfci.runner.fork_server_client import ForkServerClient
from perfci.runner.suite_cells import expand_cells
from tests.support.git_project import GitProject
from tests.support.warm_environments import (
    START_ENVIRONMENT,
    ForkedProcess,
    WarmParent,
    select_import_variables,
)

SUITE = """
    import os, signal, sys, threading
    from asv_runner.benchmarks.mark import SkipNotImplemented

    def track_surroundings():
        variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        threads, ignored = threading.active_count(), signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
        raise SkipNotImplemented(repr((sorted(sys.modules), variables, sys.flags, threads, ignored)))
"""


@pytest.fixture(autouse=True)
def variables_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some that imports read are left by the tests before, such as where torch's compiler keeps what it
    made.
    """
    for name in select_import_variables(os.environ):
        monkeypatch.delenv(name)
    for name, value in select_import_variables(START_ENVIRONMENT).items():
        monkeypatch.setenv(name, value)


def describe_environment(
    project: GitProject, parent: type[ForkServerClient], monkeypatch: pytest.MonkeyPatch
) -> list[object]:
    monkeypatch.setattr("perfci.runner.measurement_runner.ForkServerClient", parent)
    with a_runner(project) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        cells = expand_cells(runner.discover_suite(commit.sha).benchmarks.values(), "", 10)
        ((outcome, _),) = runner.visit_commit(commit.sha, cells)
        (started,) = runner._parents.values()
        return [started.hello, outcome.status, outcome.reason, type(started._process)]


def test_a_forked_environment_equals_a_fresh_interpreter(
    project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.commit("First", benchmarks__suite=SUITE)

    *cold, started = describe_environment(project, ForkServerClient, monkeypatch)
    *warm, forked = describe_environment(project, WarmParent, monkeypatch)

    assert warm == cold
    assert (started, forked) == (subprocess.Popen, ForkedProcess)


def test_variables_that_imports_read_require_a_fresh_interpreter(
    project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.commit("First", benchmarks__suite=SUITE)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    *_, started = describe_environment(project, WarmParent, monkeypatch)

    assert started is subprocess.Popen
