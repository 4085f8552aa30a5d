"""Every tuned number of the agent, and the data it was tuned on."""

from __future__ import annotations

# --- the router. The trained model's own numbers stand in routing/routing_model.json.
ROUTER_TURN_CHARACTERS = 400
"""How much of what the assistant said is embedded: as in the training."""
ROUTER_MOST_CANDIDATES = 48
"""How many open loops are weighed, those that changed last: the training had no more."""
ROUTER_MOST_STEPS = 200
"""How many of a loop's iterations are looked through for its newest turns."""
ROUTER_SURE_ABOVE = 0.6
"""The default of `router.sure_above`. On IRC that a model was not trained on, 29 % of the messages
lay below; it was right about 45 % of these and 87 % of the others, and what is right was among the
six likeliest or new for 97 % of them."""
ROUTER_UNSURE_BELOW = 0.6
"""The default of `router.unsure_below`. On 46,984 messages of eight sets, each judged by a model
trained on other files (`calibration` in routing/routing_model.json), 29 % lay below, and 70 % of
the wrong decisions; 51 % of what lay below was wrong, and 91 % of the rest right. At .5 it was 19 %
and 52 %, at .7 39 % and 82 %, with one in two shown for nothing."""
ROUTER_MOST_ALTERNATIVES = 3
"""How many loops an unsure route names that it could have been; each can be moved to by a key."""
ROUTER_ALTERNATIVE_LEAST = 0.05
"""Probability below which a loop is not among them. This and the last: set by hand."""
ROUTER_LLM_RELIABILITY = 0.7
"""How often the language model is taken to be right about messages that the trained one is unsure
of. A guess: no model at an endpoint was measured. It makes the confidence, not the choice; what a
judge of another reliability is worth stands in docs/routing.md."""
ROUTER_LLM_CANDIDATES = 3
"""How many loops it is given to choose from, the likeliest: few are easier to choose among, and
leave each more room. Of the messages below `router.sure_above` that belong to an open loop, it was
among the two likeliest for 80 %, the three for 96 %, the six for 99 % (of 2,000 of bookings and of
talk about films and music, judged by a model that had seen neither, 485 were below, 398 of an open
loop). Of 5,776 of eight sets, six of them seen by the model: 85, 94 and 98 % (1,077; 915)."""
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

# --- recall. What is not about the same is told by `RELATED_FROM` of
# `service.memory.memory_tuning`. Set by hand on a dozen English and Chinese
# questions and remembered sentences of our own.
RECALL_HITS = 4
"""How many hits of long-term memory a new loop is given."""
RECALL_LAST_WORDS = 6
"""How many of a finished loop's last segments the loop that takes it up is given."""
RECALL_PATIENCE_SECONDS = 1.0
"""How long a message waits for what was just said elsewhere to be in memory: mostly some
hundredths of a second; a large import takes longer, and is not waited for."""
RECALL_WITHIN_COSINE = 0.04
"""How much farther than the nearest hit another one may be."""
RECALL_SHARE = 0.04
"""Most of a model's window that recall takes: a model on one core reads 90 tokens a second."""
RECALL_TIMES = 3
"""How many times `agent.recall_tokens` a loop is given in all."""

# --- recall on a change of topic. Set by hand on 44 English and 44 Chinese continuations of our
# own (multilingual-e5-small): of 40 about another topic that memory knows, all are recalled (by
# words alone 33); of 48 others, two are given something needless (by words alone one). On 40 that
# were written afterwards (tests/support/agent/continuations.py), with all of these conversations
# open and remembered beside each other: all of 20, and none of 20. These 40 have also shown that
# questions and requests are not to count where no word is shared.
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

# --- what is remembered that seems to answer a question (e5-small). Chosen on what was told and
# asked back in data/answers/dev: 12 of 12 pieces shown hold the answer (15 of 15 in test), for
# 27 of 45 questions; any words told in a conversation count as answer there, and `test` was looked
# at with `dev`, so that it is no held-out figure. Of everyday-dev in
# data/memory/relevance, where half the questions are near misses, only 12 of 22 do (18 of 26 in
# everyday-test): no threshold of relevance or of shared words that was tried brings that to 95 %.
ANSWERS_LEAST_RELEVANCE = 0.8
"""How relevant a piece must be."""
ANSWERS_LEAST_SHARED = 0.5
"""The share of the question's words of content that it must hold."""

