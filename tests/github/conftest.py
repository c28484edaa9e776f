"""A fake GitHub of each edition, which holds every request against GitHub's own description of its API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from descriptions import HOSTS, Description, described
from fake_github import FakeGitHub, pull
from npm_files import NotAtHand

from perfci.github.calls import Patience
from perfci.github.client import Client, connect

T = TypeVar("T")


def asked_of_npm(read: Callable[[], T]) -> T:
    """A machine without npm skips, and says so; where ``PERFCI_TEST_NPM=required`` is set, that is a failure."""
    try:
        return read()
    except NotAtHand as error:
        if os.environ.get("PERFCI_TEST_NPM") == "required":
            pytest.fail(f"{error}; PERFCI_TEST_NPM=required asks for it")
        pytest.skip(str(error))


@pytest.fixture(params=list(HOSTS))
def description(request: pytest.FixtureRequest) -> Description:
    return asked_of_npm(lambda: described(request.param))


@pytest.fixture
def hub(description: Description) -> Iterator[FakeGitHub]:
    """A repository acme/model with one open pull request, number 7."""
    hub = FakeGitHub(description, pulls=[pull()])
    yield hub
    assert hub.wrong == []


@pytest.fixture
def patience(hub: FakeGitHub) -> Patience:
    """Time passes only by waiting, and no chance has a part in it."""
    return Patience(now=lambda: hub.now_s, sleep=hub.sleep, dice=lambda: 1.0)


@pytest.fixture
def client(hub: FakeGitHub, patience: Patience) -> Client:
    return connect("t0ken", hub.description.base_url, patience=patience, transport=hub)
