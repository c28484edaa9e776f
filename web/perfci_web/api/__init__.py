"""The API below ``/api/v1``: each route is an ``Operation``, from which everything else derives."""
