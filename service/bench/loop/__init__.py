"""`rondo bench loop`: what a step of a run loop takes, beside other libraries in the same run.

Each run is a process of its own (`worker`), Rondo's (`subject`, `crowd`) and the peers' (`peers`)
alike; `report` starts them in turn, and `figures` makes one report of what they tell.
"""
