"""Every verb once: what the command line, REST and Python call."""
