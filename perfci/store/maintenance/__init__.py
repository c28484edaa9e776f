"""Maintain a database: migrate, check, back up, restore, prune."""
