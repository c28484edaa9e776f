"""``perfci token`` and ``perfci project`` on the local store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfci.auth.tokens import TOKEN_IN_TEXT_PATTERN, hash_token_if_valid
from perfci.cli import run_cli
from perfci.store import open_store
from perfci.store.access import audit_log
from perfci.store.projects import find_project


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFCI_DB", f"sqlite:///{tmp_path}/perfci.db")
    monkeypatch.setenv("PERFCI_PROJECT", "acme/model")
    assert run_cli(["project", "create", "acme/model"]) == 0
    return tmp_path


def run_captured(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = run_cli(list(arguments))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_prints_a_new_token_alone_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_captured(
        capsys, "token", "create", "--scope", "results:write", "--name", "nightly"
    )

    assert (status, bool(hash_token_if_valid(out.strip()))) == (0, True)
    assert TOKEN_IN_TEXT_PATTERN.search(err) is None


def test_lists_tokens_without_showing_them(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run_captured(
        capsys, "token", "create", "--scope", "results:write", "--scope", "results:read", "--expires", "7d"
    )

    _, shown, _ = run_captured(capsys, "token", "list")
    _, fields, _ = run_captured(capsys, "token", "list", "--json")

    assert shown.split()[3:6] == ["results:read", "results:write", f"…{text.strip()[-4:]}"]
    assert TOKEN_IN_TEXT_PATTERN.search(shown + fields) is None
    assert json.loads(fields)[0]["created_by"] == "local"


def test_says_that_there_are_no_projects(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERFCI_DB", f"sqlite:///{working_folder}/empty.db")
    run_captured(capsys, "project", "create", "acme/other")
    run_captured(capsys, "delete", "project", "acme/other", "--yes")

    listed = run_captured(capsys, "project", "list")[1]

    assert listed == "no projects: `perfci project create NAME` makes one\n"


def test_revokes_a_token_of_this_project_only(capsys: pytest.CaptureFixture[str]) -> None:
    run_captured(capsys, "token", "create", "--scope", "admin")
    uid = json.loads(run_captured(capsys, "token", "list", "--json")[1])[0]["uid"]

    assert run_captured(capsys, "token", "revoke", uid, "--all-projects")[0] == 2
    assert run_captured(capsys, "token", "revoke", uid)[1] == f"token {uid} is revoked\n"
    assert run_captured(capsys, "token", "list")[1].split()[1] == "revoked"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--expires", "400d"], "A token lives for 1 to 365 days, not 400."),
        (["--expires", "soon"], "A number of days was expected, such as 90d, not 'soon'."),
        (
            ["--project", "none"],
            "There is no project none in this store: make it with `perfci project create none`.",
        ),
    ],
)
def test_explains_invalid_token_options(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    status, out, err = run_captured(capsys, "token", "create", "--scope", "admin", *arguments)

    assert (status, out, err) == (2, "", f"perfci: {sentence}\n")


def test_makes_a_project_public(capsys: pytest.CaptureFixture[str], working_folder: Path) -> None:
    assert (
        run_captured(capsys, "project", "set", "acme/model", "--visibility", "public")[1]
        == "acme/model is public\n"
    )
    assert run_captured(capsys, "project", "list")[1] == "public   acme/model\n"

    store = open_store(f"sqlite:///{working_folder}/perfci.db", create=False)
    with store.read() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        lines = audit_log.list_entries(tx, project.id)
    store.close()
    assert [(line.actor, line.action, line.detail) for line in lines] == [
        ("local", "project.set", {"visibility": "public"}),
        ("local", "project.create", {"visibility": "private"}),
    ]


def test_stores_the_policy_tables_of_a_project(
    capsys: pytest.CaptureFixture[str], working_folder: Path
) -> None:
    (working_folder / "bars.toml").write_text(
        '[project]\nname = "x"\n[judge]\nbar = 0.1\n[[policy]]\nmatch = "tpot"\nbar = 0.2\n'
    )

    changed = run_captured(capsys, "project", "set", "acme/model", "--judged-by", "bars.toml")[1]
    stored_tables = json.loads(run_captured(capsys, "project", "list", "--json")[1])[0]["settings"]
    again = run_captured(capsys, "project", "set", "acme/model", "--judged-as-others")[1]

    assert changed == "acme/model is private; judged by its own [judge] and [policy]\n"
    assert stored_tables == {"judge": {"bar": 0.1}, "policy": [{"match": "tpot", "bar": 0.2}]}
    assert again == "acme/model is private\n"


def test_rejects_policy_tables_with_a_misspelt_key(
    capsys: pytest.CaptureFixture[str], working_folder: Path
) -> None:
    (working_folder / "bars.toml").write_text("[judge]\nbarr = 0.1\n")

    status, _, err = run_captured(capsys, "project", "set", "acme/model", "--judged-by", "bars.toml")

    assert (status, err) == (2, "perfci: bars.toml: unknown key 'judge.barr'; did you mean 'bar'?\n")


def test_grants_and_withdraws_a_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_captured(capsys, "project", "grant", "proxy/ada", "sheriff")[1]
        == "proxy/ada is sheriff of acme/model\n"
    )
    assert run_captured(capsys, "project", "members")[1] == "sheriff  proxy/ada  ada\n"
    assert run_captured(capsys, "project", "withdraw", "proxy/ada")[1] == "proxy/ada is no longer a member\n"
    assert run_captured(capsys, "project", "withdraw", "proxy/ada")[0] == 2


def test_requires_the_numeric_github_id_of_a_member(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run_captured(capsys, "project", "grant", "github/octocat", "admin")

    assert err == (
        "perfci: GitHub gives names to others when somebody leaves: expected the number, as in "
        "github/583231, not 'github/octocat'. It is the id that https://api.github.com/users/NAME shows.\n"
    )


BIND = ("project", "bind", "acme/model", "--repository-id", "1296269", "--owner-id", "583231")


def test_binds_a_project_to_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    bound = run_captured(capsys, *BIND, "--environment", "perf", "--ref", "main", "--ref", "refs/tags/v1")

    _, shown, _ = run_captured(capsys, "project", "repository")
    _, fields, _ = run_captured(capsys, "project", "repository", "--json")

    assert bound == (0, "jobs of .github/workflows/perf.yml in acme/model may upload to acme/model\n", "")
    assert shown.splitlines() == [
        "repository   acme/model (id 1296269, owner 583231)",
        "workflow     .github/workflows/perf.yml",
        "environment  perf",
        "history from refs/heads/main, refs/tags/v1",
    ]
    assert json.loads(fields)["repository_id"] == 1296269


def test_unbinds_a_project_once(capsys: pytest.CaptureFixture[str]) -> None:
    run_captured(capsys, *BIND)

    assert run_captured(capsys, "project", "unbind")[:2] == (0, "no jobs may upload to acme/model any more\n")
    assert run_captured(capsys, "project", "unbind")[::2] == (
        2,
        "perfci: acme/model is not bound to a repository.\n",
    )


def test_requires_numeric_ids_to_bind_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run_captured(capsys, *BIND[:-1], "0")

    assert (status, error) == (
        2,
        "perfci: GitHub's numbers were expected: https://api.github.com/repos/acme/model shows id and "
        "owner.id.\n",
    )
