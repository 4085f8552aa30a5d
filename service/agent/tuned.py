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
