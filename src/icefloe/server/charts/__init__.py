"""Drawings as SVG, made here of values: no script, no style of their own, every text escaped. Each is shown beside its numbers."""
