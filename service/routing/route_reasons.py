"""Which features spoke for a decision, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from service.routing.features.answer_kinds import KIND_FEATURES
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    HABITS_OF_LATE,
)
from service.routing.features.lexical_features import TIME_FEATURES

_MOST_NAMED = 2
_LEAST_SHARE = 0.2
"""Share of all that spoke for it from which on something is named."""

_CLOSE = "it is close in meaning to what was said there"
_REPLY = "it replies to what was said there last"
_WORDS = "it shares words with what was said there"
_NAMES = "it names what only that topic speaks of"
_POINTS = "it points back to what was spoken of there"
_SAID = "it does not repeat what was settled there"
_RECENT = "it was spoken of just now"
_ASKED = "a question was asked there last"
_OPEN = "that topic is not closed yet"
_MANNER = "it is said in the same manner"
_STAGE = "it suits how far that topic has come"

JOIN_THEMES: Mapping[str, str] = {
    **{
        name: _CLOSE
        for name in CANDIDATE_FEATURES
        if name.startswith(("cos_", "lead_", "standing_", "centred_"))
    },
    "turns_since_nearest": _CLOSE,
    **dict.fromkeys(("cos_last_assistant", "lead_last_assistant"), _REPLY),
    **{name: _WORDS for name in CANDIDATE_FEATURES if name.startswith(("overlap_", "pieces_"))},
    **dict.fromkeys(("lead_overlap", "lead_last_two", "lead_pieces", "shared_phrases"), _WORDS),
    **dict.fromkeys(("own_words", "own_phrases", "own_pieces"), _NAMES),
    **dict.fromkeys(("codes_shared", "codes_elsewhere"), _NAMES),
    **dict.fromkeys(("heads_in_last", "heads_in_loop"), _POINTS),
    "said_before": _SAID,
    **dict.fromkeys((*TIME_FEATURES, "beyond_pace"), _RECENT),
    **dict.fromkeys(
        ("last_asks", "last_asks_yes_or_no", "last_is_question", "last_requests", *KIND_FEATURES),
        _ASKED,
    ),
    **dict.fromkeys(("closed", "dismissed", "last_bids_farewell"), _OPEN),
    **{name: _MANNER for name in CANDIDATE_FEATURES if name.startswith("same_")},
    **dict.fromkeys(("habits_apart", "lead_habits"), _MANNER),
    **dict.fromkeys(("turns", "has_assistant", "last_length", "last_follows_up"), _STAGE),
    **dict.fromkeys(("last_answers", "goal_is_question", "open_for", "turns_by_time"), _STAGE),
    **dict.fromkeys(("last_gap", "usual_gap"), _STAGE),
}
"""What a feature of a candidate is about. The message alone tells nothing between them."""
_READ = "it goes on from what was said there"

_OPENS = "it reads like the opening of a topic"
_FAR = "nothing active is close to it in meaning"
_STRANGE = "its words are new"
_LATE = "nothing was spoken of just now"
_HABIT = "you have changed topics like this of late"
_NO_SIGN = "it has no sign of going on with anything"


def _tells_nearness(name: str) -> bool:
    return any(kind in name for kind in ("_cos_", "_standing_", "_centred_"))


NEW_THEMES: Mapping[str, str] = {
    **dict.fromkeys(("greets", "requests", "length", "relative_length"), _OPENS),
    **dict.fromkeys(("distinct_words", "is_question", "codes"), _OPENS),
    **dict.fromkeys(("follows_up", "answers", "bids_farewell", "points_back"), _NO_SIGN),
    **dict.fromkeys(
        ("most_last_asks", "most_has_assistant", "most_said_before", "most_fits_kind"), _NO_SIGN
    ),
    **{name: _FAR for name in CONTEXT_FEATURES if _tells_nearness(name)},
    **{name: _STRANGE for name in CONTEXT_FEATURES if "_overlap_" in name},
    **dict.fromkeys(("unknown_words", "unknown_codes", "most_own_words"), _STRANGE),
    **dict.fromkeys(("most_pieces_loop", "most_own_pieces"), _STRANGE),
    **dict.fromkeys(("most_shared_phrases", "most_codes_shared"), _STRANGE),
    **dict.fromkeys(("newest_seconds", "newest_closed"), _LATE),
    **dict.fromkeys(("open_loops", *HABITS_OF_LATE), _HABIT),
}


def _grouped(themes: Mapping[str, str]) -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for name, words in themes.items():
        groups.setdefault(words, set()).add(name)
    return {words: frozenset(names) for words, names in groups.items()}


JOIN_GROUPS = _grouped(JOIN_THEMES)
NEW_GROUPS = _grouped(NEW_THEMES)
"""Which features are about the same."""


def for_join(gains: Sequence[float]) -> str:
    """What spoke for a candidate.

    Args:
        gains: what each of `JOIN_GROUPS` added to its score, and last what its single turns did:
            that is about all of these, and is named only where nothing else spoke.
    """
    *of_groups, of_turns = gains
    reason = _named(JOIN_GROUPS, of_groups)
    if not reason and of_turns > 0:
        return _READ
    return reason or "it fits the others less"


def for_new(gains: Sequence[float]) -> str:
    """What spoke for a new topic: `gains` by each of `NEW_GROUPS`."""
    return _named(NEW_GROUPS, gains) or "it fits nothing that is active"


def _named(groups: Mapping[str, Collection[str]], gains: Sequence[float]) -> str:
    sums = zip(groups, gains, strict=True)
    spoke = sorted((each for each in sums if each[1] > 0), key=lambda each: -each[1])
    whole = sum(gained for _, gained in spoke)
    named = [words for words, gained in spoke[:_MOST_NAMED] if gained >= _LEAST_SHARE * whole]
    return ", and ".join(named)
