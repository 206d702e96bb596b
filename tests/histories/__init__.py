"""Random histories of real Iceberg tables, made through Spark, with a shadow of every row kept in plain Python."""
