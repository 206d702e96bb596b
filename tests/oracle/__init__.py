"""Random table histories on real Spark, compared with brute force."""
