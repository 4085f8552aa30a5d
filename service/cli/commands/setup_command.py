"""`rondo setup`: finds models, tries one, and writes it into rondo.toml."""

from __future__ import annotations

import click

from service.cli.commands.command_options import json_option


@click.command()
@click.option(
    "--use",
    metavar="WHERE",
    help="Choose without questions: `embedded`, a provider such as `openai`, a program that runs"
    " here such as `ollama`, or an address.",
)
@click.option("--model", default="", metavar="NAME", help="With --use: which model.")
@click.option(
    "--key-env", default="", metavar="VARIABLE", help="With --use: the variable that holds the key."
)
@click.option("--no-try", is_flag=True, help="With --use: write it without calling it first.")
@click.option("--yes", is_flag=True, help="With --use: write it without asking.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True, max=600),
    default=1.0,
    metavar="SECONDS",
    help="How long servers here have to answer; 1 by default.",
)
@json_option
def setup(
    use: str | None,
    model: str,
    key_env: str,
    no_try: bool,
    yes: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Find the models there are, try one, and write it into rondo.toml.

    Looks for servers on this machine (Ollama, LM Studio, llama.cpp and others) and for keys in the
    environment; asks which model to use, calls it, and shows what would change before it writes.
    `--json` only lists what there is. Without a terminal and without --use nothing is written, and
    the exit code is 2.
    """
    from service.cli.chat.human_questions import can_ask
    from service.cli.settings_edit import file_to_change
    from service.cli.setup import found_models, noninteractive, wizard
    from service.config import usable_settings

    if use is None and (model or key_env or no_try or yes):
        raise click.UsageError("--model, --key-env, --no-try and --yes go with --use.")
    if use is not None and as_json:
        raise click.UsageError("--json lists what there is; it does not go with --use.")
    settings = usable_settings()
    if as_json:
        from service.cli.terminal.output import print_json

        file = str(file_to_change(settings))
        print_json(found_models.as_json(found_models.look(settings, wait), file))
    elif use is not None:
        noninteractive.set_up(
            settings,
            use,
            model=model,
            key_env=key_env,
            tries=not no_try,
            yes=yes,
            seconds=wait,
        )
    elif can_ask():
        wizard.run_wizard(settings, seconds=wait)
    else:
        noninteractive.show_found(settings, wait)
        raise SystemExit(2)
