"""Changes that a pull request or a commit message announced before they were measured."""
