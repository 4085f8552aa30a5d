"""`rondo bench memory`: archiving and searching beside the raw baseline, in the same run.

`texts` makes up run loops, `vectors` decides what the model embeds and what is drawn, `baseline` is
the bare Chroma, `subject` measures both in turn, and `report` makes one report of it.
"""
