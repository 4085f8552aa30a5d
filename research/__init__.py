"""How the small models that come with the package are fitted, and their training data made.

Each module is a command: ``python -m research.routing.train_router --help``. Nothing in `service`
needs them, and they are no part of the wheel; benchmarks that anybody can run are in
`service.bench`.
"""
