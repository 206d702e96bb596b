"""Runs, steps and workers: durable execution."""
