"""`rondo setup`: choosing a model, trying it, and writing it into ``rondo.toml``.

`found_models` looks, `setup_choice` is what is chosen, `model_menu` and `model_picker` ask for it,
`typed_endpoint` takes an address and a key, `model_trial` makes the calls, `settings_writing`
changes the file; `wizard` leads a person through all that, `noninteractive` a script, and
`first_chat_offer` is what the first chat asks.
"""
