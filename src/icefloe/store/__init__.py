"""The state database: SQLite or PostgreSQL."""
