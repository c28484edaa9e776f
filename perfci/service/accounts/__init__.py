"""Accounts: tokens, members, projects and the repositories whose jobs may upload."""
