"""Triggers and schedules: when a workflow starts."""
