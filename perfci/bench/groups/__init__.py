"""What ModelBench measures, one group of metrics a module: each runs the model once and reads everything it gives."""
