"""`rondo bench retrieval`: how well memory finds what is asked for, on data of anybody's own.

`retrieval_dataset` reads a set, `evaluation_store` imports it into a fresh folder, `ask_queries`
asks each query through the public search, `retrieval_metrics` judges the answers,
`retrieval_report` makes one report of it.
"""
