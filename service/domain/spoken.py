"""The words of an answer, which may come in several parts: one that was cut off is gone on with.

>>> from service.domain.messages import Message
>>> answer = Spoken()
>>> for continues, text, reason in ((False, "Hel", "length"), (True, "lo!", None)):
...     answer.begin(IterationStarted(index=0, continues=continues))
...     answer.say(MessageCompleted(message=Message.assistant(text), finish_reason=reason))
...     print(answer.text, answer.finish_reason)
Hel length
Hello! None
"""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.events import IterationStarted, MessageCompleted
from service.domain.messages import FinishReason


@dataclass(slots=True)
class Spoken:
    """The words of the last answer, its parts joined."""

    text: str = ""
    finish_reason: FinishReason | None = None
    """Why it is not whole; None: it is."""
    _goes_on: bool = False

    def begin(self, started: IterationStarted) -> None:
        """The model is asked: for something new, or to go on."""
        self._goes_on = started.continues

    def say(self, completed: MessageCompleted) -> None:
        """It has spoken; what has no words changes nothing."""
        text = completed.message.text
        if not text:
            return
        self.text = self.text + text if self._goes_on else text
        self.finish_reason = completed.finish_reason
