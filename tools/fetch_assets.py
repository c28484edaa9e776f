"""Fetch what pages load from others into ``web/perfci_web/static/vendor``: ``make assets``.

The file is committed, so an install needs neither npm nor a network. This program replaces it by the pinned
version of its npm package, and refuses an archive whose checksum is another than the pinned one.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "plotly.js-basic-dist-min"
VERSION = "4.1.1"
INTEGRITY = "sha512-1oNF8PeQx2hv/y7tqEVWKD3JGwn/MGEMQ8mL9HUwsaqG9FGy/OU5FHUHvzqbqxN4mnwZGI9abTiE775C4kkjMQ=="
"""``dist.integrity`` of the package in the npm registry."""

MEMBER = "package/plotly-basic.min.js"
TARGET = Path(__file__).parents[1] / "web/perfci_web/static/vendor" / f"plotly-basic-{VERSION}.min.js"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        archive = download_package(Path(folder))
        result = compute_integrity(archive)
        if result != INTEGRITY:
            print(f"{PACKAGE} {VERSION}: the checksum {INTEGRITY} was expected, {result} was downloaded")
            return 1
        TARGET.parent.mkdir(exist_ok=True)
        for old in TARGET.parent.glob("plotly-basic-*.min.js"):
            old.unlink()
        TARGET.write_bytes(read_archive_member(archive))
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
    return 0


def download_package(folder: Path) -> Path:
    """Download the archive of the package with npm."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{PACKAGE}@{VERSION}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.tgz"))


def compute_integrity(archive: Path) -> str:
    """The checksum of a file as npm writes it (Subresource Integrity)."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def read_archive_member(archive: Path) -> bytes:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(MEMBER)
        assert member is not None
        return member.read()


if __name__ == "__main__":
    sys.exit(main())
