"""Runs that come in and go out: receive, send, import, export and prune them."""
