"""`rondo memory forget`: a preview, a question, and a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.commands.command_options import DateParameter, json_option
from service.cli.daemon.daemon_client import connect
from service.cli.daemon.stream_items import body_of, read_as

if TYPE_CHECKING:
    from service.cli.daemon.daemon_client import Daemon
    from service.domain.forgetting_terms import ForgetPreview

_WHEN_LOST = (
    "Start the daemon, and look at `rondo memory forget --receipts`: if it is not listed there,"
    " nothing was forgotten; run the same command again."
)


@click.command()
@click.option("--loop", "loops", metavar="ID", multiple=True, help="This run loop.")
@click.option("--anchor", "anchors", metavar="ANCHOR", multiple=True, help="What stands there.")
@click.option("--since", type=DateParameter(), help="Only from then on.")
@click.option("--until", type=DateParameter(), help="Only from before then.")
@click.option("--query", help="What a search for this finds.")
@click.option("--limit", type=click.IntRange(1, 100), default=8, show_default=True)
@click.option("--exact", is_flag=True, help="All that holds the words of --query just so.")
@click.option("--all", "everything", is_flag=True, help="Everything that is yours.")
@click.option("--with-answers", is_flag=True, help="Also answers that tell it.")
@click.option(
    "--with-all-that-saw", is_flag=True, help="Also all else that was said by who saw it."
)
@click.option("--stop", is_flag=True, help="Cancel what is active, and forget that, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--receipts", is_flag=True, help="Show what has been forgotten so far.")
@json_option
def forget(
    loops: tuple[str, ...],
    anchors: tuple[str, ...],
    since: str | None,
    until: str | None,
    query: str | None,
    limit: int,
    exact: bool,
    everything: bool,
    with_answers: bool,
    with_all_that_saw: bool,
    stop: bool,
    yes: bool,
    receipts: bool,
    as_json: bool,
) -> None:
    """Forget for good, after showing what would go.

    Without a terminal nothing is forgotten unless --yes is given. With --json and without --yes,
    the preview is printed, and nothing is forgotten.
    """
    from service.cli.daemon.daemon_errors import advice_when_lost
    from service.cli.terminal.output import aside, print_json
    from service.cli.views.forget_views import print_preview, print_receipt
    from service.cli.views.run_loop_ids import resolve
    from service.domain.forgetting_terms import ForgetPreview, ForgetReceipt
    from service.wire.memory_bodies import ForgetBody

    with connect() as daemon:
        if receipts:
            _show_receipts(daemon, as_json=as_json)
            return
        body = body_of(
            ForgetBody,
            run_loop_ids=[resolve(daemon, each) for each in loops],
            anchors=list(anchors),
            since=since,
            until=until,
            query=query,
            limit=limit,
            exact=exact,
            all=everything,
            with_answers=with_answers,
            with_all_that_saw=with_all_that_saw,
            stop=stop,
        )
        with advice_when_lost("Nothing was forgotten. Run the same command again."):
            response = daemon.post("/v1/memory/forget", body)
        preview = read_as(ForgetPreview, response)
        if as_json and not yes:
            print_json(response)
            return
        if not as_json:
            print_preview(preview, with_answers=with_answers, with_all_that_saw=with_all_that_saw)
        if not _is_agreed(preview, yes=yes):
            aside().print("Nothing was forgotten.", style="yellow")
            raise SystemExit(1)
        with advice_when_lost(_WHEN_LOST):
            confirmed = {**body, "confirm": preview.confirm}
            receipt = daemon.post("/v1/memory/forget", confirmed, takes_long=True)
    if as_json:
        print_json(receipt)
    else:
        print_receipt(read_as(ForgetReceipt, receipt))


def _is_agreed(preview: ForgetPreview, *, yes: bool) -> bool:
    """Whether a person has said a clear yes, here or with ``--yes``."""
    from service.cli.chat.human_questions import can_ask, confirmed
    from service.cli.terminal.output import aside

    if preview.confirm is None:
        return False
    if yes:
        return True
    if not can_ask():
        aside().print("No terminal to ask at: --yes says yes to this.", style="yellow")
        return False
    try:
        return confirmed("Forget all of this for good?")
    except (EOFError, KeyboardInterrupt):
        aside().print()
        return False


def _show_receipts(daemon: Daemon, *, as_json: bool) -> None:
    from service.cli.terminal.output import aside, print_json
    from service.cli.views.forget_views import print_receipt
    from service.wire.memory_bodies import ForgetReceipts

    response = daemon.get("/v1/memory/forget/receipts")
    if as_json:
        print_json(response)
        return
    receipts = read_as(ForgetReceipts, response).receipts
    if not receipts:
        aside().print("Nothing has been forgotten yet.", style="dim")
        return
    for each in receipts:
        print_receipt(each)
