"""Every tuned number of the agent, and the data it was tuned on."""

from __future__ import annotations

# --- the router. The trained model's own numbers stand in routing/model.json.
ROUTER_TURN_CHARACTERS = 400
"""How much of what the assistant said is embedded: as in the training."""
ROUTER_MOST_CANDIDATES = 48
"""How many open loops are weighed, those that changed last: the training had no more."""
ROUTER_MOST_STEPS = 200
"""How many of a loop's iterations are looked through for its newest turns."""
ROUTER_SURE_ABOVE = 0.6
"""The default of `router.sure_above`. On IRC that a model was not trained on, 29 % of the messages
lay below; it was right about 45 % of these and 87 % of the others, and what is right was among what
the language model is offered for 97 % of them."""
ROUTER_LLM_RELIABILITY = 0.7
"""How often the language model is taken to be right about messages that the trained one is unsure
of. A guess: no model at an endpoint was measured."""
ROUTER_LLM_CANDIDATES = 6
"""How many loops it is given to choose from."""
ROUTER_LLM_LEAST = 0.02
"""Probability below which a loop is not among them."""
ROUTER_LLM_SHARE = 0.06
"""Share of its window that their words and the message may take."""
ROUTER_LLM_TOKENS = 1200
"""The same in tokens, however large the window is."""
ROUTER_LLM_MESSAGE_SHARE = 0.3
"""Share of these that the message may take. This and what follows for it: untuned defaults."""
ROUTER_LLM_LABEL_TOKENS = 20
"""How long the name of a loop may be,"""
ROUTER_LLM_MOST_TURNS = 4
"""how many of its newest turns are shown,"""
ROUTER_LLM_TURN_TOKENS = 60
"""how long each of them may be, and the message at least,"""
ROUTER_LLM_LEAST_TURN_TOKENS = 8
"""and how much room there must be left for one."""
ROUTER_LLM_READ_CHARACTERS = 8000
"""How much of a long text is looked at to shorten it."""
ROUTER_LLM_ANSWER_TOKENS = 512
"""How long the judgement may be: a model that thinks first needs more than the label."""
ROUTER_KEPT_VECTORS = 4096
"""How many vectors of what was said are kept: 6 MB of them. This and the next two: untuned."""
ROUTER_KEPT_CHARACTERS = 2000
"""How long a text may be that is kept beside its vector."""
ROUTER_AHEAD_BATCH = 8
"""How many are made at a time ahead of time: a message shall not wait for long."""

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
RECALL_COMPARED_TURNS = 6
"""How many of a loop's newest turns a message is compared with, besides the goal."""
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

# --- moving a message.
MOVE_MOST_ATTEMPTS = 100
"""How often a move begins anew when something came in between. A guard: one or two are enough."""
MOVE_PATIENCE_SECONDS = 60.0
"""How long a move waits for a loop that is at work. Reasoned: longer than most answers take, and
shorter than clients wait for theirs."""

# --- asking a person where a message belongs. Untuned: reasoned defaults.
ASKED_MOST_CANDIDATES = 3
"""How many matters a person is given to choose from, besides a new one."""
ASKED_LEAST_PROBABILITY = 0.05
"""How likely each of them is at least, but for the likeliest."""

# --- several matters in one message. Reasoned, and checked on 40 lists of our own, written before
# the rules (tests/agent/matter_lists.py): longer lists are rather texts to be worked on.
MATTERS_MOST = 9
"""How many matters one message may hold; what lists more stays whole."""
MATTERS_MOST_CHARACTERS = 4000
"""How long a message may be that is looked at for several matters."""

# --- calibrating the router by corrections. Chosen on simulated decisions whose right map is known
# (tests/agent/test_calibration.py): no data of real persons has confirmed them.
CALIBRATION_LEAST_CORRECTIONS = 12
"""How many decisions a person must have corrected, or been asked about."""
CALIBRATION_LEAST_RIGHT = 10
"""How many others must have been right: corrections alone, mostly of one kind, would have it never
do again what it was corrected for."""
CALIBRATION_LEFT_ALONE = 0.5
"""What a decision counts that nobody has corrected: not all that is wrong is corrected. With
calibrated probabilities, the weight at which they stay as they are is about the share of the wrong
decisions that persons correct: taken to be a half."""
CALIBRATION_SHARPNESS_SPREAD = 0.3
"""Standard deviation of the prior of 1/T, around 1."""
CALIBRATION_OFFSET_SPREAD = 1.0
"""Standard deviation of the prior of b, around 0."""
CALIBRATION_MOST_STEPS = 50
"""Of Newton's method. A guard: a handful are enough."""
CALIBRATION_MOST_TEMPERATURE = 4.0
"""T lies between 1 divided by this and this; beyond, something else is wrong."""
CALIBRATION_MOST_OFFSET = 3.0
"""b lies between minus this and this: odds times or divided by 20."""
CALIBRATION_LEAST_GAIN = 0.01
"""Nats by which the expected log loss must fall, and"""
CALIBRATION_MOST_LOST = 0.02
"""the share of decisions of which the accuracy may fall with it. (Where no calibration was needed,
one that was taken nevertheless has cost 0.02 nats; where one was, it has won 0.03 to 0.05.)"""
CALIBRATION_MOST_DECISIONS = 2000
"""How many decisions count, the newest."""
CALIBRATION_FOLDS = 10
"""Into how many parts decisions are divided to tell how good a calibration would be."""
