"""The page of one commit."""
