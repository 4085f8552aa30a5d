"""`rondo bench retrieval` and `relevance`: how well memory finds what is asked for, on data of
anybody's own, and whether it can tell that from what is merely the best of the rest.

`retrieval_dataset` reads a set, `evaluation_store` imports it into a fresh folder and asks each
query through the public search, `retrieval_metrics` judges the answers, `retrieval_report` makes
one report of it. `question_stores` asks stores what they can answer and what they cannot, for
`relevance_report`. `retrieval_command` has both commands.
"""
