"""One module for each benchmark tool whose result files are read."""
