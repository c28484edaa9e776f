"""Short links: ``/x/CODE`` leads to a page of this server."""
