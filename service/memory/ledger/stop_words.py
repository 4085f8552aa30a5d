"""Words that say nothing about a matter, as terms: function words of English, question words and
pronouns of Chinese.
"""

from __future__ import annotations

from service.memory.ledger.terms import terms

_ENGLISH = """
a about after again all also am an and any are as at be because been before being both but by can
could did do does doing done down each else ever every few for from get give go got had has have
having he her here hers him his how i if in into is it its just know let like may me might mine more
most much my new no nor not now of off on once one only or other our out over please same say says
said shall she should so some such tell than that the their them then there these they thing this
those to too under until up us user very was we were what when where which while who whom whose why
will with would yes you your
"""
_CHINESE = """
什么 是什 怎么 怎样 为什 哪里 在哪 哪个 哪些 谁是 是谁 时候 么时 如何
多少 几个 我的 你的 他的 她的 我们 你们 他们 她们 这个 那个 这些 那些
用户 的是 了吗 是不 不是 有没 没有 可以 一个 一下 请问 告诉 诉我 关于
"""

STOP_WORDS = frozenset(terms(_ENGLISH)) | {pair for pair in _CHINESE.split() if len(pair) == 2}
"""In the form of `service.memory.ledger.terms.terms`."""
