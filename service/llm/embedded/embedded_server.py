"""The child process that holds an embedded model and serves it on the loopback interface.

Protocol with the parent: one JSON line comes in on standard input (``{"api_key": …}``), one goes
out on standard output when the model is loaded (``{"address": …}``). Standard input then stays
open: its end means that the parent is gone, and the process ends. On Linux the kernel ends it too.

Calls take turns, each in the slot that has read most of its prompt: reading is what takes the time,
and each slot keeps what it has read last. The server would choose a slot by itself, but a short
conversation then loses its slot to the next one.

Run as ``python -m service.llm.embedded.embedded_server --model FILE``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.to_thread

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMStreamError
from service.llm.embedded.prompt_states import Opening, PromptStates, begins_with
from service.llm.openai.openai_compatible import OpenAIModel

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NICENESS = 5
_MOST_THREADS = 8
SLOTS = 6
"""How many prompts the server keeps at a time: the choice of a tool, and conversations."""


def main() -> NoReturn:
    """Load the model, say where it listens, and serve until the parent goes."""
    parser = argparse.ArgumentParser(description="Serve an embedded language model.")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--context", type=int, default=8192, help="tokens of a call")
    parser.add_argument("--states", type=Path, help="a folder for what it has read of prompts")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    options = parser.parse_args()
    _end_with_parent(options.parent)
    api_key = str(json.loads(sys.stdin.readline())["api_key"])
    # llama.cpp may print: only our one line goes to the parent.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server, address = _serve(options.model, options.context, options.states, api_key)
    print(json.dumps({"address": address}), file=answer, flush=True)
    while sys.stdin.read(4096):
        pass
    del server
    os._exit(0)  # its threads would be waited for otherwise


def _serve(model: Path, context: int, states: Path | None, api_key: str) -> tuple[object, str]:
    # Threads that wait for each other by spinning collapse under any other load. Those that sleep
    # cost little, and then reading is fastest with all cores, and writing with one.
    os.environ["OMP_WAIT_POLICY"] = "passive"  # read when the library is loaded
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = min(_cores(), _MOST_THREADS)
    # Slots share the memory: one call at a time fits, and what others have read as far as it does.
    parameters.n_parallel = SLOTS
    parameters.kv_unified = True
    parameters.kv_unified_per_slot = context
    parameters.n_ctx = 2 * context
    parameters.cache_ram_mib = 0  # it knows of no slot that is asked for by its number
    parameters.cache_idle_slots = False
    if states is not None:
        parameters.slot_save_path = f"{_private(states)}{os.sep}"
    parameters.verbosity = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [api_key]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    return server, str(server.listening_address)


def _cores() -> int:
    """How many the process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _private(folder: Path) -> Path:
    os.umask(0o077)
    with contextlib.suppress(OSError):  # saving a state will fail, and be told
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _end_with_parent(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # writing an answer must not keep the daemon from answering others
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a libc without prctl: stdin is enough
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main()


_SILENCE_SECONDS = 600.0
"""A long prompt is read in silence."""
_ANYTHING = Message.user("Hi")
_AGAINST_REPETITION = {
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 16,
    "dry_penalty_last_n": 1024,
}
"""Small models get caught in a phrase. What repeats more than so many tokens becomes ever less
likely (DRY, https://github.com/oobabooga/text-generation-webui/pull/5677); a name, a number, a
sentence of the person's can be said again."""


class SlottedLLM(OpenAIModel):
    """A client of one life of the server."""

    def __init__(
        self,
        *,
        model: str,
        address: str,
        api_key: str,
        states: PromptStates | None,
        openings: Sequence[Opening],
    ) -> None:
        """Describe the server.

        Args:
            model: the model's name.
            address: where it listens.
            api_key: what it wants.
            states: where it keeps what it has read of the openings; None: nowhere.
            openings: how prompts begin.
        """
        super().__init__(
            model=model,
            base_url=f"{address}/v1",
            api_key=api_key,
            timeout_seconds=_SILENCE_SECONDS,
        )
        self._address = address
        self._states = states
        self._openings = openings
        self._turn = anyio.Semaphore(1)
        self._slot = 0
        """Of the call whose turn it is."""
        self._read: list[Sequence[Message]] = [()] * SLOTS
        """The prompt that each slot has read last."""
        self._used: list[int] = [0] * SLOTS
        self._calls = 0

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Wait for a turn, and stream the answer (see the protocol).

        Raises:
            LLMError: of the kind that fits.
        """
        async with self._turn:
            await self._take_slot(messages, grows=response_schema is None)
            answer = super().stream(
                messages,
                tools=tools,
                response_schema=response_schema,
                max_tokens=max_tokens,
                temperature=temperature,
            )
            async with aclosing(answer):
                async for part in answer:
                    self._read[self._slot] = messages
                    yield part

    async def learn(self, opening: Opening) -> None:
        """Read an opening, unless its state is kept already, and keep that.

        Raises:
            LLMError: of the kind that fits.
        """
        states = self._states
        if states is not None and await anyio.to_thread.run_sync(states.find, opening) is not None:
            return
        prompt = [*opening, _ANYTHING]
        async with self._turn:
            await self._take_slot(prompt)
            with contextlib.suppress(LLMStreamError):  # a token is not an answer
                async with aclosing(super().stream(prompt, max_tokens=1)) as parts:
                    async for _ in parts:
                        pass
            self._read[self._slot] = prompt
            if states is None:
                return
            # Still our turn: the slot holds nothing else, and nothing that anybody has said.
            saved = await self._do("save", states.unfinished(opening))
            await anyio.to_thread.run_sync(states.keep if saved else states.discard, opening)

    def _body(self, *call: Any) -> dict[str, Any]:
        body = {**super()._body(*call), "id_slot": self._slot}
        return body if "response_format" in body else {**body, **_AGAINST_REPETITION}

    async def _take_slot(self, prompt: Sequence[Message], *, grows: bool = False) -> None:
        """Choose a slot, and bring it to the prompt's opening.

        `grows` says whether more of the same conversation will come: what is asked with a schema
        stands alone, and the next such prompt can have its slot.
        """
        opening = next((each for each in self._openings if begins_with(prompt, each)), None)
        fixed = len(opening) if grows and opening is not None else 1
        self._slot = self._best_slot(prompt, fixed)
        self._calls += 1
        self._used[self._slot] = self._calls
        read, self._read[self._slot] = self._read[self._slot], ()  # until the server has read it
        if self._states is None or opening is None or begins_with(read, opening):
            return
        name = await anyio.to_thread.run_sync(self._states.find, opening)
        if name is not None:
            await self._do("restore", name)

    def _best_slot(self, prompt: Sequence[Message], fixed: int) -> int:
        """The slot that has read more than so many messages of it, which all prompts of its kind
        have; else the one that was used longest ago."""
        shared = [_shared(read, prompt) for read in self._read]
        best = max(range(SLOTS), key=lambda slot: (shared[slot], self._used[slot]))
        if shared[best] > fixed:
            return best
        return min(range(SLOTS), key=lambda slot: self._used[slot])

    async def _do(self, action: str, name: str) -> bool:
        """Have the server save or restore the slot; whether it did."""
        client = await self._ready_client()
        import openai  # loaded by now, in a worker thread

        try:
            await client.post(
                f"{self._address}/slots/{self._slot}?action={action}",
                cast_to=object,
                body={"filename": name},
            )
        except openai.APIError as error:  # the prompt is read instead; a dead server is told then
            log.warning("the embedded model could not %s what it has read: %s", action, error)
            return False
        return True


def _shared(read: Sequence[Message], prompt: Sequence[Message]) -> int:
    """With how many of the same messages two prompts begin."""
    count = 0
    for one, other in zip(read, prompt, strict=False):
        if one != other:
            break
        count += 1
    return count
