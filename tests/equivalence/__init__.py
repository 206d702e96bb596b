"""Random incremental pipelines against a full recomputation, after every micro-batch."""
