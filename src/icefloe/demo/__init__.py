"""The demonstration: a pipeline of two stages with late events, run with a lookback window and incrementally."""
