"""The GitHub API: requests, authentication, webhooks, and reports on pull requests."""
