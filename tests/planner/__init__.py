"""A corpus of SELECTs, kept exact by the write planner while their sources change at random."""
