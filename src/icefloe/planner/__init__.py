"""The write planner: one SELECT and what its tables are like in, a plan to keep the target exact at the least cost out.

Pure: nothing here opens a file, a table or a session, and the same inputs give the same plan. The road through the package:
:mod:`query` reads the text and finds the tables in it, :mod:`influence` works out which rows of the result a changed source
row can touch, :mod:`choice` takes the cheapest pattern that this proves sound, :mod:`statements` writes the SQL.
"""
