"""`rondo bench memory`: archiving and searching beside the raw baseline, in the same run.

`memory_dataset` makes up run loops, and what stands for their vectors; `memory_subject` measures
Rondo and a bare Chroma in turn, and `memory_report` makes one report of it.
"""
