"""Users, logins, tokens, bound repositories and the audit log."""
