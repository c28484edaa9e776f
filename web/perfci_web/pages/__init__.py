"""What each page shows, as values: one module per page, pure functions from what the store answered."""
