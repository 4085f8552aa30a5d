"""Rondo: a personal-assistant daemon that remembers every conversation, word for word.

    from service import create_agent, tool

What `__all__` names is the library: it keeps its meaning, and docs/library.md tells what it is for.
All else in the package may change with any version. Each name is loaded when it is first used, so
that importing the package costs nothing. An installed Rondo is also there as ``rondo``.

The packages, from the ground up (imports run downwards only):

- ``service.domain``: the shared words as pure types; no I/O.
- ``service.config``: the effective settings.
- ``service.models``: fetching and verifying model weights.
- ``service.memory``: journal, short-term store, long-term memory.
- ``service.tools``: what the assistant can do.
- ``service.agent``: models, the run loop, the router, the `Agent` facade.
- ``service.server``: the HTTP API.
- ``service.cli``, ``service.bench``: commands and benchmarks.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and editors read; `NAMES_IN` has the same for the rest
    from service.agent.agent import Agent
    from service.agent.agent_factory import agent_from_settings, create_agent
    from service.agent.agent_options import AgentOptions, Waits
    from service.agent.callbacks import Callbacks
    from service.agent.consolidation.consolidation_worker import (
        ConsolidationOptions,
        ConsolidationStatus,
    )
    from service.agent.human_input.answer_reading import Answer
    from service.agent.human_input.open_questions import Question
    from service.agent.moving.mover import Moved
    from service.config import Settings, load_settings
    from service.config_sections import (
        AgentSettings,
        ConsolidationSettings,
        EmbedderSettings,
        LLMSettings,
        McpServerSettings,
        McpToolSettings,
        MemorySettings,
        PriceSettings,
        RerankerSettings,
        RouterSettings,
        ServerSettings,
        ToolsSettings,
    )
    from service.domain.anchors import (
        Anchor,
        AnchorRef,
        ExpandedContext,
        MemoryHit,
        MemoryNote,
        NoteSentence,
        SearchResult,
        Segment,
    )
    from service.domain.conversation.file_attachments import NewFile
    from service.domain.conversation.instructions import (
        CallLLM,
        CallTools,
        Compact,
        Finish,
        Instruction,
        RequestHumanApprove,
        RequestHumanPrompt,
        RequestHumanSelect,
    )
    from service.domain.conversation.messages import (
        ImageUrlPart,
        Message,
        NotePart,
        TextPart,
        ThinkPart,
        ToolCall,
        ToolResult,
    )
    from service.domain.conversation.stream_parts import (
        ResponseInfo,
        StreamPart,
        TextDelta,
        ThinkDelta,
        TokenUsage,
        ToolCallDelta,
    )
    from service.domain.conversation.tool_definitions import (
        ElicitedAnswer,
        ShowOutput,
        ToolContext,
        ToolDefinition,
    )
    from service.domain.errors import (
        BadAnchorError,
        BudgetError,
        ConfigurationError,
        ConflictError,
        DataFolderInUseError,
        EmbeddingError,
        IndexDamagedError,
        IndexUnreachableError,
        InvalidInputError,
        LLMConnectionError,
        LLMContextError,
        LLMError,
        LLMNotReadyError,
        LLMStatusError,
        LLMStreamError,
        LLMTimeoutError,
        ModelStoreError,
        NotFoundError,
        OwnCodeError,
        Problem,
        RerankingError,
        RondoError,
        StorageError,
    )
    from service.domain.exchange import ImportProblem, ImportReport
    from service.domain.forgetting_terms import (
        CopiesElsewhere,
        DoomedIteration,
        DoomedRunLoop,
        ForgetConflictError,
        ForgetPreview,
        ForgetReceipt,
        ForgetRequest,
        NoteMention,
        PlaceThatSaw,
        Removed,
        Repetition,
        RunLoopMention,
        ScheduleMention,
    )
    from service.domain.history.approval_rules import NarrowedRule, Narrowing
    from service.domain.history.events import (
        CompactionFinished,
        CompactionRequested,
        CompactionStarted,
        ErrorOccurred,
        Event,
        EventBody,
        ForkPoint,
        IterationAbandoned,
        IterationStarted,
        LLMFallback,
        LLMRetry,
        MemoryRecalled,
        MessageCompleted,
        MessageDelta,
        MessageMoved,
        MessageReceived,
        ReasoningDelta,
        Recollection,
        RouteDecided,
        RunLoopCancelled,
        RunLoopCompleted,
        RunLoopFailed,
        RunLoopIdle,
        RunLoopImported,
        RunLoopInterrupted,
        RunLoopResumed,
        RunLoopStarted,
        ToolFinished,
        ToolOutput,
        ToolStarted,
        Usage,
    )
    from service.domain.history.human_input import CallDecision, InputReceived, InputRequired
    from service.domain.history.state import (
        BeforeAnswer,
        PendingCall,
        Recalled,
        RunLoopState,
        UnseenMessage,
    )
    from service.domain.history.tool_events import Grant
    from service.domain.routes import Route, RouteCandidate
    from service.domain.run_loops import Iteration, RunLoop, RunLoopSummary
    from service.domain.spend import PeriodSpend, SpendCaps, SpendStatus
    from service.domain.usage import Prices
    from service.llm.anthropic.anthropic_messages import AnthropicModel
    from service.llm.generate import Backoff
    from service.llm.named_models import NamedModel
    from service.llm.openai.openai_compatible import OpenAIModel
    from service.llm.protocol import LLM, LLMStatus
    from service.llm.scripted.script_language import Script, parse_script
    from service.llm.scripted.scripted_model import ScriptedModel
    from service.loop.brain import Brain, Limits, landing
    from service.loop.execution import Executor, Loop
    from service.loop.hooks.hooks import Hooks
    from service.memory.archive.archivist import ArchivingHooks
    from service.memory.embedders.openai_endpoint import OpenAIEmbedder
    from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
    from service.memory.exchange.memory_files import export_memory, import_memory
    from service.memory.journal.event_feed import Reader
    from service.memory.journal.inbox import Delivery, InboxEntry, Receipt
    from service.memory.memory import Memory
    from service.memory.protocol import (
        Embedded,
        Embedder,
        SearchFilters,
        TokenEmbedder,
        TokenStates,
    )
    from service.memory.rerankers.protocol import Reranker
    from service.models.fetch import PullProgress
    from service.routing.routing_options import RouterOptions
    from service.spend_settings import SpendSettings
    from service.tools.approval import ApprovalPolicy
    from service.tools.decorator import FunctionTool, tool
    from service.tools.protocol import InputNeeded, Tool, ToolFailure
    from service.tools.registry import ToolRegistry

__version__ = "0.1.0"

# fmt: off
__all__ = [  # noqa: RUF022 - capitals and small letters as Python sorts them
    "__version__", "Agent", "AgentOptions", "AgentSettings", "Anchor", "AnchorRef", "Answer",
    "AnthropicModel", "ApprovalPolicy", "ArchivingHooks", "Backoff", "BadAnchorError",
    "BeforeAnswer", "Brain", "BudgetError", "CallDecision", "CallLLM", "CallTools", "Callbacks",
    "Compact", "CompactionFinished", "CompactionRequested", "CompactionStarted",
    "ConfigurationError", "ConflictError", "ConsolidationOptions", "ConsolidationSettings",
    "ConsolidationStatus", "CopiesElsewhere", "DataFolderInUseError", "Delivery", "DoomedIteration",
    "DoomedRunLoop", "ElicitedAnswer", "Embedded", "Embedder", "EmbedderSettings",
    "EmbeddingError", "ErrorOccurred",
    "Event", "EventBody", "Executor", "ExpandedContext", "Finish", "ForgetConflictError",
    "ForgetPreview", "ForgetReceipt", "ForgetRequest", "ForkPoint", "FunctionTool", "Grant",
    "Hooks",
    "ImageUrlPart", "ImportProblem", "ImportReport", "InboxEntry", "IndexDamagedError",
    "IndexUnreachableError", "InputNeeded", "InputReceived", "InputRequired", "Instruction",
    "InvalidInputError",
    "Iteration", "IterationAbandoned", "IterationStarted", "LLM", "LLMConnectionError",
    "LLMContextError", "LLMError", "LLMFallback", "LLMNotReadyError", "LLMRetry", "LLMSettings",
    "LLMStatus", "LLMStatusError", "LLMStreamError", "LLMTimeoutError", "Limits", "Loop",
    "McpServerSettings", "McpToolSettings", "Memory", "MemoryHit", "MemoryNote", "MemoryRecalled",
    "MemorySettings", "Message", "MessageCompleted",
    "MessageDelta", "MessageMoved", "MessageReceived", "ModelStoreError", "Moved", "NamedModel",
    "NarrowedRule", "Narrowing", "NewFile",
    "NotFoundError", "NoteMention", "NotePart", "NoteSentence", "OpenAIEmbedder", "OpenAIModel",
    "OwnCodeError", "PendingCall", "PeriodSpend", "PlaceThatSaw", "PriceSettings", "Prices",
    "Problem", "PullProgress", "Question", "Reader", "ReasoningDelta", "Recalled", "Receipt",
    "Recollection",
    "Removed", "Repetition", "RequestHumanApprove", "RequestHumanPrompt", "RequestHumanSelect",
    "Reranker", "RerankerSettings", "RerankingError", "ResponseInfo", "RondoError", "Route",
    "RouteCandidate", "RouteDecided", "RouterOptions", "RouterSettings", "RunLoop",
    "RunLoopCancelled", "RunLoopCompleted", "RunLoopFailed", "RunLoopIdle", "RunLoopImported",
    "RunLoopInterrupted", "RunLoopMention", "RunLoopResumed", "RunLoopStarted", "RunLoopState",
    "RunLoopSummary", "ScheduleMention", "Script", "ScriptedModel", "SearchFilters",
    "SearchResult", "Segment", "SentenceTransformerEmbedder", "ServerSettings", "Settings",
    "ShowOutput", "SpendCaps", "SpendSettings", "SpendStatus", "StorageError", "StreamPart",
    "TextDelta", "TextPart", "ThinkDelta", "ThinkPart", "TokenEmbedder", "TokenStates",
    "TokenUsage", "Tool", "ToolCall", "ToolCallDelta", "ToolContext", "ToolDefinition",
    "ToolFailure", "ToolFinished", "ToolOutput", "ToolRegistry", "ToolResult", "ToolStarted",
    "ToolsSettings", "UnseenMessage", "Usage", "Waits", "agent_from_settings", "create_agent",
    "export_memory", "import_memory", "landing", "load_settings", "parse_script", "tool",
]

NAMES_IN = {
    "service.config_sections":
        "AgentSettings ConsolidationSettings EmbedderSettings LLMSettings MemorySettings "
        "McpServerSettings McpToolSettings PriceSettings RerankerSettings RouterSettings "
        "ServerSettings ToolsSettings",
    "service.models.fetch": "PullProgress",
    "service.agent.agent": "Agent",
    "service.agent.human_input.answer_reading": "Answer",
    "service.agent.agent_factory": "agent_from_settings create_agent",
    "service.llm.generate": "Backoff",
    "service.loop.brain": "Brain Limits landing",
    "service.agent.callbacks": "Callbacks",
    "service.agent.consolidation.consolidation_worker": "ConsolidationOptions ConsolidationStatus",
    "service.loop.hooks.hooks": "Hooks",
    "service.llm.anthropic.anthropic_messages": "AnthropicModel",
    "service.llm.named_models": "NamedModel",
    "service.llm.openai.openai_compatible": "OpenAIModel",
    "service.llm.protocol": "LLM LLMStatus",
    "service.llm.scripted.script_language": "Script parse_script",
    "service.llm.scripted.scripted_model": "ScriptedModel",
    "service.loop.execution": "Executor Loop",
    "service.agent.moving.mover": "Moved",
    "service.agent.agent_options": "AgentOptions Waits",
    "service.agent.human_input.open_questions": "Question",
    "service.routing.routing_options": "RouterOptions",
    "service.config": "Settings load_settings",
    "service.domain.anchors":
        "Anchor AnchorRef ExpandedContext MemoryHit MemoryNote NoteSentence SearchResult "
        "Segment",
    "service.domain.errors":
        "BadAnchorError BudgetError ConfigurationError ConflictError DataFolderInUseError "
        "EmbeddingError IndexDamagedError IndexUnreachableError InvalidInputError "
        "LLMConnectionError LLMContextError LLMError LLMNotReadyError LLMStatusError "
        "LLMStreamError LLMTimeoutError ModelStoreError NotFoundError OwnCodeError Problem "
        "RerankingError RondoError StorageError",
    "service.domain.history.events":
        "CompactionFinished CompactionRequested CompactionStarted ErrorOccurred Event EventBody "
        "ForkPoint IterationAbandoned IterationStarted LLMFallback LLMRetry MemoryRecalled "
        "MessageCompleted MessageDelta MessageMoved MessageReceived ReasoningDelta Recollection "
        "RouteDecided RunLoopCancelled RunLoopCompleted RunLoopFailed RunLoopIdle "
        "RunLoopImported RunLoopInterrupted RunLoopResumed RunLoopStarted ToolFinished "
        "ToolOutput ToolStarted Usage",
    "service.domain.exchange": "ImportProblem ImportReport",
    "service.domain.forgetting_terms":
        "CopiesElsewhere DoomedIteration DoomedRunLoop ForgetConflictError ForgetPreview "
        "ForgetReceipt ForgetRequest NoteMention PlaceThatSaw Removed Repetition RunLoopMention "
        "ScheduleMention",
    "service.domain.history.approval_rules": "NarrowedRule Narrowing",
    "service.domain.history.human_input": "CallDecision InputReceived InputRequired",
    "service.domain.conversation.file_attachments": "NewFile",
    "service.domain.history.tool_events": "Grant",
    "service.domain.conversation.instructions":
        "CallLLM CallTools Compact Finish Instruction RequestHumanApprove RequestHumanPrompt "
        "RequestHumanSelect",
    "service.domain.conversation.messages":
        "ImageUrlPart Message NotePart TextPart ThinkPart ToolCall ToolResult",
    "service.domain.routes": "Route RouteCandidate",
    "service.domain.run_loops": "Iteration RunLoop RunLoopSummary",
    "service.domain.history.state": "BeforeAnswer PendingCall Recalled RunLoopState UnseenMessage",
    "service.domain.conversation.stream_parts":
        "ResponseInfo StreamPart TextDelta ThinkDelta TokenUsage ToolCallDelta",
    "service.domain.conversation.tool_definitions":
        "ElicitedAnswer ShowOutput ToolContext ToolDefinition",
    "service.domain.spend": "PeriodSpend SpendCaps SpendStatus",
    "service.domain.usage": "Prices",
    "service.spend_settings": "SpendSettings",
    "service.memory.archive.archivist": "ArchivingHooks",
    "service.memory.embedders.openai_endpoint": "OpenAIEmbedder",
    "service.memory.embedders.sentence_transformer": "SentenceTransformerEmbedder",
    "service.memory.exchange.memory_files": "export_memory import_memory",
    "service.memory.journal.event_feed": "Reader",
    "service.memory.journal.inbox": "Delivery InboxEntry Receipt",
    "service.memory.memory": "Memory",
    "service.memory.protocol": "Embedded Embedder SearchFilters TokenEmbedder TokenStates",
    "service.memory.rerankers.protocol": "Reranker",
    "service.tools.approval": "ApprovalPolicy",
    "service.tools.decorator": "FunctionTool tool",
    "service.tools.protocol": "InputNeeded Tool ToolFailure",
    "service.tools.registry": "ToolRegistry",
}
# fmt: on
_MODULE_OF = {name: module for module, names in NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load what is named, on its first use.

    Raises:
        AttributeError: the library has no such name.
    """
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
