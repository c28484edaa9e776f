"""The pull requests that were measured, and the way from a number to its comparison."""
