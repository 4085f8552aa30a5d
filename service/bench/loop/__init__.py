"""`rondo bench loop`: what a step of a run loop takes, beside other libraries in the same run.

Each run is a process of its own (`worker_process`), Rondo's (`loop_subject`) and the peers'
(`peers`) alike, in the frame of `bench_worker`; `loop_report` starts them in turn, and makes one
report of what they tell.
"""
