"""Results whose unit is unknown: the page that shows them and takes what they mean."""
