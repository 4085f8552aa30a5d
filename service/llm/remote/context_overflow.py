"""How endpoints say that a conversation is longer than the model's window.

There is no common form: some give a code, most only a sentence.

>>> is_too_long("This model's maximum context length is 8192 tokens.")
True
>>> is_too_long("max_tokens is too large: this model supports at most 4096 completion tokens")
False
"""

from __future__ import annotations

import re

_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size|limit)"  # OpenAI, vLLM, llama.cpp, Mistral, OpenRouter
    r"|maximum (?:prompt|input) length"  # xAI
    r"|(?:prompt|inputs?|request|messages|conversation) (?:is|are) too (?:long|large)"  # Claude
    r"|request too large for model|body too large for .{1,60}model"  # Groq, GitHub
    r"|request_too_large"
    r"|too many (?:input |total |prompt )?tokens\b(?! per)"  # Bedrock, Cohere
    r"|input (?:token count|length|tokens?)\b.{0,80}\bexceed"  # Gemini
    r"|exceed\w* (?:the )?model(?:'s)? token limit"  # Moonshot
    r"|prompt exceeds max length"  # Zhipu
    r"|range of input length"  # DashScope
    r"|inputs` tokens \+ `max_new_tokens",  # text-generation-inference
    re.IGNORECASE | re.DOTALL,
)


def is_too_long(said: str) -> bool:
    """Whether an endpoint's words for a refused request mean that it was too long."""
    return _TOO_LONG.search(said) is not None
