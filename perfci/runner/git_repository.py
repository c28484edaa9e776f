"""The one door to git: names to commits, commits to files, without touching the user's work tree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from git import Git, GitCommandError, GitCommandNotFound

from perfci.model import Commit, PerfciError
from perfci.runner.locks import folder_lock

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
TAG = "tag: "
FIELDS = "%H%x00%P%x00%aI%x00%cI%x00%an%x00%D%x00%s"


class Repository:
    """A user's repository, read only; everything perfci writes is below ``.perfci/``, which ignores itself."""

    def __init__(self, folder: Path) -> None:
        try:
            root = _git(folder, "rev-parse", "--show-toplevel")
        except PerfciError:
            raise PerfciError(
                f"{folder} is not inside a git repository; run perfci where the measured code is committed, "
                "or make one with: git init && git add . && git commit -m 'First commit'"
            ) from None
        self.root = Path(root)
        self.private = private_folder(self.root)

    @property
    def slug(self) -> str:
        """The origin's ``owner/name``; nothing without an origin."""
        try:
            url = self._git("remote", "get-url", "origin")
        except PerfciError:
            return ""
        return slug_of_url(url)

    @property
    def branch(self) -> str:
        """The branch checked out, or nothing on a detached head."""
        try:
            return self._git("symbolic-ref", "--short", "--quiet", "HEAD")
        except PerfciError:
            return ""

    @property
    def main_branch(self) -> str:
        """The default branch of the origin, as it was when it was cloned; nothing where that is not known."""
        try:
            return self._git("symbolic-ref", "--short", "--quiet", "refs/remotes/origin/HEAD").removeprefix("origin/")
        except PerfciError:
            return ""

    def resolve(self, revision: str) -> str:
        """Turn a revision as a user types it into a full sha; nothing that looks like an option gets past."""
        if revision.startswith("-") or not revision.strip():
            raise PerfciError(f"{revision!r} is no revision: a commit, branch or tag was expected, not an option")
        try:
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
        except PerfciError:
            raise PerfciError(
                f"there is no commit {revision!r} in {self.root}; give a branch, a tag or a sha that `git log` knows"
                + self._shallow_hint()
            ) from None

    def commit(self, sha: str) -> Commit:
        return self._commits(["--no-walk", _full(sha)])[0]

    def commits(self, revision_or_range: str) -> list[Commit]:
        """List one commit, or the first-parent commits of ``A..B`` oldest first (A itself excluded)."""
        if ".." not in revision_or_range:
            return [self.commit(self.resolve(revision_or_range))]
        start, dots, end = revision_or_range.partition("..")
        if end.startswith("."):
            raise PerfciError(
                f"{revision_or_range!r}: a three-dot range has no order to measure; write {start}..{end[1:]}"
            )
        base, head = self.resolve(start or "HEAD"), self.resolve(end or "HEAD")
        found = self._commits(["--first-parent", "--reverse", f"{base}{dots}{head}"])
        if not found:
            raise PerfciError(
                f"the range {revision_or_range} holds no commit: {start} already contains {end or 'HEAD'}"
            )
        return found

    def line(self, revision: str) -> list[Commit]:
        """List the first-parent commits that lead to a revision, oldest first."""
        return self._commits(["--first-parent", "--reverse", self.resolve(revision)])

    def messages(self, revision: str, line: str, most: int) -> list[tuple[Commit, str]]:
        """The newest first-parent commits that lead to a revision and have such a line (a basic regular expression, in
        any case), newest first, each with its whole message.
        """
        asked = (
            "log",
            "-z",
            "--first-parent",
            "--basic-regexp",
            "--regexp-ignore-case",
            f"--max-count={most}",
            f"--grep=^{line}",
        )
        found = self._git(*asked, f"--format={FIELDS}%x00%B%x00", self.resolve(revision), "--")
        return [(_parse("\0".join(one), ""), message) for *one, message in _records(found.split("\0"))]

    def tags(self) -> dict[str, tuple[str, ...]]:
        """The tags of every commit that has one."""
        names = "%(objectname) %(*objectname) %(refname:strip=2)"
        found: dict[str, tuple[str, ...]] = {}
        for line in self._git("for-each-ref", f"--format={names}", "refs/tags").splitlines():
            *objects, tag = line.split()  # of an annotated tag the second object is the commit
            found[objects[-1]] = (*found.get(objects[-1], ()), tag)
        return found

    def merge_base(self, one: str, other: str) -> str | None:
        try:
            return self._git("merge-base", _full(one), _full(other))
        except PerfciError:
            return None

    def content(self, sha: str, unseen: Sequence[str] = ()) -> str:
        """A digest of a commit's files without those that fit a pattern; ``*`` reaches into folders as well."""
        files = self._git("ls-tree", "-r", "-z", "--full-tree", _full(sha)).split("\0")
        kept = (one for one in files if not any(fnmatchcase(one.partition("\t")[2], pattern) for pattern in unseen))
        return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape")).hexdigest()

    def look_alike(self, one: Commit, other: Commit, unseen: Sequence[str]) -> bool:
        """Whether two commits differ only in files that fit a pattern; a changed working tree is like no other."""
        if one.sha == other.sha or one.dirty or other.dirty:
            return one.sha == other.sha
        return self.content(one.sha, unseen) == self.content(other.sha, unseen)

    def working_tree(self) -> Commit:
        """HEAD, or, where files differ from it, a commit of them made in perfci's own clone and marked dirty."""
        head = self.commit(self.resolve("HEAD"))
        with folder_lock(self.private):
            tree = self._tree_of_files(head.sha)
        if tree == self._git("rev-parse", head.sha + "^{tree}"):
            return head
        when = (head.committed_at or datetime.now(UTC)).isoformat()
        identity = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                    for what, value in (("NAME", "perfci"), ("EMAIL", "perfci@localhost"), ("DATE", when))}  # fmt: skip
        sha = _git(
            self._clone(), "commit-tree", tree, "-p", head.sha, "-m", "uncommitted changes",
            env=self._borrowed_objects() | identity,
        )  # fmt: skip
        return Commit(sha, "uncommitted changes", "", datetime.now(UTC), (head.sha,), self.branch, dirty=True)

    def checkout(self, sha: str) -> Path:
        """Write a commit's files below ``.perfci/trees`` (once) and return the folder."""
        tree = self.private / "trees" / _full(sha)
        if not (tree / ".git").exists():
            shutil.rmtree(tree, ignore_errors=True)
            clone = self._clone()
            _git(clone, "worktree", "prune")
            quietly = ("-c", "core.hooksPath=/dev/null")  # a hook of the user must not run here
            _git(clone, *quietly, "worktree", "add", "--detach", "--force", "--quiet", str(tree), sha)
        return tree

    def tracked(self, sha: str, path: str) -> bytes | None:
        """Read one file of a commit, or None where the commit does not have it."""
        try:
            return _git(self.root, "cat-file", "blob", f"{_full(sha)}:{path}").encode()
        except PerfciError:
            return None

    def _commits(self, arguments: Sequence[str]) -> list[Commit]:
        head = self.branch
        lines = self._git("log", f"--format={FIELDS}", *arguments, "--").splitlines()
        found = [_parse(line, head) for line in lines if line]
        if not found:
            return []
        position = int(self._git("rev-list", "--first-parent", "--count", found[-1].sha))
        return [replace(c, position=position - (len(found) - 1 - i)) for i, c in enumerate(found)]

    def _tree_of_files(self, head: str) -> str:
        """Write the tree of all files that git does not ignore, with an index and objects of perfci's own."""
        env = self._borrowed_objects() | {"GIT_INDEX_FILE": str(self._clone() / "working.index")}
        _git(self.root, "read-tree", head, env=env)
        _git(self.root, "add", "--all", env=env)
        return _git(self.root, "write-tree", env=env)

    def _borrowed_objects(self) -> dict[str, str]:
        common = Path(self._git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        return {
            "GIT_OBJECT_DIRECTORY": str(self._clone() / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(common / "objects"),
        }

    def _clone(self) -> Path:
        """A bare clone that borrows the user's objects: work trees are added to it, never to the user's repository."""
        clone = self.private / "clone.git"
        if not clone.exists():
            unfinished = self.private / "clone.partial"
            shutil.rmtree(unfinished, ignore_errors=True)
            _git(
                self.root, "clone", "--quiet", "--bare", "--shared", "--no-tags", "--", str(self.root), str(unfinished)
            )
            os.replace(unfinished, clone)
        return clone

    def _shallow_hint(self) -> str:
        shallow = self._git("rev-parse", "--is-shallow-repository") == "true"
        return " (this clone is shallow: fetch the whole history with `git fetch --unshallow`)" if shallow else ""

    def _git(self, *arguments: str) -> str:
        return _git(self.root, *arguments)


def private_folder(root: Path) -> Path:
    """Make ``.perfci/`` with a .gitignore that hides it, so that no user's commit ever picks it up."""
    folder = root / ".perfci"
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def slug_of_url(url: str) -> str:
    """``git@github.com:owner/name.git`` and ``https://host/owner/name`` -> ``owner/name``."""
    match = re.search(r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", url.strip())
    return match.group(1) if match and "://" not in match.group(1) else ""


def _records(fields: Sequence[str]) -> Iterator[Sequence[str]]:
    """What a log with NUL after each field and each commit tells: eight fields, and nothing behind them."""
    width = FIELDS.count("%x00") + 2
    return (fields[at : at + width] for at in range(0, len(fields) - width, width + 1))


def _parse(line: str, branch: str) -> Commit:
    sha, parents, _, committed, author, names, subject = line.split("\0", 6)
    tags = tuple(sorted(name.removeprefix(TAG) for name in names.split(", ") if name.startswith(TAG)))
    return Commit(sha, subject, author, datetime.fromisoformat(committed), tuple(parents.split()), branch, tags)


def _full(sha: str) -> str:
    if not FULL_SHA.fullmatch(sha):
        raise ValueError(f"a full sha was expected, got {sha!r}")
    return sha


def _git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run git without a shell and without prompts; its last line of complaint becomes ours."""
    try:
        out = Git(str(folder)).execute(
            ["git", *arguments],
            env={"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **(env or {})},
            strip_newline_in_stdout=True,
        )
    except GitCommandNotFound:
        raise PerfciError("git was not found; install git 2.25 or newer and put it on the PATH") from None
    except GitCommandError as error:
        text = str(error.stderr).strip().removeprefix("stderr: ").strip("' \n")
        raise PerfciError(f"git {arguments[0]} failed: {text.splitlines()[-1] if text else error.status}") from None
    return str(out)
