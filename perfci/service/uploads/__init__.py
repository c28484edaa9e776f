"""Runs: receive, send, import, export and prune them."""
