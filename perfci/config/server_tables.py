"""The tables of the service: store, server, access, GitHub App, client, notifications and retention."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, IPvAnyNetwork, SecretStr

from perfci.config.base import ConfigTable


class StoreTable(ConfigTable):
    """``[store]``: the database."""

    url: str = ""
    pool: int = Field(default=16, ge=1, le=1000)  # connections of one process to PostgreSQL


def _check_address(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https:// was expected")
    return text.rstrip("/")


HttpAddress = Annotated[str, AfterValidator(_check_address)]


class ServerTable(ConfigTable):
    """``[server]``: the addresses and limits of the server."""

    host: str = "127.0.0.1"
    port: int = Field(default=8787, ge=0, le=65535)  # 0 picks a free one
    workers: int = Field(default=1, ge=1, le=64)  # processes; more than one is served by gunicorn
    threads: int = Field(default=8, ge=1, le=256)  # of each process
    migrate: bool = False  # bring an older database to this version's schema before serving
    public_url: HttpAddress = ""  # what users type; behind a proxy it differs from host and port
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()  # whose X-Forwarded-* headers and proxy logins count
    max_body_mb: float = Field(default=8, gt=0, le=1024)  # of one upload as it is sent
    max_inflated_mb: float = Field(default=32, gt=0, le=4096)  # and unpacked
    uploads_per_minute_mb: float = Field(default=20, gt=0)  # of one project, for each process
    requests_per_minute: int = Field(default=600, ge=1)  # of one user, token or address, for each process
    log: Literal["text", "json"] = "text"
    worker: bool = True  # start the process that judges uploads
    # How long that process sleeps when nothing waits.
    judge_every_s: float = Field(default=1.0, gt=0, le=3600)


class AccessTable(ConfigTable):
    """``[access]``: logins and tokens."""

    mode: Literal["local", "open", "github", "proxy"] = "local"
    proxy_header: str = Field(default="X-Forwarded-User", pattern=r"^[A-Za-z0-9-]+$")
    github_client_id: str = ""
    github_host: HttpAddress = "https://github.com"
    github_issuer: HttpAddress = ""  # who signs the tokens of GitHub's jobs; empty = the one of github_host
    github_orgs: tuple[str, ...] = ()  # whose members may log in; empty = only who is a member of a project
    admins: tuple[str, ...] = ()  # who may do everything: github/NUMBER or proxy/NAME

    @property
    def issuer(self) -> str:
        """The issuer of GitHub's job tokens: one address for github.com, another for each GitHub
        Enterprise.
        """
        if self.github_host == "https://github.com":
            return self.github_issuer or "https://token.actions.githubusercontent.com"
        return self.github_issuer or f"{self.github_host}/_services/token"


class AppTable(ConfigTable):
    """``[app]``: the GitHub App."""

    # Client id or number; empty = this server is no App.
    id: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    key_file: str = ""  # the private key, where PERFCI_APP_PRIVATE_KEY does not hold it
    api: HttpAddress = "https://api.github.com"
    gate: Literal["advisory", "block"] = "advisory"


class ClientTable(ConfigTable):
    """``[client]``: the server that clients upload to."""

    server: HttpAddress = ""
    spool: str = ".perfci/spool"  # where results wait to be sent, from the repository's root
    give_up_after_s: float = Field(default=30, ge=0)  # then `perfci flush` goes on
    keep_days: float = Field(default=7, gt=0)  # older ones are reported, never dropped


class NotifyTable(ConfigTable):
    """``[notify]``: how notifications are sent."""

    smtp_host: str = ""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    smtp_user: str = ""
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = ""
    allow_networks: tuple[IPvAnyNetwork, ...] = ()  # that a webhook may reach beside the public network
    github_api: HttpAddress = "https://api.github.com"


class RetentionTable(ConfigTable):
    """``[retention]``: how long data is kept."""

    raw_days: int = Field(default=0, ge=0)  # then raw samples become summaries; 0 keeps them for ever


class Secrets(ConfigTable):
    """Secrets from the environment; no log, page or traceback shows them."""

    token: SecretStr = SecretStr("")  # PERFCI_TOKEN: what the client logs in with
    github_client_secret: SecretStr = SecretStr("")
    app_private_key: SecretStr = SecretStr("")
    app_webhook_secret: SecretStr = SecretStr("")
    app_webhook_secret_old: SecretStr = SecretStr("")  # holds as well, while the new one replaces it
    smtp_password: SecretStr = SecretStr("")
    secret_key: SecretStr = SecretStr("")  # signs cookies; empty = one is made and kept in the database
