"""Whether answers are worth reading: conversations with checks, through the daemon's own parts.

`answer_dataset` reads them, `answer_subject` gives answers, the daemon's and the bare model's,
`answer_checks` tells whether one passes, `answer_figures` counts, and `answer_report` puts it
together.
"""
