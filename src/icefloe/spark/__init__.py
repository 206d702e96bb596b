"""Spark: Java and jars, the project's local Connect server, sessions and short errors.

Importing this package imports neither ``pyspark`` nor anything heavy: the server's watchdog lives in it.
"""
