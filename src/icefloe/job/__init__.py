"""What user scripts import."""
