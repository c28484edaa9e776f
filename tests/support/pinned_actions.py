"""The actions that workflows use, at the commits they are pinned to: their inputs, and what does in their
place here.

The inputs are those of `https://github.com/NAME/blob/COMMIT/action.yml` (`restore/action.yml` for that
one), with the defaults that matter. A stand-in is a few lines of bash between folders: below ``HUB`` lie
the repository, what runs of workflows hand over, and caches. So checkout, artifact transport, caching and
setup-python themselves stay unproven.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Pinned:
    """``inputs`` lists names, with ``!`` where one is required and ``=`` before a default."""

    name: str
    commit: str
    tag: str
    inputs: str
    stand_in: str
    after: str = ""  # what it does when the job ends

    @property
    def uses(self) -> str:
        return f"{self.name}@{self.commit}"

    @property
    def named(self) -> frozenset[str]:
        return frozenset(self._defaults())

    @property
    def required(self) -> frozenset[str]:
        return frozenset(
            each_input.removesuffix("!") for each_input in self.inputs.split() if each_input.endswith("!")
        )

    def action(self) -> Mapping[str, Any]:
        """The stand-in as an ``action.yml``: each input is a variable of the script, IN_FETCH_DEPTH."""
        runs = {"using": "node20", "main": "main.js", "post": "after.js"} if self.after else self._composite()
        inputs = {name: {"description": name, "default": value} for name, value in self._defaults().items()}
        return {"name": self.name, "description": "a stand-in", "inputs": inputs, "runs": runs}

    def files(self) -> Mapping[str, str]:
        """A composite action cannot do anything when the job ends: that takes node, which starts the same
        bash.
        """
        made = {"action.yml": json.dumps(self.action())}
        if self.after:
            values = {self.variable(name): f"INPUT_{name}".upper() for name in self._defaults()}
            made |= {"main.js": _node(self.stand_in, values), "after.js": _node(self.after, values)}
        return made

    @staticmethod
    def variable(name: str) -> str:
        return f"IN_{name.upper().replace('-', '_')}"

    def _defaults(self) -> dict[str, str]:
        parts = (each_input.removesuffix("!").partition("=") for each_input in self.inputs.split())
        return {name: value for name, _, value in parts}

    def _composite(self) -> Mapping[str, Any]:
        values = {self.variable(name): f"${{{{ inputs.{name} }}}}" for name in self._defaults()}
        values |= {"THE_TOKEN": "${{ github.token }}"}
        return {"using": "composite", "steps": [{"shell": "bash", "env": values, "run": self.stand_in}]}


CLONE = r"""
git init --quiet . && git remote add origin "https://github.com/$GITHUB_REPOSITORY"
if [ "$IN_FETCH_DEPTH" = 0 ]; then
  git fetch --quiet "file://$HUB/repository" "$GITHUB_SHA" '+refs/heads/*:refs/remotes/origin/*'
else
  git fetch --quiet --depth "$IN_FETCH_DEPTH" "file://$HUB/repository" "$GITHUB_SHA"
