"""`rondo bench memory`: archiving and searching beside the raw floor, in the same run.

`texts` makes up run loops, `vectors` decides what the model embeds and what is drawn, `floor` is
the bare Chroma, `house` measures both in turn, and `report` makes one report of it.
"""
