"""The dashboard: pages that read the store and say what changed, by how much, and how far to believe it."""

from perfci_web.application import create_app
from perfci_web.gunicorn_app import serve_workers
from perfci_web.server import serve

__all__ = ["create_app", "serve", "serve_workers"]
