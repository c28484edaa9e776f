"""Where this perfci was installed from, so that jobs install the same and no bare name of somebody else."""

from __future__ import annotations

import json
import re
from importlib import metadata

from perfci import __version__

PLAIN_URL = re.compile(r"https://[A-Za-z0-9._~/%+-]+")
"""Addresses that need no quoting in a shell and carry no credential."""
COMMIT_ID = re.compile(r"[0-9a-f]{40,64}")

INSTALL_FROM_VARIABLE = """\
      - env: # such as git+https://github.com/OWNER/perfci@COMMIT: perfci was installed from a folder here
          PERFCI_INSTALL: ${{{{ vars.PERFCI_INSTALL }}}}
        run: pip install "perfci{extras} @ ${{PERFCI_INSTALL:?set this variable of the repository}}\""""


INDEX_SOURCE = f"=={__version__}"
"""Right where pip found perfci on an index: then the name is registered there."""


def read_direct_url() -> str | None:
    """What pip noted about an install that was not from an index (PEP 610)."""
    return metadata.distribution("perfci").read_text("direct_url.json")


def find_install_source(direct_url: str | None) -> str | None:
    """Return what follows the name in a requirement; None for a folder, which no job can reach."""
    if direct_url is None:
        return INDEX_SOURCE
    note = json.loads(direct_url)
    url, commit = note.get("url", ""), note.get("vcs_info", {}).get("commit_id", "")
    checksum = note.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    if not PLAIN_URL.fullmatch(url):
        return None
    if note.get("vcs_info", {}).get("vcs") == "git" and COMMIT_ID.fullmatch(commit):
        return f" @ git+{url}@{commit}"
    return f" @ {url}#sha256={checksum}" if COMMIT_ID.fullmatch(checksum) else None


def set_install_source(workflow: str, source: str | None) -> str:
    """Let every job of a workflow install perfci from there."""
    for extras in ("", "[torch]"):
        pinned = f"perfci{extras}=={__version__}"
        line = re.compile(rf"      - run: pip install '?{re.escape(pinned)}'?$", re.MULTILINE)
        if source is None:
            replacement = INSTALL_FROM_VARIABLE.format(extras=extras)
        else:
            replacement = f"      - run: pip install 'perfci{extras}{source}'"
        workflow = line.sub(replacement, workflow)
    return workflow
