"""The proxies that docs/proxies.md configures, run as it says, with TLS on loopback."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text()
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin"


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and of its key."""

    chain: Path
    key: Path


def make_certificate(folder: Path) -> Certificate:
    """Write a certificate for 127.0.0.1 that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "perf")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "perf.pem", folder / "perf.key")
    certificate.chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return certificate


def documented(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.S)


def nginx(
    folder: Path, port: int, backend: str, certificate: Certificate, *, logs_in: bool = False
) -> list[str]:
    """The command that runs the documented configuration of nginx."""
    block, login = documented("nginx")
    if logs_in:
        block = re.sub(r"    location / \{.*?\n    \}\n", lambda _: login, block, count=1, flags=re.S)
    values = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name perf.example.com": "server_name 127.0.0.1",
        "/etc/ssl/perf.example.com.pem": str(certificate.chain),
        "/etc/ssl/perf.example.com.key": str(certificate.key),
        "/etc/nginx/perfci.htpasswd": str(folder / "htpasswd"),
        "http://127.0.0.1:8787": f"http://{backend}",
    }
    (folder / "htpasswd").write_text("ada:{PLAIN}lovelace\n")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; worker_processes 1; pid {folder}/pid; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{replaced(block, values)} }}"
    )
    return ["nginx", "-e", f"{folder}/error.log", "-p", str(folder), "-c", f"{folder}/nginx.conf"]


def caddy(
    folder: Path, port: int, backend: str, certificate: Certificate, *, logs_in: bool = False
) -> list[str]:
    """The command that runs the documented configuration of Caddy."""
    block, login = documented("caddyfile")
    if logs_in:
        block = re.sub(r"    reverse_proxy .*?\n    \}\n", lambda _: login, block, count=1, flags=re.S)
        hashed = subprocess.run(
            ["caddy", "hash-password", "--plaintext", "lovelace"], capture_output=True, text=True, check=True
        )
        block = block.replace("HASH", hashed.stdout.strip())
    values = {
        "perf.example.com {": (
            f"https://127.0.0.1:{port} {{\nbind 127.0.0.1\ntls {certificate.chain} {certificate.key}"
        ),
        "127.0.0.1:8787": backend,
    }
    # It would listen on port 80 for redirects, and on 2019 for its own administration.
    options = "{\nadmin off\nauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + replaced(block, values))
    return ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


def replaced(text: str, values: dict[str, str]) -> str:
    for before, after in values.items():
        text = text.replace(before, after)
    return text


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[None]:
    """Run a proxy by one of these commands until the block ends."""
    environment = {**os.environ, "PATH": SEARCH_PATH, "HOME": str(Path(command[-1]).parent)}
    program = shutil.which(command[0], path=SEARCH_PATH) or command[0]
    process = subprocess.Popen(
        [program, *command[1:]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
