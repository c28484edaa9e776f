"""The dashboard: pages that read the store and say what changed, by how much, and how far to believe it."""

from perfci_web.application import create_app
from perfci_web.server import serve

__all__ = ["create_app", "serve"]
