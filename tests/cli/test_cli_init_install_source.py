"""What `perfci init` writes installs the perfci that wrote it, from where that came."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from perfci import __version__
from perfci.cli import init, run_cli
from perfci.scaffold.install_source import find_install_source, set_install_source
from perfci.scaffold.workflow_templates import MEASURE_WORKFLOW, REPORT_WORKFLOW
from tests.support.git_project import GitProject

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FROM_GIT = {"url": "https://example.com/perfci.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
SHA256 = "0" * 64
BARE_NAME = re.compile(r"pip install '?perfci(\[torch\S*\])?(?! @)'?(\s|`|$)")
FROM_WHEEL = {"url": "https://example.com/perfci.whl", "archive_info": {"hashes": {"sha256": SHA256}}}


@pytest.mark.parametrize(
    ("note", "source"),
    [
        (None, f"=={__version__}"),
        (FROM_GIT, f" @ git+https://example.com/perfci.git@{COMMIT}"),
        (FROM_WHEEL, f" @ https://example.com/perfci.whl#sha256={SHA256}"),
        ({"url": "file:///home/ada/perfci", "dir_info": {"editable": True}}, None),
        ({**FROM_GIT, "url": "https://example.com/$(id)"}, None),
        ({**FROM_GIT, "vcs_info": {"vcs": "git", "commit_id": "main"}}, None),
        ({"url": "https://example.com/perfci.whl", "archive_info": {}}, None),
    ],
)
def test_names_only_what_is_pinned(note: dict[str, object] | None, source: str | None) -> None:
    assert find_install_source(note and json.dumps(note)) == source


@pytest.mark.parametrize("text", [MEASURE_WORKFLOW, REPORT_WORKFLOW])
@pytest.mark.parametrize("source", [f" @ git+https://example.com/perfci.git@{COMMIT}", None])
def test_no_job_installs_a_bare_name(text: str, source: str | None) -> None:
    jobs = yaml.safe_load(set_install_source(text, source))["jobs"].values()
    commands = [step["run"] for job in jobs for step in job["steps"] if "pip install" in step.get("run", "")]

    assert len(commands) == text.count("pip install ")
    assert [command for command in commands if f" @ {'git+' if source else '${PERFCI_'}" not in command] == []


def test_init_writes_where_it_was_installed_from(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    GitProject(working_folder).commit("First", net="import torch\n")
    monkeypatch.setattr(init, "read_direct_url", lambda: json.dumps(FROM_GIT))

    assert run_cli(["init"]) == 0

    workflow = (working_folder / ".github/workflows/perf.yml").read_text()
    assert f"pip install 'perfci[torch] @ git+https://example.com/perfci.git@{COMMIT}'" in workflow
    assert f"perfci=={__version__}" not in workflow


def test_no_page_sends_a_reader_to_a_name_that_is_not_registered() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    installs = [line for page in pages for line in page.read_text().splitlines() if "pip install" in line]

    assert installs
    assert [line for line in installs if BARE_NAME.search(line)] == []
