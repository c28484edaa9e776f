"""The API below ``/api/v1``: every route is one ``Operation``, and everything about a route derives from it."""
