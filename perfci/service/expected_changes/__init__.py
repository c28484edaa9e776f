"""Expected changes: performance changes declared in pull requests or commit messages."""
