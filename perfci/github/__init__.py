"""GitHub: what perfci asks of its API, how it proves who it is, and how a verdict gets onto a pull request."""
