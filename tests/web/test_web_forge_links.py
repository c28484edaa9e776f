"""Links of pages to the forge that hosts the repository of a project."""

from collections.abc import Iterator

import pytest
from page_reading import P, read
from pydantic import ValidationError
from web_builders import NOW, PROJECT, STEP, a_commit, a_store, fill

from perfci.config import AccessTable, ForgeTable, Settings
from perfci.store import Store
from perfci.store.projects import find_project, update_project
from perfci_web import create_app
from perfci_web.forge_links import build_forge_links

SHA, OTHER = "c9eb16a", "2cace96"
GITLAB = "https://gitlab.example.com/group/sub/tiny-lm"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = a_store(tmp_path_factory.mktemp("forge"))
    fill(store, commits=STEP + 1)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("repository", "name", "commit", "diff", "pull_request", "blame"),
    [
        (
            "https://github.com/acme/lm.git",
            "GitHub",
            "/commit/c9eb16a",
            "/compare/2cace96...c9eb16a",
            "/pull/12",
            "/blame/c9eb16a/src/a%20b.py",
        ),
        (
            "https://gitlab.com/acme/lm",
            "GitLab",
            "/-/commit/c9eb16a",
            "/-/compare/2cace96...c9eb16a",
            "/-/merge_requests/12",
            "/-/blame/c9eb16a/src/a%20b.py",
        ),
        (
            "https://bitbucket.org/acme/lm",
            "Bitbucket",
            "/commits/c9eb16a",
            "/branches/compare/c9eb16a%0D2cace96#diff",
            "/pull-requests/12",
            "/annotate/c9eb16a/src/a%20b.py",
        ),
        (
            "https://codeberg.org/acme/lm",
            "Gitea",
            "/commit/c9eb16a",
            "/compare/2cace96...c9eb16a",
            "/pulls/12",
            "/blame/commit/c9eb16a/src/a%20b.py",
        ),
    ],
)
def test_knows_the_addresses_of_each_forge(
    repository: str, name: str, commit: str, diff: str, pull_request: str, blame: str
) -> None:
    forge = build_forge_links(ForgeTable(repository=repository))
    root = repository.removesuffix(".git")

    assert forge.name == name
    assert forge.commit(SHA) == root + commit
    assert forge.diff(OTHER, SHA) == root + diff
    assert forge.pull_request(12) == root + pull_request
    assert forge.blame(SHA, "src/a b.py") == root + blame


def test_own_patterns_say_how_an_unknown_forge_addresses() -> None:
    table = ForgeTable(repository="https://code.acme.dev/lm", commit="{repository}/+/{sha}")

    forge = build_forge_links(table)

    assert (forge.name, forge.commit(SHA)) == ("code.acme.dev", "https://code.acme.dev/lm/+/c9eb16a")
    assert forge.diff(OTHER, SHA) == forge.pull_request(1) == ""


@pytest.mark.parametrize("name", ["", "v1.2", "c9eb16a+", "../../login", "c9eb16a?x", "C9EB16A"])
def test_links_no_commit_whose_name_is_no_sha(name: str) -> None:
    assert build_forge_links(ForgeTable(repository="https://github.com/acme/lm")).commit(name) == ""


@pytest.mark.parametrize("key", ["repository", "commit", "diff", "pull_request", "blame"])
def test_refuses_an_address_that_is_no_web_address(key: str) -> None:
    with pytest.raises(ValidationError, match="an address that begins with http"):
        ForgeTable.model_validate({key: "javascript:alert(1)"})


def test_a_page_links_the_forge_of_its_project(store: Store) -> None:
    page = f"{P}/commit/{a_commit(STEP).sha}"
    enterprise = Settings(access=AccessTable(github_host="https://github.acme.dev"))

    assert 'rel="noreferrer"' not in read(create_app(store, clock=lambda: NOW).test_client(), page)
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        update_project(tx, project.id, repository="acme/lm")
    html = read(create_app(store, clock=lambda: NOW, settings=enterprise).test_client(), page)
    assert f'<a href="https://github.acme.dev/acme/lm/commit/{a_commit(STEP).sha}"' in html
    with store.begin() as tx:
        update_project(tx, project.id, settings={"forge": {"repository": GITLAB}})
    html = read(create_app(store, clock=lambda: NOW, settings=enterprise).test_client(), page)
    assert f'<a href="{GITLAB}/-/commit/{a_commit(STEP).sha}" rel="noreferrer">on GitLab</a>' in html
