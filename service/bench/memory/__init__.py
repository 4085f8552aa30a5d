"""`rondo bench memory`: archiving and searching beside the raw baseline, in the same run.

`generated_texts` makes up run loops, `drawn_vectors` decides what the model embeds and what is
drawn, `memory_baseline` is the bare Chroma, `memory_subject` measures both in turn, and
`memory_report` makes one report of it.
"""
