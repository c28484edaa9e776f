"""Pull requests: results artifacts, reports, and what GitHub sends about them."""
