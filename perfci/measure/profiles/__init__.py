"""Profiles of commits, and what two of them explain."""
