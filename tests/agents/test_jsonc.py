"""Settings with comments: changed in place, and the same to the byte once the change is taken back."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitrepd.agents.install.jsonc import Jsonc
from sitrepd.errors import InvalidFact

DOCUMENTS = [
    "{}",
    '{\n  "a": 1\n}\n',
    '{"a": 1, "b": [1, 2]}',
    '// top\n{\n\t"a": {"b": []}, // why\n\t/* c */ "d": "x,}//",\n}\n',
    '\ufeff{\r\n    "a": null\r\n}\r\n',
    '{"b": [\n  1, // one\n  2,\n]}',
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_what_is_put_in_and_taken_out_leaves_no_trace(text: str) -> None:
    document = Jsonc(text)
    before = document.data
    document.set(("ours", "deep"), {"x": [1, {"y": "é"}]})
    assert document.data == {**before, "ours": {"deep": {"x": [1, {"y": "é"}]}}}
    for line in text.splitlines():
        assert line.strip().rstrip("}]").strip() in document.text
    document.remove(("ours",))
    assert document.text == text


def test_an_item_is_added_where_lists_stand_in_lines() -> None:
    document = Jsonc('{\n  "hooks": {\n    "Stop": [\n      {"a": 1} // mine\n    ]\n  }\n}\n')
    document.append(("hooks", "Stop"), {"b": 2})
    assert document.text == (
        '{\n  "hooks": {\n    "Stop": [\n      {"a": 1}, // mine\n      {\n        "b": 2\n      }\n    ]\n  }\n}\n'
    )
    assert document.data == {"hooks": {"Stop": [{"a": 1}, {"b": 2}]}}
    document.remove(("hooks", "Stop", 0))
    assert document.data == {"hooks": {"Stop": [{"b": 2}]}}


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1, // of a\n  "b": 2, /* of b */\n}\n',
        '{\n  "a": 1, // of a\n  "b": 2 // of b\n}\n',
        '{\r\n\t"a": {}, // of a\r\n\t// of none\r\n}\r\n',
    ],
)
def test_a_remark_stays_with_what_it_is_about(text: str) -> None:
    document = Jsonc(text)
    document.set(("ours",), {"x": [1]})
    for line in text.splitlines():
        assert (line.strip().rstrip("}").replace("2 //", "2, //")) in document.text
    document.set(("more",), 3)
    document.remove(("ours",))
    document.remove(("more",))
    assert document.text == text


def test_what_others_said_behind_our_member_is_kept() -> None:
    document = Jsonc('{\n  "ours": 1,\n  // theirs\n  "b": 2\n}\n')
    document.remove(("ours",))
    assert document.text == '{\n  // theirs\n  "b": 2\n}\n'


def test_the_last_of_two_members_of_one_name_counts() -> None:
    document = Jsonc('{"a": 1, "a": {"b": 2}}')
    document.set(("a", "c"), 3)
    assert document.text == '{"a": 1, "a": {"b": 2, "c": 3}}'


@pytest.mark.parametrize(
    ("text", "place"),
    [("", "line 1"), ('{"a": 1', "line 1"), ('{\n"a" 1}', "line 2, column 5"), ("{a: 1}", "column 2"), ("{} x", "line 1"),
     ('{"a": "x\n"}', "line 1"), ('{"a": 01x}', "line 1")],
)  # fmt: skip
def test_what_is_no_json_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises(InvalidFact, match=place):
        Jsonc(text)


def test_what_is_of_another_kind_is_not_written_over() -> None:
    with pytest.raises(InvalidFact, match="hooks is a list"):
        Jsonc('{"hooks": []}').set(("hooks", "Stop"), [])
    with pytest.raises(InvalidFact, match=r"hooks\.Stop is a object"):
        Jsonc('{"hooks": {"Stop": {}}}').append(("hooks", "Stop"), 1)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), _VALUES, st.sampled_from([None, 1, 4, "\t"]))
def test_any_document_takes_any_value(told: dict[str, object], value: object, indent: int | str | None) -> None:
    text = json.dumps(told, indent=indent)
    document = Jsonc(text)
    assert document.data == told
    document.set(("sitrep ours",), value)
    assert json.loads(document.text) == {**told, "sitrep ours": value}
    document.remove(("sitrep ours",))
    assert document.text == text