# --- care: what a person has said of their limits. What tells them, and where they matter, is
# fitted by `research.care.fit_limits` to data/care; these are chosen by hand, on its dev part.
CARE_MOST = 3
"""How many limits stand beside a message; and the newer ones that speak of the same."""
CARE_OWN_MESSAGES = 64
"""How many of a loop's newest iterations are looked through: each sentence is embedded once."""
CARE_CANDIDATES = 48
"""How many of memory's user messages are asked for by the message, and as many by the model."""
CARE_LOOKED_AT = 16
"""Of how many of these the sentences are embedded: each takes about ten milliseconds, once."""
CARE_ROUGHLY = -2.5
"""The logit from which a whole remembered message may hold a sentence that tells a limit."""
CARE_TELLS_ONLY = 1.0
"""The logit from which a sentence surely tells a limit: a message of such alone asks nothing."""
CARE_SAME_TOPIC = 0.42
"""The cosine, as seen from the mean of all limits, from which two may contradict each other: of ten
that take something back all but one lie above it, and of others few."""
CARE_SENTENCES = 8
"""How many sentences of a message are looked at: what is longer is seldom of oneself."""
CARE_LONGEST_SENTENCE = 240
"""Characters."""

# --- what a small model is shown: whether a message is personal is fitted by
# `research.fit_personal` to data/personal; this is chosen by hand, on dev of data/answers.
PERSONAL_CARRIES = 0.5
"""How much the most personal of the messages before counts: "And Nora?" goes on with it."""
PERSONAL_LOOKED_AT = 4
"""How many of the newest messages are looked at."""

# --- the window and compaction. Untuned: reasoned defaults that no benchmark has confirmed.
CONTEXT_SHARE = 0.8
"""Share of the window, less the answer, from which on the oldest rounds are summarised: the rest is
for what is recalled, and for text that takes more tokens than estimated."""
COMPACT_TO = 0.5
"""Share of that to which the conversation is brought down, so that it is not soon at the end."""
COMPACT_LEAST_GAIN = 0.05
"""Share of that which must be won for it to be worth the while."""
TOOL_SHARE = 0.1
"""Share of the window that the descriptions of all tools may take; past it, those of MCP servers
are left out until they are searched for, and what was found may take as much again."""
TOOLS_FOUND = 8
"""How many tools one search finds at most."""
TOOL_NAME_WEIGHT = 2
"""How much more a word of a search counts in a tool's name than in its description."""
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

# --- a model that is down.
MODEL_DOWN_SECONDS = 60.0
"""How long its fallback is asked at once, before it is tried again. Reasoned: a message in a minute
waits for it, and an endpoint that is up again is soon back in use."""
MODEL_DOWN_MOST_SECONDS = 3600.0
"""The longest that it is passed over where it asks for a longer wait itself."""

# --- what a call may use at the very most, reserved under a cap on spending. Reasoned.
SPEND_MESSAGE_TOKENS = 8
"""What a message takes besides its words: its role, and the marks around it."""
SPEND_ANSWER_TOKENS = 8192
"""How long an answer may be, thinking included, where neither ``llm.max_tokens`` nor the call
bounds it: long enough for models that think first. At most half of the model's window."""

# --- moving a message.
MOVE_MOST_ATTEMPTS = 100
"""How often a move begins anew when something came in between. A guard: one or two are enough."""
MOVE_PATIENCE_SECONDS = 60.0
"""How long a move waits for a loop that is at work. Reasoned: longer than most answers take, and
shorter than clients wait for theirs."""

# --- schedules. Untuned: reasoned defaults.

SCHEDULE_GRACE_SECONDS = 120.0
"""How long after its time something still counts as on time: longer than a start of the daemon and
a busy machine take, and no longer than a person would wait before they wonder."""
SCHEDULE_LOOK_SECONDS = 30.0
"""How often the clock is looked at while nothing is due: clocks are set, machines sleep."""
SCHEDULE_KEPT_ROWS = 1_000
"""How many of its newest times a schedule keeps."""
SCHEDULE_KEPT_DAYS = 90
"""How long one that has ended is kept, once its owner has been told."""

