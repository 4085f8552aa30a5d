"""Where models are usually had, and what is found there.

Public endpoints that speak OpenAI's API, and local servers; each address stands with the page that
it was taken from. A provider whose keys are of two regions is listed twice: a key of one is refused
by the other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from service.llm.anthropic.anthropic_messages import ANTHROPIC_BASE_URL
from service.llm.openai.openai_compatible import OPENAI_BASE_URL
from service.llm.remote.endpoints import Vendor

_OLLAMA_PORT = 11434


@dataclass(frozen=True, slots=True)
class Provider:
    """A public endpoint."""

    id: str
    """By which `rondo setup --use` knows it."""
    name: str
    base_url: str
    key_variables: tuple[str, ...]
    """In which its key is looked for, the first that is set."""
    source: str
    """The page that documents the address."""
    vendor: Vendor = "openai"

    def key_variable(self, environment: Mapping[str, str]) -> str | None:
        """The variable that holds a key; None where none is set."""
        return next((name for name in self.key_variables if environment.get(name)), None)

    def address(self, environment: Mapping[str, str]) -> str:
        """Where it is called: variables of OpenAI's and Anthropic's own SDKs name other places."""
        if self.id in ("openai", "anthropic"):
            return environment.get(f"{self.id.upper()}_BASE_URL") or self.base_url
        return self.base_url


PROVIDERS = (
    Provider(
        "openai",
        "OpenAI",
        OPENAI_BASE_URL,
        ("OPENAI_API_KEY",),
        "https://platform.openai.com/docs/api-reference",
    ),
    Provider(
        "anthropic",
        "Anthropic",
        ANTHROPIC_BASE_URL,
        ("ANTHROPIC_API_KEY",),
        "https://platform.claude.com/docs/en/api/overview",
        vendor="anthropic",
    ),
    Provider(
        "gemini",
        "Google Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://ai.google.dev/gemini-api/docs/openai",
    ),
    Provider(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        "https://api-docs.deepseek.com",
    ),
    Provider(
        "moonshot",
        "Moonshot (international)",
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY",),
        "https://platform.moonshot.ai/docs",
    ),
    Provider(
        "moonshot-cn",
        "Moonshot (China)",
        "https://api.moonshot.cn/v1",
        ("MOONSHOT_API_KEY",),
        "https://platform.moonshot.cn/docs",
    ),
    Provider(
        "dashscope",
        "DashScope / Qwen (China)",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        "https://help.aliyun.com/zh/model-studio/compatibility-of-openai-with-dashscope",
    ),
    Provider(
        "dashscope-intl",
        "DashScope / Qwen (international)",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY",),
        "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
    ),
    Provider(
        "zhipu",
        "Zhipu (China)",
        "https://open.bigmodel.cn/api/paas/v4",
        ("ZHIPUAI_API_KEY", "ZHIPU_API_KEY"),
        "https://docs.bigmodel.cn/cn/guide/develop/openai/introduction",
    ),
    Provider(
        "zai",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        ("ZAI_API_KEY",),
        "https://docs.z.ai/guides/develop/openai/python",
    ),
    Provider(
        "siliconflow",
        "SiliconFlow",
        "https://api.siliconflow.cn/v1",
        ("SILICONFLOW_API_KEY",),
        "https://docs.siliconflow.cn",
    ),
    Provider(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "https://openrouter.ai/docs/quickstart",
    ),
    Provider(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        "https://docs.mistral.ai/api",
    ),
    Provider(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "https://console.groq.com/docs/openai",
    ),
    Provider(
        "together",
        "Together",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        "https://docs.together.ai/docs/openai-api-compatibility",
    ),
    Provider(
        "fireworks",
        "Fireworks",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
    ),
    Provider(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        ("CEREBRAS_API_KEY",),
        "https://inference-docs.cerebras.ai/resources/openai",
    ),
    Provider("xai", "xAI", "https://api.x.ai/v1", ("XAI_API_KEY",), "https://docs.x.ai/docs"),
    Provider(
        "nvidia",
        "NVIDIA",
        "https://integrate.api.nvidia.com/v1",
        ("NVIDIA_API_KEY",),
        "https://docs.api.nvidia.com/nim/reference/llm-apis",
    ),
)


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """Where a server on this machine usually listens."""

    programs: str
    """Which ones do by default."""
    base_url: str


_USUAL_PORTS = (
    (1234, "LM Studio"),  # https://lmstudio.ai/docs/developer/core/server
    (8080, "llama.cpp or LocalAI"),  # their READMEs; mlx_lm.server too
    (8000, "vLLM"),  # https://docs.vllm.ai/en/latest/serving/openai_compatible_server
    (1337, "Jan"),  # https://jan.ai/docs/desktop/api-server
    (5001, "KoboldCpp"),  # https://github.com/LostRuins/koboldcpp/wiki
    (4891, "GPT4All"),  # https://github.com/nomic-ai/gpt4all/wiki/Local-API-Server
    (5000, "text-generation-webui"),  # its wiki, "12 - OpenAI API"
    (30000, "SGLang"),  # https://docs.sglang.ai
    (9997, "Xinference"),  # https://inference.readthedocs.io
    (23333, "LMDeploy"),  # https://lmdeploy.readthedocs.io
)


def provider(name: str) -> Provider | None:
    """The provider of that id or name, whatever its letters' case; None where there is none."""
    key = name.strip().casefold()
    return next((p for p in PROVIDERS if key in (p.id, p.name.casefold())), None)


