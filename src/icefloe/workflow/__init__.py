"""Workflow definitions: text in, one typed model out. Pure."""
