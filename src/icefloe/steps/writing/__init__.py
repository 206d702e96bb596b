"""``write:`` on a Spark step: the plan of :mod:`icefloe.planner`, made from the lake's metadata and carried out on Spark.

:mod:`facts` asks the lake what the planner has to know, :mod:`publication` is the attempt's branch, :mod:`execution` runs a plan on
it, :mod:`program` is the process that does so, :mod:`order` what it is told.
"""