def local_places(environment: Mapping[str, str] = os.environ) -> Sequence[LocalPlace]:
    """Where servers are looked for: Ollama's own address first, then the usual ports."""
    ollama = LocalPlace("Ollama", ollama_address(environment.get("OLLAMA_HOST", "")))
    usual = [LocalPlace(name, f"http://localhost:{port}/v1") for port, name in _USUAL_PORTS]
    return (ollama, *usual)


def ollama_address(host: str) -> str:
    """What ``OLLAMA_HOST`` says, as the address of its API of OpenAI's kind.

    >>> ollama_address(""), ollama_address("0.0.0.0:8888")
    ('http://localhost:11434/v1', 'http://localhost:8888/v1')
    >>> ollama_address("https://gpu.example/ollama"), ollama_address("[::]:1")
    ('https://gpu.example:443/ollama/v1', 'http://localhost:1/v1')
    """
    host = host.strip().strip("\"'")
    scheme, divider, rest = host.partition("://")
    scheme, rest = (scheme, rest) if divider else ("http", host)
    usual = {"http": 80, "https": 443}.get(scheme, _OLLAMA_PORT) if divider else _OLLAMA_PORT
    try:
        parts = urlsplit(f"//{rest}")
        name, port = parts.hostname or "", parts.port or usual
    except ValueError:
        return ollama_address("")
    if name in ("", "0.0.0.0", "::", "127.0.0.1", "localhost"):
        name = "localhost"
    name = f"[{name}]" if ":" in name else name
    return f"{scheme}://{name}:{port}{parts.path.rstrip('/')}/v1"


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model that can be chatted with, as far as its server tells."""

    name: str
    note: str = ""
    """What else is told of it, such as its number of parameters."""
    size: int | None = None
    """Bytes on disk."""
    tools: bool | None = None
    """Whether it can call tools; None where nothing is told."""
    context_tokens: int | None = None
    """The window that it is served with; None where nothing is told."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models of a server."""

    models: tuple[OfferedModel, ...] = ()
    others: int = 0
    """How many more there are that are not for chatting: they embed, draw or listen."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server on this machine that offers models."""

    program: str
    """Such as ``Ollama``; where it does not tell, "A server" with what usually listens there."""
    base_url: str
    version: str = ""
    offers: ModelList = ModelList()
    wants_key: bool = False
    """Whether it tells nothing without a key."""


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A key in the environment. Which models it opens is not known before the provider is asked."""

    provider: Provider
    variable: str
    base_url: str


def keys_found(environment: Mapping[str, str]) -> list[KeyFound]:
    """The providers for which a key is set. Nobody is asked, and no key is kept."""
    return [
        KeyFound(each, variable, each.address(environment))
        for each in PROVIDERS
        if (variable := each.key_variable(environment)) is not None
    ]
