"""What JSON may say and we cannot keep is found, with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.server.http.request_body import MOST_LEVELS, unusable

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(_VALUES)
def test_what_json_holds_is_kept_and_read_back_as_it_was(value: object) -> None:
    assert unusable(value) is None  # type: ignore[arg-type]
    assert json.loads(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ('{"a": 1e999}', ("a",)),
        ('[0, {"b": -1e999}]', (1, "b")),
        ("[NaN]", (0,)),
        ("-Infinity", ()),
        (f"[{2**63}]", (0,)),
        (f"[-{10**30}]", (0,)),
        ('{"词": "\\ud800"}', ("词",)),
        ('{"a": {"\\udfff": 1}}', ("a",)),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_place(
    written: str, place: tuple[str | int, ...]
) -> None:
    fault = unusable(json.loads(written))
    assert fault is not None
    assert fault.place == place


def test_nesting_has_a_bound() -> None:
    assert unusable(json.loads("[" * MOST_LEVELS + "]" * MOST_LEVELS)) is None
    fault = unusable(json.loads("[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1)))
    assert fault is not None
    assert "nested" in fault.message
