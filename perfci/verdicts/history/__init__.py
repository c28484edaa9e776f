"""Change points on the history of a series, and what explains them."""
