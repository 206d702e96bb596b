"""Rows of data files, without files."""
