"""Read-only access to a git repository: commits, tags, and checkouts outside the user's work tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from perfci.model import Commit, PerfciError
from perfci.runner.locks import folder_lock
from perfci.runner.run_git import run_git

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
TAG_PREFIX = "tag: "
LOG_FORMAT = "%H%x00%P%x00%aI%x00%cI%x00%an%x00%D%x00%s"


class GitRepository:
    """A user's repository, read only; perfci writes below ``.perfci/`` alone, which git ignores."""

    def __init__(self, folder: Path) -> None:
        try:
            root = run_git(folder, "rev-parse", "--show-toplevel")
        except PerfciError:
            raise PerfciError(
                f"{folder} is not inside a git repository; run perfci where the measured code is committed, "
                "or make one with: git init && git add . && git commit -m 'First commit'"
            ) from None
        self.root = Path(root)
        self.private_folder = ensure_perfci_folder(self.root)

    @property
    def origin_slug(self) -> str:
        """The origin's ``owner/name``; nothing without an origin."""
        try:
            url = self._run_git("remote", "get-url", "origin")
        except PerfciError:
            return ""
        return parse_repository_slug(url)

    @property
    def current_branch(self) -> str:
        """The branch checked out, or nothing on a detached head."""
        try:
            return self._run_git("symbolic-ref", "--short", "--quiet", "HEAD")
        except PerfciError:
            return ""

    @property
    def origin_default_branch(self) -> str:
        """The default branch of the origin, as it was when it was cloned; nothing where that is not known."""
        try:
            return self._run_git(
                "symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD"
            ).removeprefix("origin/")
        except PerfciError:
            return ""

    def resolve_revision(self, revision: str) -> str:
        """Turn a revision as a user types it into a full sha; reject what looks like an option."""
        if revision.startswith("-") or not revision.strip():
            raise PerfciError(
                f"{revision!r} is no revision: a commit, branch or tag was expected, not an option"
            )
        try:
            return self._run_git(
                "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"
            )
        except PerfciError:
            raise PerfciError(
                f"there is no commit {revision!r} in {self.root}; give a branch, a tag or a sha "
                "that `git log` knows" + self._shallow_hint()
            ) from None

    def read_commit(self, sha: str) -> Commit:
        return self._log_commits(["--no-walk", _require_full_sha(sha)])[0]

    def fetch_commit(self, sha: str) -> Commit:
        """Read a commit that somebody else named, fetched from the origin if this clone lacks it."""
        if not self._has_commit(sha):
            # By its id where the origin allows that, else with all its branches.
            for wanted in ((sha,), ()):
                with contextlib.suppress(PerfciError):
                    self._run_git(
                        "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", "origin", *wanted
                    )
                if self._has_commit(sha):
                    break
            else:
                raise PerfciError(
                    f"There is no commit {sha[:12]} in {self.root}, and its origin has none: push it there, "
                    "and order it again."
                )
        return self.read_commit(sha)

    def _has_commit(self, sha: str) -> bool:
        try:
            self._run_git("cat-file", "-e", _require_full_sha(sha) + "^{commit}")
        except PerfciError:
            return False
        return True

    def list_commit_or_range(self, revision_or_range: str) -> list[Commit]:
        """List one commit, or the first-parent commits of ``A..B`` oldest first (A itself excluded)."""
        if ".." not in revision_or_range:
            return [self.read_commit(self.resolve_revision(revision_or_range))]
        start, dots, end = revision_or_range.partition("..")
        if end.startswith("."):
            raise PerfciError(
                f"{revision_or_range!r}: a three-dot range has no order to measure; write {start}..{end[1:]}"
            )
        base, head = self.resolve_revision(start or "HEAD"), self.resolve_revision(end or "HEAD")
        commits = self._log_commits(["--first-parent", "--reverse", f"{base}{dots}{head}"])
        if not commits:
            raise PerfciError(
                f"the range {revision_or_range} holds no commit: {start} already contains {end or 'HEAD'}"
            )
        return commits

    def list_first_parent_commits(self, revision: str) -> list[Commit]:
        """List the first-parent commits that lead to a revision, oldest first."""
        return self._log_commits(["--first-parent", "--reverse", self.resolve_revision(revision)])

    def list_tags_by_commit(self) -> dict[str, tuple[str, ...]]:
        """The tags of every commit that has one."""
        names = "%(objectname) %(*objectname) %(refname:strip=2)"
        tags: dict[str, tuple[str, ...]] = {}
        for line in self._run_git("for-each-ref", f"--format={names}", "refs/tags").splitlines():
            *objects, tag = line.split()  # of an annotated tag the second object is the commit
            tags[objects[-1]] = (*tags.get(objects[-1], ()), tag)
        return tags

    def find_merge_base(self, first: str, second: str) -> str | None:
        try:
            return self._run_git("merge-base", _require_full_sha(first), _require_full_sha(second))
        except PerfciError:
            return None

    def hash_files_except(self, sha: str, ignored_files: Sequence[str] = ()) -> str:
        """Hash a commit's files without those that match a pattern; ``*`` matches ``/`` as well."""
        files = self._run_git("ls-tree", "-r", "-z", "--full-tree", _require_full_sha(sha)).split("\0")
        kept = (
            entry
            for entry in files
            if not any(fnmatchcase(entry.partition("\t")[2], pattern) for pattern in ignored_files)
        )
        return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape")).hexdigest()

    def differ_only_in_ignored_files(
        self, first: Commit, second: Commit, ignored_files: Sequence[str]
    ) -> bool:
        """Whether two commits differ only in ignored files; a dirty working tree equals no other commit."""
        if first.sha == second.sha or first.dirty or second.dirty:
            return first.sha == second.sha
        return self.hash_files_except(first.sha, ignored_files) == self.hash_files_except(
            second.sha, ignored_files
        )

    def snapshot_working_tree(self) -> Commit:
        """HEAD, or a dirty commit of the changed files, made in perfci's own clone."""
        head = self.read_commit(self.resolve_revision("HEAD"))
        with folder_lock(self.private_folder):
            tree = self._write_tree(head.sha)
        if tree == self._run_git("rev-parse", head.sha + "^{tree}"):
            return head
        # The date of HEAD, not of now: equal changes get one sha, and so one build.
        when = (head.committed_at or datetime.now(UTC)).isoformat()
        identity = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", "perfci"), ("EMAIL", "perfci@localhost"), ("DATE", when))
        }
        sha = run_git(
            self._private_clone(),
            "commit-tree",
            tree,
            "-p",
            head.sha,
            "-m",
            "uncommitted changes",
            env=self._object_variables() | identity,
        )
        now, branch = datetime.now(UTC), self.current_branch
        return Commit(sha, "uncommitted changes", "", now, (head.sha,), branch, dirty=True)

    def export_commit_files(self, sha: str) -> Path:
        """Write a commit's files below ``.perfci/trees`` (once) and return the folder."""
        tree = self.private_folder / "trees" / _require_full_sha(sha)
        if not (tree / ".git").exists():
            shutil.rmtree(tree, ignore_errors=True)
            clone = self._private_clone()
            # A tree whose folder was deleted by hand is still registered, and could not be added again.
            run_git(clone, "worktree", "prune")
            run_git(clone, "worktree", "add", "--detach", "--force", "--quiet", "--", str(tree), sha)
        return tree

    def _log_commits(self, arguments: Sequence[str]) -> list[Commit]:
        head = self.current_branch
        lines = self._run_git("log", f"--format={LOG_FORMAT}", *arguments, "--").splitlines()
        commits = [_parse_commit(line, head) for line in lines if line]
        if not commits:
            return []
        # The position of a commit is the length of its first-parent history, so it never changes.
        last_position = int(self._run_git("rev-list", "--first-parent", "--count", commits[-1].sha))
        first_position = last_position - (len(commits) - 1)
        return [replace(commit, position=first_position + i) for i, commit in enumerate(commits)]

    def _write_tree(self, head: str) -> str:
        """Write the tree of all files that git does not ignore, with an index and objects of perfci's own."""
        env = self._object_variables() | {"GIT_INDEX_FILE": str(self._private_clone() / "working.index")}
        run_git(self.root, "read-tree", head, env=env)
        run_git(self.root, "add", "--all", env=env)
        return run_git(self.root, "write-tree", env=env)

    def _object_variables(self) -> dict[str, str]:
        common = Path(self._run_git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        return {
            "GIT_OBJECT_DIRECTORY": str(self._private_clone() / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(common / "objects"),
        }

    def _private_clone(self) -> Path:
        """A bare clone that shares the user's objects; work trees are added to it, not to the repository."""
        clone = self.private_folder / "clone.git"
        if not clone.exists():
            unfinished = self.private_folder / "clone.partial"
            shutil.rmtree(unfinished, ignore_errors=True)
            run_git(
                self.root,
                "clone",
                "--quiet",
                "--bare",
                "--shared",
                "--no-tags",
                "--",
                str(self.root),
                str(unfinished),
            )
            os.replace(unfinished, clone)
        return clone

    def _shallow_hint(self) -> str:
        shallow = self._run_git("rev-parse", "--is-shallow-repository") == "true"
        return (
            " (this clone is shallow: fetch the whole history with `git fetch --unshallow`)"
            if shallow
            else ""
        )

    def _run_git(self, *arguments: str) -> str:
        return run_git(self.root, *arguments)


def ensure_perfci_folder(root: Path) -> Path:
    """Make ``.perfci/`` with a .gitignore that hides it, so that no user's commit ever picks it up."""
    folder = root / ".perfci"
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def parse_repository_slug(url: str) -> str:
    """``git@github.com:owner/name.git`` and ``https://host/owner/name`` -> ``owner/name``."""
    match = re.search(r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", url.strip())
    return match.group(1) if match and "://" not in match.group(1) else ""


def _parse_commit(line: str, branch: str) -> Commit:
    sha, parents, _, committed, author, names, subject = line.split("\0", 6)
    tags = tuple(
        sorted(name.removeprefix(TAG_PREFIX) for name in names.split(", ") if name.startswith(TAG_PREFIX))
    )
    return Commit(
        sha, subject, author, datetime.fromisoformat(committed), tuple(parents.split()), branch, tags
    )


def _require_full_sha(sha: str) -> str:
    if not FULL_SHA.fullmatch(sha):
        raise ValueError(f"a full sha was expected, got {sha!r}")
    return sha
