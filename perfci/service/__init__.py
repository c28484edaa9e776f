"""The server's use cases: each joins the store, the judge and the outside, and none measures."""
