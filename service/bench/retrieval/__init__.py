"""`rondo bench retrieval`: how well memory finds what is asked for, on data of anybody's own.

`dataset` reads a set, `store` imports it into a fresh folder, `asking` asks each query through the
public search, `metrics` judges the answers, `report` makes one report of it.
"""
