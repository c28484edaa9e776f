"""How a browser becomes somebody: by GitHub, or by a proxy that is trusted to say so."""
