"""The demonstration: a playback table with late events, what changed in it, and a table of just that."""
