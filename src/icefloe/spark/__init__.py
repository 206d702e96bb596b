"""Spark: Java, jars, the local Connect server, sessions."""
