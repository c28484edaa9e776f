"""A fake GitHub of each edition, which checks every request against GitHub's description of its API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from perfci.github.client import GitHubClient, open_github_client
from perfci.github.requester import GitHubRetryPolicy
from tests.support.github_openapi import HOSTS, Description, described
from tests.support.npm_packages import skip_without_npm
from tests.support.stateful_github import FakeGitHub, pull


@pytest.fixture(params=list(HOSTS))
def description(request: pytest.FixtureRequest) -> Description:
    return skip_without_npm(lambda: described(request.param))


@pytest.fixture
def hub(description: Description) -> Iterator[FakeGitHub]:
    """A repository acme/model with one open pull request, number 7."""
    hub = FakeGitHub(description, pulls=[pull()])
    yield hub
    assert hub.wrong == []


@pytest.fixture
def patience(hub: FakeGitHub) -> GitHubRetryPolicy:
    """Time passes only by waiting, and no chance has a part in it."""
    return GitHubRetryPolicy(now=lambda: hub.now_s, sleep=hub.sleep, random_fraction=lambda: 1.0)


@pytest.fixture
def client(hub: FakeGitHub, patience: GitHubRetryPolicy) -> GitHubClient:
    return open_github_client("t0ken", hub.description.base_url, retry_policy=patience, transport=hub)


@pytest.fixture(scope="session")
def app_keys() -> tuple[str, str]:
    """A private key as GitHub gives it out, and the public one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()
