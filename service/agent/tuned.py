"""Every tuned number of the agent, and the data it was tuned on."""

from __future__ import annotations

# --- the router. A coarse grid over cosines of multilingual-e5-small on three routing sets (IRC,
# Chinese service dialogues, airline dialogues; developers' part): these cosines lie so close
# together that they settle only the clear cases, and the rest is for the model to judge.
ROUTER_TURNS = 6
"""How many of a loop's newest turns a message is compared with, besides the goal."""
ROUTER_TURN_CHARACTERS = 400
"""How much of a turn is compared."""
ROUTER_RECENCY_WEIGHT = 0.02
"""What a factor of e in the minutes since a loop's last word takes off its cosine."""
ROUTER_JOIN_ABOVE = 0.86
"""Score from which a message joins without asking the model."""
ROUTER_NEW_BELOW = 0.80
"""Score below which a message opens a new loop without asking the model."""

# --- recall. Set by hand on a dozen English and Chinese questions and remembered sentences of our
# own: what answers them lay at 0.85 and above, the rest mostly below 0.83.
RECALL_HITS = 4
"""How many hits of long-term memory a new loop is given."""
RECALL_LAST_WORDS = 6
"""How many of a finished loop's last segments the loop that takes it up is given."""
RECALL_MIN_COSINE = 0.83
"""Cosine (multilingual-e5-small) below which a hit says nothing about the matter."""
RECALL_MIN_COSINE_CJK = 0.865
"""The same for what is said in Chinese, where unrelated sentences reach 0.86."""
RECALL_WITHIN_COSINE = 0.04
"""How much farther than the nearest hit another one may be."""
RECALL_SHARE = 0.04
"""Most of a model's window that recall takes: a model on one core reads 90 tokens a second."""
RECALL_MIN_LEXICAL = 0.5
"""Where only words can be searched: the share of the best hit's score that counts as near."""
RECALL_TIMES = 3
"""How many times `agent.recall_tokens` a loop is given in all."""

# --- recall on a change of matter. Set by hand on 44 English and 44 Chinese continuations of our
# own (multilingual-e5-small): of 40 about another matter that memory knows, all are recalled (by
# words alone 33); of 48 others, two are given something needless (by words alone one). On 40 that
# were written afterwards (tests/agent/continuations.py), with all of these conversations open and
# remembered beside each other: all of 20, and none of 20. These 40 have also shown that questions
# and requests are not to count where no word is shared.
RECALL_NEARER = 0.04
"""How much nearer (cosine) to what a person says a hit must be than anything said in the loop."""
RECALL_NEARER_SHARING = 0.01
"""The same for a hit with a word of the person's that nobody has said in the loop."""
RECALL_LEAST_TERMS = 4
"""Different terms that a hit must hold: fewer say nothing that could be remembered."""
RECALL_LEAST_OVERLAP = 0.3
"""Where only words can be searched: the share of what was said that a hit must hold."""

# --- the window and compaction. Untuned: reasoned defaults that no benchmark has confirmed.
CONTEXT_SHARE = 0.8
"""Share of the window, less the answer, from which on the oldest rounds are summarised: the rest is
for what is recalled, and for text that takes more tokens than estimated."""
COMPACT_TO = 0.5
"""Share of that to which the conversation is brought down, so that it is not soon at the end."""
COMPACT_LEAST_GAIN = 0.05
"""Share of that which must be won for it to be worth the while."""
COMPACT_AT_ONCE = 4
"""How many summaries are asked of the model side by side."""
GROUP_TOKENS = 1000
"""Rounds that are shorter are summarised together with those after them, up to this length."""
KEPT_WORDS_TOKENS = 150
"""Up to which length a person's words stay word for word when their round is summarised."""
SUMMARY_SHARE = 0.125
"""How long a summary may be, as a share of what it stands for, between the next two bounds."""
SUMMARY_LEAST_TOKENS = 120
SUMMARY_MOST_TOKENS = 600
SUMMARY_MOST_SHARE = 0.0625
"""Nor may one summary be longer than this share of what a call may hold."""
SUMMARIES_SHARE = 0.3
"""Share of what a call may hold from which on the oldest summaries are merged into one."""
MATERIAL_SHARE = 0.7
"""How much of the window a request for a summary may fill; the longest texts in it are cut."""
CUT_LEAST_TOKENS = 100
"""A text that is cut to fit the window keeps at least so much."""

# --- notes. Untuned: reasoned defaults that no benchmark has confirmed.
NOTES_BATCH_TOKENS = 3000
"""How much of what was said the model is given at a time to write notes from."""
NOTES_KNOWN = 40
"""How many known notes it is told of then."""
NOTES_SHOWN_TOKENS = 1500
"""How much of their sentences it is shown."""
