"""Whether answers are worth reading: conversations with checks, through the daemon's own parts.

`dataset` reads them, `checks` tells whether an answer passes, `subject` and `bare` give answers,
and `report` puts it together.
"""
