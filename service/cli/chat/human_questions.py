"""Asking the person at the terminal what a run loop wants to know, and sending the answer.

It fails closed: only a clear yes is a yes, and when the terminal goes away nothing is answered.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

from service.cli.chat.argument_editor import ask_line, edit_arguments, pretty, read_object
from service.cli.chat.chat_help import is_command
from service.cli.chat.yes_limits import ask_for_limits
from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import RefusedError
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.stream_items import Json, read_as
from service.cli.terminal.output import aside, plain, short_id, visible
from service.cli.views.difference_view import show_difference
from service.domain.conversation.messages import ToolCall
from service.domain.errors import InvalidInputError
from service.domain.history.approval_rules import Narrowing, rule_in_words
from service.domain.history.human_input import InputRequired
from service.wire.run_loop_bodies import RunLoopDetails

YES = frozenset(("y", "yes", "j", "ja", "是", "好", "同意"))
NO = frozenset(("n", "no", "nein", "否", "不", "不要"))
ALWAYS = frozenset(("a", "always", "总是"))
LOOP = frozenset(("l", "loop"))
EDIT = frozenset(("e", "edit", "改"))
NARROW = frozenset(("w", "within", "限"))
_LONGEST_SLIP = 6  # bytes that may be a key which was missed
ONE_BY_ONE = frozenset(("o", "one"))


def can_ask() -> bool:
    """Whether a person sits at this terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class SaidInsteadError(Exception):
    """A person in a chat has said something that is no answer: it is theirs to say all the same."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


def ask(request: InputRequired, *, in_chat: bool = False) -> Json | None:
    """Put a request to the person; None when they would rather not answer now.

    An end of input (Ctrl-D) or an interrupt (Ctrl-C) is no answer, and so never a yes.

    Args:
        request: what is asked.
        in_chat: whether they can say something else, too: a command, or words to somebody else.

    Raises:
        SaidInsteadError: they did; the request is left as it is.
    """
    show_request(request)
    try:
        answer = _ask(request, in_chat=in_chat)
    except (EOFError, KeyboardInterrupt):
        aside().print()
        return None
    return {**answer, "request_id": request.request_id}


def show_request(request: InputRequired) -> None:
    """Write what is asked, with the whole of the calls that wait."""
    aside().print()
    if request.kind == "approve":
        several = len(request.tool_calls) > 1
        words = f"May these {len(request.tool_calls)} calls run?" if several else "May this run?"
        aside().print(words, style="bold yellow")
    else:
        aside().print(plain(request.prompt), style="bold yellow")
    for call in request.tool_calls:
        _show_call(call, request.previews.get(call.id))
        if call.id in request.descriptions:
            aside().print(f"  {plain(request.descriptions[call.id])}", style="bold")
        if call.id in request.rules:
            aside().print(f"  {plain(_rule(call, request.rules[call.id]))}", style="dim")
    for warning in request.warnings:
        aside().print(plain(warning), style="bold red")
    for number, option in enumerate(request.options, 1):
        aside().print(f"  {number}  {visible(option)}")


def _rule(call: ToolCall, rule: str | None) -> str:
    """What a yes that is remembered would cover.

    >>> _rule(ToolCall(id="c", name="pay"), "pay")
    '“always” would cover every call of pay'
    >>> _rule(ToolCall(id="c", name="pay"), None)
    'no yes to this is remembered: each call is asked for'
    """
    if rule is None:
        return "no yes to this is remembered: each call is asked for"
    return f"“always” would cover {rule_in_words(rule, call.name)}"


def answer(daemon: Daemon, run_loop_id: str, value: Json) -> Json:
    """Send what `ask` gave; the run loop as it is after it.

    An answer that the daemon cannot use is asked for again. Where somebody else has answered, that
    counts.

    Raises:
        DaemonError: it could not be sent.
    """
    path = loop_path(run_loop_id)
    while True:
        try:
            now = daemon.post(f"{path}/input", value)
        except RefusedError as error:
            if error.status not in (409, 422):
                raise
            aside().print(error.problem().in_words(), style="yellow")
            now = daemon.get(path)
            asked = read_as(RunLoopDetails, now).input_required
            if error.status == 409 or asked is None:
                return now
            again = ask(asked)
            if again is None:
                raise
            value = again
        else:
            if value.get("remember") == "always":
                what = "What your yes covers" if "narrow" in value else "It"
                words = (
                    f"{what} runs without asking from now on. `rondo approvals` shows what does."
                )
                aside().print(words, style="dim")
            return now


def written_answer(
    request: InputRequired | None,
    *,
    approved: bool | None,
    text: str | None,
    choices: Sequence[str],
    edit: str | None,
    remember: str | None,
    narrow: Narrowing | None = None,
) -> Json:
    """An answer that was given as a command, to what a run loop asks now.

    Raises:
        InvalidInputError: what was chosen is no option, or what was edited is no JSON object.
    """
    value: Json = {"approved": approved, "text": text}
    if request is not None:
        value["request_id"] = request.request_id
        if choices and request.kind == "select":
            chosen = chosen_options(request, choices)
            if chosen is None:
                options = "; ".join(f"{n}: {each}" for n, each in enumerate(request.options, 1))
                how = "one or more" if request.multiple else "one"
                raise InvalidInputError(
                    f"{', '.join(choices)} cannot be chosen", advice=f"Choose {how} of {options}."
                )
            choices = chosen
    if choices:
        value["choices"] = list(choices)
    if edit is not None:
        try:
            value["arguments"] = read_object(edit)
        except ValueError as error:
            raise InvalidInputError(
                f"what --edit was given is not JSON: {error}",
                advice="""Quote it for the shell: --edit '{"name": "value"}'.""",
            ) from error
    if remember is not None:
        value["remember"] = {"loop": "run_loop"}.get(remember, remember)
    if narrow is not None and not narrow.is_none:
        value["narrow"] = narrow.model_dump(mode="json")
    return value


def how_to_answer(run_loop_id: str, request: InputRequired) -> str:
    """The commands that answer a request, for people who are not at a terminal."""
    command = f"rondo loops answer {short_id(run_loop_id)}"
    if request.kind == "approve":
        return f"  {command} --yes\n  {command} --no --text REASON"
    if request.kind == "select":
        several = " --choose NUMBER …" if request.multiple else ""
        return f"  {command} --choose NUMBER{several}"
    return f'  {command} --text "…"'


def _ask(request: InputRequired, *, in_chat: bool) -> Json:
    if request.kind == "approve" and len(request.tool_calls) == 1:
        call = request.tool_calls[0]
        return _ask_for_one(call, request.rules.get(call.id), in_chat=in_chat)
    if request.kind == "approve":
        return _ask_for_all(request.tool_calls, in_chat=in_chat)
    if request.kind == "select":
        return {"choices": list(_choose(request, in_chat=in_chat))}
    while not (words := ask_line("› ").strip()):
        aside().print("An answer in words is asked for; Ctrl-D leaves it open.", style="dim")
    if in_chat and is_command(words):  # a path begins with a stroke, too, and is an answer
        raise SaidInsteadError(words)
    return {"text": words}


# --- a yes or a no


def _ask_for_one(call: ToolCall, scope: str | None, *, in_chat: bool) -> Json:
    edited: Json = {}
    narrow, prompt = NARROW, "Run it? [y/n], [a]lways, for this [l]oop, [w]ithin limits, [e]dit › "
    if scope is None:
        narrow, prompt = frozenset[str](), prompt.replace(" [w]ithin limits,", "")
    while True:
        said = _key(prompt, EDIT, ALWAYS, LOOP, narrow, in_chat=in_chat)
        if said in NO:
            return {"approved": False, "text": _reason()}
        if said in EDIT:
            call, edited = _edited(call)
            continue
        if said in narrow:
            limited = ask_for_limits(call, None if edited else scope, confirmed=confirmed)
            if limited is None:
                continue
            return {"approved": True, **limited, **edited}
        return {"approved": True, **_remembered(said), **edited}


def _ask_for_all(calls: Sequence[ToolCall], *, in_chat: bool) -> Json:
    prompt = f"Run all {len(calls)}? [y/n], [a]lways, for this [l]oop, [o]ne by one › "
    said = _key(prompt, ALWAYS, LOOP, ONE_BY_ONE, in_chat=in_chat)
    if said in NO:
        return {"approved": False, "text": _reason()}
    if said in ONE_BY_ONE:
        return {"calls": {call.id: _ask_for_each(call) for call in calls}}
    return {"approved": True, **_remembered(said)}


def _ask_for_each(call: ToolCall) -> Json:
    edited: Json = {}
    _show_call(call)
    while True:
        said = _key(f"Run {plain(call.name)}? [y/n], [e]dit › ", EDIT)
        if said in NO:
            return {"approved": False, "text": _reason()}
        if said in EDIT:
            call, edited = _edited(call)
            continue
        return {"approved": True, **edited}


def _edited(call: ToolCall) -> tuple[ToolCall, Json]:
    """The call as the person wants it, shown to them, and what says so."""
    arguments = edit_arguments(call.arguments)
    call = call.model_copy(update={"arguments": json.dumps(arguments, ensure_ascii=False)})
    _show_call(call)
    return call, {"arguments": arguments}


def confirmed(prompt: str) -> bool:
    """Whether a person says yes or no to a question; asks until it is one of the two.

    Raises:
        EOFError, KeyboardInterrupt: the person would rather not say.
    """
    return _key(f"{prompt} [y/n] ") in YES


def _key(prompt: str, *more: frozenset[str], in_chat: bool = False) -> str:
    """What a person chose: a yes, a no, or one of the other words. Anything else is asked again,
    Enter too: a key that was pressed too often decides nothing.

    Raises:
        SaidInsteadError: in a chat, they have said something else.
    """
    choices = YES.union(NO, *more)
    while True:
        line = ask_line(prompt).strip()
        said = line.lower()
        if said in choices:
            return said
        if in_chat and (line.startswith("/") or _says_something(line)):
            raise SaidInsteadError(line)
        aside().print("Type y or n; Ctrl-D leaves it open.", style="dim")


def _remembered(said: str) -> Json:
    if said in ALWAYS:
        return {"remember": "always"}
    return {"remember": "run_loop"} if said in LOOP else {}


def _reason() -> str | None:
    return ask_line("Why not? (may be left empty) ").strip() or None


# --- a choice


def _choose(request: InputRequired, *, in_chat: bool) -> tuple[str, ...]:
    prompt = (
        "Which ones? (numbers, such as 1,3) › " if request.multiple else "Which one? (number) › "
    )
    while True:
        line = ask_line(prompt).strip()
        # An option may be of several words.
        for given in ([line], re.split(r"[,，、;；]+\s*", line), re.split(r"[\s,，、;；]+", line)):
            if (chosen := chosen_options(request, given)) is not None:
                return chosen
        if in_chat and any(each.isalpha() for each in line):
            raise SaidInsteadError(line)
        last = len(request.options)
        aside().print(
            f"Type numbers from 1 to {last}, or what is listed; Ctrl-D leaves it open.", style="dim"
        )


def _says_something(line: str) -> bool:
    """Whether these are words rather than a key that was missed.

    >>> [_says_something(line) for line in ("yess", "", "what does it do?", "别删，等等")]
    [False, False, True, True]
    """
    return len(line.split()) > 1 or len(line.encode()) > _LONGEST_SLIP


def chosen_options(request: InputRequired, given: Sequence[str]) -> tuple[str, ...] | None:
    """The options that are meant by their words or their numbers; None when that is not clear."""
    options = request.options
    by_words = {each.casefold(): each for each in reversed(options)}
    chosen = []
    for each in given:
        if each.casefold() in by_words:
            chosen.append(each if each in options else by_words[each.casefold()])
        elif each.isdecimal() and 1 <= int(each) <= len(options):
            chosen.append(options[int(each) - 1])
        else:
            return None
    chosen = list(dict.fromkeys(chosen))
    return tuple(chosen) if chosen and (request.multiple or len(chosen) == 1) else None


def _show_call(call: ToolCall, preview: str | None = None) -> None:
    """What a call would do, where that is known; else what it is given."""
    aside().print(f"  {plain(call.name)}", style="bold")
    if preview is not None:
        show_difference(preview)
        return
    for line in pretty(call.arguments).splitlines():
        aside().print(f"    {line}")
