"""Names to commits, commits to files, and the user's repository left as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perfci.model import PerfciError
from perfci.runner.git_repository import GitRepository, parse_repository_slug
from tests.support.git_project import GitProject


def test_lists_a_range_along_the_first_parents(project: GitProject) -> None:
    first = project.commit("First", thing="A = 1\n")
    project.git("checkout", "--quiet", "-b", "side")
    project.commit("On the side", side="B = 1\n")
    project.git("checkout", "--quiet", "main")
    second = project.commit("Second", thing="A = 2\n")
    project.git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")

    commits = GitRepository(project.folder).list_commit_or_range(f"{first}..main")

    assert [(c.subject, c.position, c.branch) for c in commits] == [
        ("Second", 2, "main"),
        ("Merge side", 3, "main"),
    ]
    assert commits[0].sha == second


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        ("nowhere", "there is no commit 'nowhere' in "),
        ("--output=x", "'--output=x' is no revision: a commit, branch or tag was expected, not an option"),
        ("--upload-pack=touch x", "'--upload-pack=touch x' is no revision"),
        ("HEAD..HEAD", "the range HEAD..HEAD holds no commit: HEAD already contains HEAD"),
        ("HEAD...HEAD", "'HEAD...HEAD': a three-dot range has no order to measure; write HEAD..HEAD"),
        ("  ", "'  ' is no revision"),
    ],
)
def test_rejects_a_revision_that_names_no_commit(project: GitProject, revision: str, sentence: str) -> None:
    project.commit("First", thing="A = 1\n")

    with pytest.raises(PerfciError) as caught:
        GitRepository(project.folder).list_commit_or_range(revision)

    assert str(caught.value).startswith(sentence)
    assert not (project.folder / "x").exists()


def test_explains_what_to_do_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(
        PerfciError, match="is not inside a git repository; run perfci where the measured code"
    ):
        GitRepository(tmp_path)


def test_checks_a_commit_out_without_touching_the_users_repository(project: GitProject) -> None:
    first = project.commit("First", thing="A = 1\n")
    project.commit("Second", thing="A = 2\n")
    before = (
        project.git("status", "--porcelain"),
        project.git("worktree", "list"),
        project.git("branch", "--all"),
    )

    tree = GitRepository(project.folder).export_commit_files(first)

    assert (tree / "thing.py").read_text() == "A = 1\n"
    assert (
        project.git("status", "--porcelain"),
        project.git("worktree", "list"),
        project.git("branch", "--all"),
    ) == before


def test_takes_the_working_tree_as_a_dirty_commit(project: GitProject) -> None:
    head = project.commit("First", thing="A = 1\n")
    repository = GitRepository(project.folder)
    clean = repository.snapshot_working_tree()
    project.write("thing.py", "A = 3\n")
    project.write("new.py", "B = 1\n")

    dirty = repository.snapshot_working_tree()

    assert (clean.sha, clean.dirty) == (head, False)
    assert (dirty.dirty, dirty.parents, dirty.short_sha[-1]) == (True, (head,), "+")
    assert (repository.export_commit_files(dirty.sha) / "thing.py").read_text() == "A = 3\n"
    assert (repository.export_commit_files(dirty.sha) / "new.py").exists()
    assert project.git("status", "--porcelain").splitlines() == ["M thing.py", "?? new.py"]
    missing = subprocess.run(
        ["git", "cat-file", "-e", dirty.sha], cwd=project.folder, capture_output=True, check=False
    )
    assert missing.returncode != 0, "the dirty commit's objects belong into perfci's own clone"


def test_runs_no_hook_of_the_user(project: GitProject, tmp_path: Path) -> None:
    sha = project.commit("First", thing="A = 1\n")
    hook = project.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)

    GitRepository(project.folder).export_commit_files(sha)

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("git@github.com:owner/name.git", "owner/name"),
        ("https://github.com/owner/name", "owner/name"),
        ("https://user@host.example/group/sub/name.git/", "sub/name"),
        ("/some/folder/name", "folder/name"),
        ("nothing", ""),
    ],
)
def test_reads_the_slug_of_an_origin(url: str, slug: str) -> None:
    assert parse_repository_slug(url) == slug


def test_knows_the_tags_of_commits_annotated_or_not(project: GitProject) -> None:
    first = project.commit("First", thing="A = 1\n")
    project.git("tag", "v1.0")
    project.git("tag", "--annotate", "release/1", "--message", "One")
    project.commit("Second", thing="A = 2\n")
    repository = GitRepository(project.folder)

    assert repository.list_tags_by_commit() == {first: ("release/1", "v1.0")}
    assert [commit.tags for commit in repository.list_first_parent_commits("main")] == [
        ("release/1", "v1.0"),
        (),
    ]
