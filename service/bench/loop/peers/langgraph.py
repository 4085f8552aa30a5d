"""LangGraph with its SQLite checkpoints: a model node and a tool node, each step kept on disk.

In the way that is quickest for it: the synchronous saver, with ``synchronous=NORMAL`` as in the
subject's journal, so that neither is made to wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from service.bench.loop import bench_worker


def probe(number: int) -> str:
    """Give the number back."""
    return str(number)


def _call(number: int) -> AIMessage:
    call = {"name": "probe", "args": {"number": number}, "id": f"call_{number}"}
    return AIMessage("", tool_calls=[call])


async def run_loop(steps: int, folder: Path, began: Callable[[], None]) -> None:
    """Run one loop to its answer."""
    calls = 0

    def model(state: MessagesState) -> dict[str, list[AIMessage]]:
        nonlocal calls
        began()
        calls += 1
        return {"messages": [_call(calls) if calls <= steps else AIMessage("Done.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([tool(probe)]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite3")) as saver:
        saver.setup()
        saver.conn.execute("PRAGMA synchronous = NORMAL")
        graph.compile(checkpointer=saver).invoke(
            {"messages": [("user", "Go.")]},
            {"recursion_limit": 3 * steps + 10, "configurable": {"thread_id": "bench"}},
            durability="sync",
        )


if __name__ == "__main__":
    bench_worker.tell(bench_worker.measure(run_loop, *bench_worker.arguments()))
