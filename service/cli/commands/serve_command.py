"""`rondo serve`: the daemon in the foreground."""

from __future__ import annotations

import click


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port.  [default: 8765]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Where everything is kept.",
)
@click.option("--verbose", is_flag=True, help="Log each step of each run loop: log_level debug.")
def serve(host: str | None, port: int | None, data_dir: str | None, verbose: bool) -> None:
    """Start the daemon, and stay until Ctrl-C.

    Flags come before RONDO_* variables, and these before rondo.toml; `rondo config` shows what is
    in effect.
    """
    from service.cli.weights.startup_notice import tell_what_it_takes
    from service.config import load_settings
    from service.server.daemon_main import serve as run_server

    listen = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    flags: dict[str, object] = {"server": listen} if listen else {}
    if data_dir is not None:
        flags["data_dir"] = data_dir
    if verbose:
        flags["log_level"] = "debug"
    settings = load_settings(**flags)
    tell_what_it_takes(settings)
    run_server(settings)
