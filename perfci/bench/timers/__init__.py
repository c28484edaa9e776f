"""Time functions: clocks, blocks, warm-up, stages and turn taking."""
