"""`rondo bench loop`: what a step of a run loop takes, beside other libraries in the same run.

Each run is a process of its own (`bench_worker`), Rondo's (`loop_subject`, `concurrent_loops`) and
the peers' (`peers`) alike; `loop_report` starts them in turn, and `loop_figures` makes one report
of what they tell.
"""
