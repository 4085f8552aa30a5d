"""Whether answers are worth reading: conversations with checks, through the daemon's own parts.

`answer_dataset` reads them, `answer_checks` tells whether an answer passes, `answer_subject` and
`bare_model` give answers, and `answer_report` puts it together.
"""
