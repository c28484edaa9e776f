"""Build the GitHub App that the configuration names."""

from __future__ import annotations

from pathlib import Path

from perfci.config import Config
from perfci.github.app_auth import AppKey, GitHubApp
from perfci.model import PerfciError


def build_github_app(config: Config) -> GitHubApp:
    """Build the configured GitHub App and check that its key can sign."""
    table, pem = config.settings.app, config.secrets.app_private_key.get_secret_value()
    if not pem and not table.key_file:
        raise PerfciError(
            "[app] id names a GitHub App and there is no private key of it: set PERFCI_APP_PRIVATE_KEY, "
            "or key_file in [app], for the process that judges."
        )
    key = AppKey(table.id, pem or _read_private_key(config.root / table.key_file))
    key.sign_jwt(0)
    return GitHubApp(key, table.api)


def _read_private_key(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise PerfciError(f"The private key {path} of the GitHub App cannot be read: {error}") from None
