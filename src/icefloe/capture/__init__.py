"""Consumers, captures and checkpoints: what a workflow has seen of its sources."""
