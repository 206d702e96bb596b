"""Fuzzers that run as long as they are told to; a short run with a fixed seed is part of the unit tests."""
