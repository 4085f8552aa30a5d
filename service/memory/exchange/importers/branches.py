"""From a conversation with branches to run loops.

An edited question or a second answer makes a branch. The branch that is shown becomes a run loop
with all its words. Each other one becomes a run loop of what it has of its own, from the question
on at which it left. Ids derive from the messages and not from what is shown, so that a newer
archive never gives an id to other words:

- a whole branch has the conversation's id; and a digest of the last message at which it took
  another way than the first one, if there is one;
- a part has that and ``part``, and the digest of the message at which it begins.

A part names a predecessor only where it truly came later: where it is a second attempt at what the
run loop that it left had said first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.domain.run_loops import Iteration, RunLoop
from service.memory.exchange.importers.imported_turns import NO_TIME, iterations_of, words_of
from service.memory.exchange.importers.message_pieces import (
    BadConversationError,
    Conversation,
    Node,
    short_digest,
)


def run_loops_of(conversation: Conversation) -> list[RunLoop]:
    """The run loops of a conversation, the branch that is shown first; none if nothing was said.

    Raises:
        BadConversationError: the messages do not make a tree.
    """
    tree = _Tree(conversation.nodes)
    shown = tree.path_to(conversation.current)
    loop_id = _whole_id(conversation.id, tree, shown)
    whole = _run_loop(conversation, loop_id, shown)
    loops = [whole] if whole.iterations else []
    said = words_of(whole.iterations)
    for part in tree.parts(conversation.id, loop_id, shown):
        loop = _run_loop(conversation, part.id, part.nodes, predecessor_id=part.predecessor_id)
        own = words_of(loop.iterations)
        # A second answer that never came is the question alone, which is there already.
        if part.has_words and not own <= said:
            loops.append(loop)
            said |= own
    return loops


def _whole_id(conversation_id: str, tree: _Tree, path: Sequence[Node]) -> str:
    turns = [node for node in path if not tree.is_first(node)]
    return f"{conversation_id}-{short_digest(turns[-1].id)}" if turns else conversation_id


def _run_loop(
    conversation: Conversation,
    loop_id: str,
    nodes: Sequence[Node],
    *,
    predecessor_id: str | None = None,
) -> RunLoop:
    iterations = iterations_of(
        nodes, otherwise=conversation.created_at, metadata=conversation.metadata
    )
    moments = [node.at for node in nodes if node.at and node.pieces]
    moments += [iteration.timestamp for iteration in iterations]
    begun = min(moments, default=conversation.created_at or NO_TIME)
    return RunLoop(
        id=loop_id,
        goal=conversation.title.strip() or _first_words(iterations),
        status="completed",
        iterations=iterations,
        created_at=begun,
        completed_at=max(moments, default=begun),
        predecessor_id=predecessor_id,
    )


def _first_words(iterations: Sequence[Iteration]) -> str:
    words = (each.user_message or each.response for each in iterations)
    return next((each for each in words if each), "(no words)")


@dataclass(frozen=True, slots=True)
class _Part:
    """A branch that is not shown: what it has of its own, and the question before it."""

    id: str
    nodes: Sequence[Node]
    predecessor_id: str | None
    has_words: bool


class _Tree:
    """The messages by what follows what."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes: Mapping[str, Node] = {node.id: node for node in nodes}
        self._children: dict[str | None, list[Node]] = {}
        for node in self._nodes.values():
            self._children.setdefault(self._parent(node), []).append(node)
        reached = list(self._children.get(None, ()))
        for node in reached:  # grows while it is gone through
            reached += self._children.get(node.id, ())
        if len(reached) != len(self._nodes):
            raise BadConversationError("its messages go round in a circle")

    def newest_leaf(self) -> str | None:
        """The end of the branch that came last."""
        leaves = [node for node in self._nodes.values() if node.id not in self._children]
        if not leaves:
            return None
        timed = [leaf for leaf in leaves if leaf.at is not None]
        return max(timed, key=lambda leaf: leaf.at or NO_TIME).id if timed else leaves[-1].id

    def path_to(self, node_id: str | None) -> list[Node]:
        """From the beginning to a message; to the newest one, where it is not there."""
        at = node_id if node_id in self._nodes else self.newest_leaf()
        path: list[Node] = []
        while at is not None:
            path.append(self._nodes[at])
            at = self._parent(self._nodes[at])
        return path[::-1]

    def is_first(self, node: Node) -> bool:
        """Whether it is the first of its siblings."""
        return self._children[self._parent(node)][0] is node

    def parts(self, conversation_id: str, shown_id: str, shown: Sequence[Node]) -> Iterator[_Part]:
        """All branches that leave the one that is shown, and those that leave them."""
        on_path = {node.id: node for node in shown}
        waiting: list[tuple[Node, str | None]] = []
        for place in (None, *on_path):
            waiting += self._leaving(place, on_path, shown_id)
        while waiting:
            first, predecessor_id = waiting.pop(0)
            own = self._first_ones(first)
            part_id = f"{conversation_id}-part-{short_digest(first.id)}"
            yield _Part(
                part_id,
                [*self._question_before(first), *own],
                predecessor_id,
                has_words=any(piece.text.strip() for node in own for piece in node.pieces),
            )
            on_way = {node.id: node for node in own}
            for place in on_way:
                waiting += self._leaving(place, on_way, part_id)

    def _leaving(
        self, place: str | None, path: Mapping[str, Node], loop_id: str
    ) -> Iterator[tuple[Node, str | None]]:
        """Children that are not on a path; with the path's run loop where they came after it."""
        came = False
        for child in self._children.get(place, ()):
            if child.id in path:
                came = True
            else:
                yield child, loop_id if came else None

    def _first_ones(self, node: Node) -> list[Node]:
        """A message, the first that followed it, the first that followed that, and so on."""
        path = [node]
        while after := self._children.get(path[-1].id):
            path.append(after[0])
        return path

    def _question_before(self, node: Node) -> list[Node]:
        """From the last message of a person before this one; none if this is one."""
        path: list[Node] = []
        at: Node | None = node
        while at is not None and not at.is_of_user:
            parent = self._parent(at)
            at = None if parent is None else self._nodes[parent]
            if at is not None:
                path.append(at)
        return path[::-1]

    def _parent(self, node: Node) -> str | None:
        return node.parent if node.parent in self._nodes else None
