"""`rondo setup`: choosing a model, trying it, and writing it into ``rondo.toml``.

`found` looks, `choice` is what is chosen, `menu` and `picker` ask for it, `typed` takes an address
and a key, `trying` makes the calls, `writing` changes the file; `wizard` leads a person through all
that, `scripted` a script, and `offer` is what the first chat asks.
"""