fi
git checkout --quiet --detach "$GITHUB_SHA"
[ "$IN_PERSIST_CREDENTIALS" = false ] || git config http.https://github.com/.extraheader "basic $THE_TOKEN"
"""

FIND = r"""
like() { ls -t "$HUB/caches" | grep -m 1 "$1" || true; }
found=$(like "^$IN_KEY$")
[ -n "$found" ] || [ -z "$IN_RESTORE_KEYS" ] || found=$(like "^$IN_RESTORE_KEYS")
[ -z "$found" ] || { mkdir -p "$(dirname "$IN_PATH")" && cp -r "$HUB/caches/$found" "$IN_PATH"; }
"""

SAVE = r"""
[ ! -e "$IN_PATH" ] || cp -r "$IN_PATH" "$HUB/caches/$IN_KEY"
"""

SEND = r"""
kept="$HUB/artifacts/$GITHUB_RUN_ID/$IN_NAME"
if [ ! -e "$IN_PATH" ]; then test "$IN_IF_NO_FILES_FOUND" != error; exit; fi
if [ -e "$kept" ]; then echo "Conflict: an artifact with this name already exists"; exit 1; fi
mkdir -p "$(dirname "$kept")" && cp -r "$IN_PATH" "$kept" && find "$kept" -mindepth 1 -name '.*' -delete
"""

FETCH = r"""
kept="$HUB/artifacts/${IN_RUN_ID:-$GITHUB_RUN_ID}/$IN_NAME"
if [ ! -e "$kept" ]; then echo "Artifact not found for name: $IN_NAME"; exit 1; fi
mkdir -p "$IN_PATH" && cp -r "$kept/." "$IN_PATH"
"""

CACHE = "27d5ce7f107fe9357f9df03efb73ab90386fccae"

PINNED = (
    Pinned(
        "actions/checkout",
        "3d3c42e5aac5ba805825da76410c181273ba90b1",
        "v7.0.1",
        "repository ref token ssh-key ssh-known-hosts ssh-strict ssh-user persist-credentials=true path "
        "clean filter "
        "sparse-checkout sparse-checkout-cone-mode fetch-depth=1 fetch-tags show-progress lfs submodules "
        "set-safe-directory github-server-url allow-unsafe-pr-checkout",
        CLONE,
    ),
    Pinned(
        "actions/setup-python",
        "5fda3b95a4ea91299a34e894583c3862153e4b97",
        "v7.0.0",
        "python-version python-version-file cache architecture check-latest token cache-dependency-path "
        "update-environment allow-prereleases freethreaded pip-version",
        "true",
    ),
    Pinned(
        "actions/cache",
        CACHE,
        "v5.0.5",
        "path! key! restore-keys upload-chunk-size enableCrossOsArchive fail-on-cache-miss lookup-only "
        "save-always",
        FIND,
        SAVE,
    ),
    Pinned(
        "actions/cache/restore",
        CACHE,
        "v5.0.5",
        "path! key! restore-keys enableCrossOsArchive fail-on-cache-miss lookup-only",
        FIND,
    ),
    Pinned(
        "actions/upload-artifact",
        "bbbca2ddaa5d8feaa63e36b76fdaad77386f024f",
        "v7.0.0",
        "name=artifact path! if-no-files-found=warn retention-days compression-level overwrite "
        "include-hidden-files "
        "archive",
        SEND,
    ),
    Pinned(
        "actions/download-artifact",
        "3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c",
        "v8.0.1",
        "name artifact-ids path pattern merge-multiple github-token repository run-id skip-decompress "
        "digest-mismatch",
        FETCH,
    ),
    Pinned(
        "actions/attest",
        "1e69f48acb82d1966a394da916b4c1698aa569d6",
        "v4.2.2",
        "subject-path subject-digest subject-name subject-checksums subject-version sbom-path predicate-type "
        "predicate predicate-path push-to-registry create-storage-record show-summary github-token",
        "true",
    ),
    Pinned(
        "pypa/gh-action-pypi-publish",
        "cef221092ed1bacb1cc03d23a2d87d1d172e277b",
        "v1.14.0",
        "user password repository-url packages-dir verify-metadata skip-existing verbose print-hash "
        "attestations",
        "true",
    ),
)
BY_USE = {item.uses: item for item in PINNED}


def write_stand_ins(folder: Path, pinned: Iterable[Pinned] = PINNED) -> dict[str, Path]:
    """Their folders, by the repository and the commit that a workflow names."""
    result = {}
    for item in pinned:
        owner, name, *inside = item.name.split("/")
        root = folder / name
        place = root.joinpath(*inside)
        place.mkdir(parents=True, exist_ok=True)
        for file, text in item.files().items():
            (place / file).write_text(text)
        result[f"{owner}/{name}@{item.commit}"] = root
    return result


def _node(script: str, inputs: Mapping[str, str]) -> str:
    variables = ", ".join(f'{ours}: process.env["{theirs}"] ?? ""' for ours, theirs in inputs.items())
    return (
        'require("node:child_process").execFileSync("bash", ["-ec", '
        f'{json.dumps(script)}], {{ stdio: "inherit", env: {{ ...process.env, {variables} }} }});\n'
    )
