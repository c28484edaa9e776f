"""Print the hashed requirements of a server: requirements/server.txt, and the wheel that was built."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

LOCKED = Path(__file__).parent.parent / "requirements" / "server.txt"


def list_requirements(wheel: Path) -> list[str]:
    """The lines of a file that pip installs a server from, perfci itself in the last one."""
    name, version = wheel.name.split("-")[:2]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return [*LOCKED.read_text().splitlines(), f"{name}=={version} --hash=sha256:{digest}"]


if __name__ == "__main__":
    print("\n".join(list_requirements(Path(sys.argv[1]))))
