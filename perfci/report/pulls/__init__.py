"""Reports of a comparison to a pull request: comment, check run and commit status."""
