"""The write planner: one SELECT in, a plan that keeps the target exact out."""
