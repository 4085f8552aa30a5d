"""Finding the language models that a person has already, and trying one.

==================  ==============================================================================
`providers`         the tables: public endpoints with their keys' variables, usual local ports
`offers`            what is found: servers, keys, and the models that they offer
`fetching`          one bounded request for JSON
`listing`           lists of models, in the forms in which servers tell them
`programs`          which program a local server is, and what it tells of its models by itself
`local`             the search on this machine
`trial`             one real call of a model, and one with a tool
==================  ==============================================================================

It stands with the agent, above `service.llm.factory`: it calls models through the same clients as
run loops do, and reads addresses and keys, of which `service.models` (weights) knows nothing.
"""
