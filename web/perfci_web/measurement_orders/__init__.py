"""Measurement orders: the page that lists them, and the forms that place and cancel them."""
