"""Who is calling: bearer tokens, GitHub logins, trusted proxies."""
