"""The corridor: joins measuring, the store and the judge; each step short, none with logic of its own."""
