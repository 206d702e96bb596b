"""Iceberg metadata, and nothing else: history, changes, ranges, change tables, pins. No JVM, no data file opened."""
