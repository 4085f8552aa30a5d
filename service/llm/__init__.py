"""Language models behind one protocol.

============  ====================================================================================
`remote`      what all endpoints have in common
`openai`      an endpoint that speaks chat completions, near or far
`anthropic`   a Claude model by Anthropic's own API; needs the extra ``anthropic``
`embedded`    a small model in a process of our own: the default, without any account
`scripted`    models for tests and demonstrations
`discovery`   finding the models that a person has already
============  ====================================================================================

`factory` makes the one that the settings name; `named_models` knows which stands in for which.
"""
