"""Sweeps of `weir sim` on Ray, their results as pandas tables, and the plots that are published.

`plan` asks `weir` what points a sweep has, `engine` plays them as Ray tasks, `results` reads folders of results, `plots`
draws. Times are nanoseconds, sizes bytes, rates bytes per second, as in the names of columns.
"""

from weir_sim.plan import Plan, Point, WeirError
from weir_sim.results import collectives, flows, points, ports, queues

__all__ = ["Plan", "Point", "WeirError", "collectives", "flows", "points", "ports", "queues"]