# --- asking a person where a message belongs. Untuned: reasoned defaults.
ASKED_MOST_CANDIDATES = 3
"""How many topics a person is given to choose from, besides a new one."""
ASKED_LEAST_PROBABILITY = 0.05
"""How likely each of them is at least, but for the likeliest."""

# --- several requests in one message. Reasoned, and checked on 40 lists of our own, written before
# the rules (tests/support/agent/request_lists.py): longer lists are rather texts to be worked on.
SPLIT_MOST_REQUESTS = 9
"""How many requests one message may hold; what lists more stays whole."""
SPLIT_MOST_CHARACTERS = 4000
"""How long a message may be that is looked at for several requests."""

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

# --- reading which option was chosen. Set by hand on the choices of data/routing/waiting (dev).
CHOICE_LEAST_LIKENESS = 0.85
"""How like an option (0 to 1, difflib's ratio) a misspelling of it is at least."""
CHOICE_MOST_OTHER_WORDS = 4
"""How many words beside an option may be said that are of none: more is a request, no choice."""

# --- loops that wait for a person.
EXPECTED_MOST = 0.97
"""How likely a message is at most said to the loops that wait."""
EXPECTED_WORDS_ONLY_WEIGHTS = {
    "opens": 0.0,
    "cos_question": 0.0,
    "cos_goal": 0.0,
    "cos_options": 0.0,
    "cos_lead": 0.0,
    "shares_words": 2.95,
    "shares_han": 2.58,
    "fits_kind": 1.94,
    "fits_short": 0.5,
    "misfits_kind": -0.42,
    "names_option": 1.23,
    "length": -1.12,
    "is_fragment": 2.02,
    "is_question": -1.61,
    "question_shares": 2.98,
    "question_of_terms": 3.88,
    "looks_up": -4.02,
    "is_request": -2.39,
    "request_for_words": 0.67,
    "answers": 0.48,
    "declines": 2.12,
    "points_back": 3.5,
    "approve": 0.08,
    "approve_question": 0.57,
    "approve_decides": 1.22,
    "select": -0.13,
    "yes_or_no": 0.14,
    "han": 0.34,
    "han_question": -0.4,
    "other_script": -0.27,
    "constant": 0.72,
}
"""What each of `EXPECTING_FEATURES` counts where there are no vectors: logistic regression on
data/routing/waiting/dev.jsonl (`research.fit_waiting`). Of scenes that it was not fitted to,
4.9 % of what was said in Chinese to the question went elsewhere, and 2.5 % of the new
topics were taken; in English 4.0 % and 4.8 %. The two labels of each language count
alike, but what is said to the question half as much again."""
EXPECTED_WEIGHTS = {
    "opens": -0.82,
    "cos_question": 1.3,
    "cos_goal": 0.54,
    "cos_options": 0.64,
    "cos_lead": 0.74,
    "shares_words": 1.97,
    "shares_han": 0.9,
    "fits_kind": 2.14,
    "fits_short": 0.95,
    "misfits_kind": -0.2,
    "names_option": 0.62,
    "length": -0.31,
    "is_fragment": 1.91,
    "is_question": -1.1,
    "question_shares": 1.37,
    "question_of_terms": 3.67,
    "looks_up": -3.51,
    "is_request": -2.52,
    "request_for_words": 0.25,
    "answers": 0.51,
    "declines": 1.81,
    "points_back": 2.2,
    "approve": 0.17,
    "approve_question": 0.73,
    "approve_decides": 0.76,
    "select": -0.27,
    "yes_or_no": 0.04,
    "han": -1.29,
    "han_question": -0.82,
    "other_script": 1.66,
    "constant": -0.7,
}
"""The same with vectors (multilingual-e5-small), each reply with and without other loops beside it:
in Chinese 4.0 % went elsewhere, and 2.2 % were taken; in English 4.8 % and 6.0 %."""

CLAIM_LIKELY = 0.8
CLAIM_POSSIBLE = 0.3
"""From which probability on a sentence claims a deed by itself, and where a pattern fits. Chosen on
data/claims: of sentences that were left out of the fit, 88 of 100 at .8 claim one (85 in Chinese),
most of the others made to look like claims; .7 costs four points of that and wins nine claims more
of 100 (fourteen). .3 to .5 do the same to what fits a pattern."""
