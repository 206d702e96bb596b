"""``write:`` on a Spark step: the plan of :mod:`icefloe.planner`, made from the lake's metadata and carried out on Spark.

:mod:`work` is what the step's process is told, :mod:`facts` asks the lake what the planner has to know, :mod:`execution` runs a plan
behind the fence. :mod:`metering` and :mod:`ledger` count what was read and written, :mod:`versions` looks whether the SELECT is still the
one that filled the target. :mod:`told` is what comes back, and :mod:`recording` puts it into the state database.
"""
