"""The static report: one HTML file that opens without a server and without network."""
