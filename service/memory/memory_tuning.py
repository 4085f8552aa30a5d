"""Every number in long-term memory that was chosen by measuring, or still waits to be.

Each says on which data it was tuned. "Untuned" means a reasoned default that no benchmark has
confirmed: change it when one does, and say here which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

SEGMENT_TOKENS = 256
"""Most tokens in a segment, by `token_estimates.estimate_dense_tokens`: about 1,000 Latin letters
or 340
Chinese characters. Half of the bundled model's window of 512. By its own tokenizer, texts invented
for the purpose come to at most 280 (English), 350 (Chinese), 280 (code), 280 (emoji), 430 (JSON,
tables, addresses, hexadecimal), 490 (signs alone), 560 (words of random capitals) and 680 (base64):
of the last two the end is not embedded."""

EMBEDDED_TOKENS = 512
"""How much of a text reaches the embedder, by `token_estimates.estimate_tokens`. Untuned; segments
are
shorter, so it bounds queries: the engine takes a minute for a quarter of a million characters."""

SMALLEST_PIECE = 0.25
"""A border counts only when the piece before it fills at least this share of a segment. Untuned."""

HNSW = {"ef_search": 100, "ef_construction": 200, "max_neighbors": 16}
"""Parameters of Chroma's graph. Measured on 100,000 random vectors of 384 numbers in 2,000 clusters
around one direction, 200 queries, one core of two that were busy:

    ef_search, ef_construction, max_neighbors   60 nearest   100 nearest   query     added
    100, 100, 16 (Chroma's own)                 97.0 %       86.2 %        1.3 ms    930 a second
    200, 100, 16                                98.5 %       92.2 %        2.1 ms
    100, 200, 32                                98.6 %       91.6 %        2.1 ms    470 a second
    200, 200, 32                                99.5 %       96.4 %        3.1 ms
    400, 200, 32                                99.9 %       98.9 %        5.1 ms

All find the ten nearest (99.9 % or more), of which `SEEDS` are not many more; when more are asked
for than `ef_search`, Chroma raises it to that. Of 44,846 texts of conversations (those that routing
was trained on), 400 of which were asked for, the fifteen nearest were found to 99.6 % with 16
neighbours, 99.7 with 24 and 99.8 with 32, added 3,400, 860 and 1,200 a second beside other work.
Half as many neighbours take 130 bytes less a segment; an index that is there keeps what it was
built with."""

QUERY_TERMS = 256
"""Most different words of one query that are looked up. Untuned; a dialogue of 250 Chinese
characters still goes in whole."""

EMBEDDING_BATCH = 16
EMBEDDING_BATCH_TOKENS = 2048
"""Most segments, and most estimated tokens, embedded in one go. With 32, the bundled model is a
twentieth faster. A batch takes it half a second, its slow engine two; shutting down may wait so
long."""

POSTINGS = 6_000
"""How many places of a query's words in the index of words may be read to find candidates. Measured
at 100,000 segments: about 1.5 microseconds a place; all words of a dialogue stand in 300,000."""

COMMON_WORD = 200
"""From how many places on their number is kept in mind. Untuned: counting so many takes longer than
the search that needs it."""

FREQUENCIES_OUTDATED_BY = 0.1
"""By which share the number of segments may change before numbers kept in mind are counted anew.
Untuned: frequencies are compared by their logarithms."""

WORDS_WITH_PREFIX = 50
"""Most words that the beginning of a word stands for. Untuned."""

SEEDS = 15
"""How many segments each index offers to the ranking, which looks at those beside them as well. On
the data of `RANKING`, 15 to 40 give the same recall at 5 and 10 within half a point; where tokens
are compared, 15 do as well as 50, and 10 lose two or three points at 10 of MADial."""

CONTEXT = 2
"""How many segments on either side of a seed the ranking looks at. One costs 2 points of recall at
50 on LoCoMo; three bring nothing."""


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """The numbers in the formula of `ranking`, in its own units."""

    meaning: float
    """A standard deviation of the passage's own cosine is the unit of all weights."""
    meaning_nearby: Mapping[int, float]
    """Of the passages so many places before (negative) or after."""
    meaning_answered: float
    """Of the passage right before, if it is a question."""
    meaning_of_loop: float
    words: float
    words_nearby: Mapping[int, float]
    """A word so many places away counts as this share of one in the passage itself."""
    words_answered: float
    """How much more it counts in a question right before."""
    words_of_loop: float
    question: float
    """Of a passage that is a question: it seldom answers one."""
    time: float
    saturation: float
    """BM25's k1."""
    length_share: float
    """BM25's b."""
    usual_spread: float
    """Standard deviation of the cosines of one search."""
    usual_spread_counts: int
    """As how many cosines of a search the usual spread counts."""
    meaning_by_words: float
    """The meaning of a passage that has no vector but all of the question's words."""
    meaning_by_cosine: float = 1.0
    """The meaning of a passage whose cosine is a standard deviation above the average one."""


RANKING = RankingWeights(
    meaning=1.0,
    meaning_nearby={-2: 0.3, 1: 0.15},
    meaning_answered=0.6,
    meaning_of_loop=1.0,
    words=18.0,
    words_nearby={-2: 0.2, -1: 0.2, 1: 0.3, 2: 0.1},
    words_answered=0.5,
    words_of_loop=7.0,
    question=-2.0,
    time=6.0,
    saturation=1.2,
    length_share=0.2,
    usual_spread=0.028,
    usual_spread_counts=20,
    meaning_by_words=4.0,
)
"""Tuned with e5-small on five of LoCoMo's conversations (1,018 questions), half of MADial-Bench in
both languages (80 dialogues each) and three scenarios of BFCL's memory set (69 questions): a
listwise logistic model with weights of the right sign was fitted, then its weights were rounded and
most of them halved and raised by half, which moved the mean of recall at 5 and 10 by a point at
most. Recall at 5 / 10 in per cent: LoCoMo 74.0 / 82.7, MADial zh 62 / 75, en 64 / 74, BFCL 97 to
100 / 97 to 100. Each set fitted on the others alone (a conversation; both languages together;
BFCL): 73.5 / 82.2, 62 / 73, 65 / 74, the same; these are too kind, since parts, stop words and the
texts of a dialogue were chosen with all sets in view, the last among ten choices that lie 58 to 64
in zh. Words alone: LoCoMo 72.3 / 79.1, MADial zh 52 / 61, en 49 / 60. MiniLM, with which nothing
was tuned, has 73.6 / 82.7 on LoCoMo. `usual_spread` is the median of the same searches with
e5-small. `meaning_by_words` is the slope of meaning against words shared there. `time` is
untuned: a third of what all the question's words count."""


RANKING_BY_TOKENS = replace(
    RANKING,
    meaning_nearby={-2: 0.4, 1: 0.1},
    meaning_answered=0.5,
    meaning_of_loop=1.0,
    words=5.0,
    words_of_loop=3.2,
    question=-1.6,
    time=2.3,
    usual_spread=0.068,
    meaning_by_cosine=0.86,
)
"""Where the tokens of passages tell their meaning. Fitted by `research.fit_ranking` with e5-small
to the five conversations of LoCoMo (CC BY-NC 4.0), half of MADial-Bench (MIT) and three scenarios
of BFCL (Apache-2.0) that `RANKING` was tuned on, and rounded; the optimum is flat: a prior ten or a
hundred times as strong, or other folds, halve or double some weights and move recall by half a
point. Recall at 5 / 10 with `RANKING`, with these, and fitted without the conversation, or without
both languages: LoCoMo 75.6 / 83.8, 78.3 / 85.4, 77.8 / 84.9; MADial zh 58.7 / 73.2, 66.4 / 74.7,
66.4 / 74.2; en 62.1 / 75.4, 67.1 / 77.0, 64.3 / 76.3; BFCL as before. A weight for the cosine of
the vectors beside these comes out as 0. `usual_spread` and `meaning_by_cosine` are medians of the
same searches."""


@dataclass(frozen=True, slots=True)
class FeedbackWeights:
    """How much of the first hits is looked for behind them, see `feedback`."""

    first: int
    """How many are taken for relevant, and keep their places."""
    spread: float
    """In points of score: by so much less, a first hit counts about a third."""
    weight: float
    """Of a deviation of likeness, in points of score."""


FEEDBACK = FeedbackWeights(first=5, spread=2.0, weight=0.6)
"""Tuned with e5-small on the data of `RANKING_BY_TOKENS`: recall at 10 of LoCoMo 85.5 to 85.9, of
its questions with several pieces of evidence 49 to 51, of MADial zh 74.7 to 76.3, en 77.0 to 78.6.
Each of 27 combinations of 3, 5 and 8 first hits, spreads of 2, 4 and without end and weights from
0.3 to 0.8 won on all three, LoCoMo 0.2 to 0.6, MADial up to 3."""


@dataclass(frozen=True, slots=True)
class TokenMatchWeights:
    """How much a token of a question says, by how little it was to be expected, in nats."""

    expected: float
    """What counts as nothing."""
    most: float
    """More than so much above it counts the same."""
    least: float
    """What any token has besides."""
    kept_from: float
    """Of what is remembered, tokens are kept that say at least so much."""
    fewest_kept: int
    """But so many of a text in any case."""


TOKEN_MATCHES = TokenMatchWeights(expected=5.0, most=7.0, least=0.5, kept_from=7.0, fewest_kept=4)
"""Tuned with e5-small on the data of `RANKING_BY_TOKENS`, by matches of tokens alone: recall at 5 /
10 of LoCoMo 60.5 / 70.2, MADial zh 65.1 / 74.5, en 65.3 / 78.7, where vectors alone have 42 / 51,
60 / 70 and 62 / 70. `kept_from` was chosen by recall of the whole ranking on two conversations of
LoCoMo and MADial in both languages: their mean at 5 and 10, 74.0 and 81.8 with all tokens, is the
same half a tenth more or less from 4 to 7, which leaves out 28 % of an English text's tokens and 17
% of a Chinese one's; 73.5 and 81.7 from 8, with 39 and 23 %. A share of each text's tokens costs
more than as many below a bound."""


@dataclass(frozen=True, slots=True)
class RelevanceWeights:
    """The weights of `relevance`, of what the best hits say, for a logit."""

    nearness: float
    """A standard deviation of the cosines of unrelated texts, over their mean."""
    match: float
    """Of the match of the best hit's tokens, about a cosine."""
    words: float
    """Of the share of the question's words, each counted by its idf, that one hit holds at most."""
    rarity: float
    """Of the idf of the words that one hit holds, in nats."""
    asked: float
    """Of the logarithm of how many words were asked for, one added."""
    segments: float
    """Of the logarithm of how many segments there are, `STORES_ALIKE` added."""
    constant: float


RELEVANCE_BY_TOKENS = RelevanceWeights(
    nearness=1.2, match=15.05, words=0.0, rarity=0.22, asked=-1.0, segments=-0.47, constant=-6.26
)
RELEVANCE = RelevanceWeights(
    nearness=1.6, match=0.0, words=2.22, rarity=0.31, asked=-1.95, segments=-0.81, constant=-0.31
)
RELEVANCE_BY_WORDS = RelevanceWeights(
    nearness=0.0, match=0.0, words=5.44, rarity=0.29, asked=-0.45, segments=-0.78, constant=1.79
)
"""Fitted by `research.fit_relevance` with e5-small's tokens, with its vectors and with words alone,
to questions asked of stores of 2 to 7,000 segments: the everyday conversations of our own in
data/memory/relevance (`everyday-dev`), a conversation of LoCoMo, half of MADial-Bench in both
languages, and, as stores that know nothing of what is asked, IRC, service dialogues and talk about
films (irc-dev, sgd-en, kdconv-zh). What is of the same topic and no answer counts three tenths. The
constant of the first was raised by 0.6 for small stores: of our own, 96 of 100 answers stay in
place of 93. Measured on questions that nothing was fitted to (`everyday-test` and another
conversation of LoCoMo), the best hit of a question that is answered is more relevant than that of
one that nothing has to do with for 98.8 of 100 pairs, by vectors for 98.0."""

RELATED_FROM = 0.25
"""Relevance from which on a hit seems to be about what was asked. In our own stores of up to 134
segments, of questions whose answer was found 96.6 % keep something, and 94.6 % the answer itself
(by words alone 99.5 and 98.6 %); of those that nothing has to do with, 12.9 % keep something (6.0
%). Of questions about a topic that was talked of, but not this of it, 69 % do (55 %): no floor
tells these from answers. Over all sets of the fit, 98.5 % of the answered keep something, and 17 %
of those that nothing has to do with."""

STORES_ALIKE = 20
"""Stores of fewer segments than about this are alike. 1, 10, 20, 40 and 100 were tried: with 1,
stores of a few segments keep a third of the strays, with 20 a sixth."""

RELEVANCE_FALLS = 0.2
"""By how much the logit of relevance falls with a point of score behind the best hit. Of the hits
that answer a question of our sets, 0.2 leaves 98 of 100 that 0 keeps, and of hits from other run
loops two thirds; at 0.3 it is 96 of 100, and four tenths."""

RELEVANCE_LOOKED_AT = 10
"""How many of the best hits tell whether anything is about the question. Untuned."""

SHORT_PASSAGE = 10
SHORT_PASSAGE_NEARER = 2.0
"""Below how many words a passage lies nearer to any question than it should, and by how much at
most, in deviations: "Great. Take care." is near to all. 5, 6, 8 and 10 words and 0 to 3 deviations
were tried; it wins a point of the strays."""

NOTES_FOUND = 3
NOTES_FOUND_SENTENCES = 5
"""Most notes that a search gives beside its hits, and most sentences of each. Untuned."""

NOTE_LEAST_SHARE = 0.34
"""Which share of a query's words, function words aside, a sentence of a note must hold to be found,
where the query does not name the note's subject. Untuned: two of five, one of two."""

NOTE_MOST_SENTENCES = 60
"""How many sentences a note keeps; the oldest give way. Untuned."""

PROBED_VECTORS = 64
PROBED_VECTORS_LOST = 0.2
"""How many vectors of an index are looked for when it is opened, and which share of them may not
be found before it counts as damaged. Measured on 2,500 vectors whose files were cut, emptied or
removed, one at a time: an index that lost its graph answers without an error, and misses 40 to 100
of 100. A sound one misses none of real texts, but up to 2 of 64 that are all equally far from each
other. It takes 0.2 seconds."""

PROBED_AMONG = 400
"""Among how many neighbours a vector is looked for that is not the nearest to itself. Of 100,000
vectors in a thousand clusters far from each other, a sound graph missed 28 of 100 at first, and
none among 400; Chroma looks no further than at the number that is asked for."""

PROBED_SAME = 0.01
"""Cosine distance within which such a vector has found itself, or one like it. Untuned."""

SAME_EMBEDDER = 0.95
"""Cosine from which on two vectors of one text are of the same model. Untuned: engines and
quantisations of one model differ by a hundredth, and two models agree in nothing."""

SAME_VECTORS = 0.995
"""Cosine from which on two engines of one model may take turns in one store. Untuned: torch's
agrees with the wheel's to .999 on every processor that it was run on."""

INDEX_BATCH = 256
"""How many vectors go into Chroma at a time."""

IMPORT_LINE_BYTES = 32_000_000
"""The longest line of an imported file, a run loop each. Untuned: some 5,000 pages of text."""

IMPORT_NESTING = 10_000
"""How many lists and objects of an imported archive may stand one in another. Untuned: archives of
conversations have about ten; a conversation with more than some hundreds is told as one of an
unknown form, and keeps none of the others out. Reading takes time by the square of this."""

IMPORT_BATCH_LOOPS = 200
IMPORT_BATCH_BYTES = 4_000_000
"""How many run loops, and about how many bytes of them, one commit of an import holds. Untuned: it
is what a crash may cost, and for how long others wait to write."""

INDEXED_AFTER = 64
"""After how many embedded segments Chroma gets them. Untuned; 64 take the bundled model two
seconds, after which they are found by their meaning."""

REST_BEFORE_ARCHIVING = 1.0
"""Seconds from a loop's coming to rest until what is done of it is archived. Untuned: short enough
that the next loop finds it, long enough that the answer is out and its listeners are served."""

FORGOTTEN_LOOKED_FOR = 300
"""How many sentences and numbers of forgotten words are looked for elsewhere, word for word.
Untuned: each is a search of some milliseconds."""

SAME_TOPIC = 0.5
"""Relevance from which on a hit may speak of the topic that is to be forgotten. Untuned."""

SAME_TOPIC_ASKED = 10
"""How many of the texts that go are searched for, to find such hits. Untuned: more would only take
time."""

FILTERED_EXACTLY = 1_500
"""Where at most so many segments pass the filters, their vectors are compared one by one; where
more do, what the vector index offers is sifted. Reading so many vectors takes about as long as
embedding the query, and goes on meanwhile."""

SIFTED_AT_MOST = 2_000
"""How many segments the vector index is asked for, at most, to be sifted by filters; if too few of
them pass, all that pass are compared one by one. Untuned."""

SIFTED_AT_FIRST = 4
"""How many times as many as are wanted it is asked for at first. Untuned: Chroma takes as long for
fewer."""

DISTINCT_METADATA = 500
"""Up to how many metadata of an owner that differ a filter is compared with each of them, and not
with those of every segment. Untuned."""

FOLD_SHORT = 16
"""Texts of fewer bytes, spaces and punctuation aside, are folded only when exactly equal. Untuned:
"Yes, please." and "OK!" are below it, as is anything of five Chinese characters."""

FOLD_LEAST_WORDS = 12
"""From how many words on (a Chinese character is one), articles and particles aside, texts are
folded that differ by these only. Untuned."""

FOLD_AMONG = 2
"""How many times as many as are wanted are folded. Untuned: what says the same word for word stands
near each other."""

FOLD_WIDER = 5
"""How many times as many are looked for where folding has left too few. Untuned."""

LATEST_FIT = 0.5
"""How well the newest candidate fits a question that asks for the latest, against 1 for a moment
that a question names. Untuned."""

TIME_FIT_LEAST_SPAN = 86_400.0
"""The shortest distance, in seconds, over which the fit falls beyond a stretch of time that a
question names. Untuned: what was said on a day is often written down on the next."""

DATES_READ_IN = 2_000
"""In how many characters of a question dates are looked for. Untuned: who writes more than that
asks about more than a date."""

DATES_READ = 8
"""Most stretches of time of one question. Untuned."""

RERANKED = 40
"""How many of the best hits a reranker is given, unless settings say otherwise. Untuned."""
