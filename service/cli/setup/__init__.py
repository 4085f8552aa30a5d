"""`rondo setup`: choosing a model, trying it, and writing it into ``rondo.toml``.

`found_models` looks, `model_menu` and `setup_questions` ask, `setup_choice` is what is chosen: it
is tried and written. `wizard` leads a person through all that, `noninteractive` a script, and
`first_chat_offer` is what the first chat asks.
"""
