"""Name templates, and names read back into ids."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import template
from fluxres.syntax.template import Field

LITERALS = st.text("abn$-019{}", max_size=6)
WIDTHS = st.integers(0, 6)


def written(prefix: str, width: int, suffix: str) -> str:
    field = f"${{id:0{width}}}" if width else "${id}"
    return prefix.replace("$", "$$") + field + suffix.replace("$", "$$")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("node", ("node",)),
        ("node${id}", ("node", Field("id"))),
        ("node-${frameid}-${rack}", ("node-", Field("frameid"), "-", Field("rack"))),
        ("${id:05}${id}", (Field("id", 5), Field("id"))),
        ("a$$b$${id}", ("a$b${id}",)),
        ("$$$$", ("$$",)),
        ("a}b{", ("a}b{",)),
    ],
)
def test_parse(text: str, parts: tuple[object, ...]) -> None:
    assert template.parse(text) == parts


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1), ("a$", 2), ("a$b", 2), ("ab${", 3), ("${}", 1), ("${id", 1), ("${a b}", 1), ("${id:5}", 6), ("${id:}", 6),
        ("${id:0}", 6), ("${id:00}", 6), ("${id:05d}", 6), ("${id:0256}", 6), ("n${id:09999}", 7), ("$$$", 3), ("${${id}}", 1),
    ],
)  # fmt: skip
def test_errors_name_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as refused:
        template.parse(text)
    assert refused.value.where == f"template:{column}"


def test_render() -> None:
    values = {"id": 42, "rack": "r7", "class": 1.5, "fast": True}
    assert template.render(template.parse("n${id:05}-${rack}-${class}-${fast}$$"), values.get) == "n00042-r7-1.5-true$"
    assert template.render(template.parse("${id:01}"), values.get) == "42"


def test_a_field_without_a_value_is_named() -> None:
    with pytest.raises(InputError, match=r"\$\{rack\}"):
        template.render(template.parse("n${rack}"), lambda _: None)


def test_names_and_templates_are_bounded() -> None:
    assert len(template.render(template.parse("x" * limits.NAME_LENGTH_MAX), lambda _: None)) == limits.NAME_LENGTH_MAX
    with pytest.raises(LimitExceeded, match=str(limits.NAME_LENGTH_MAX + 1)):
        template.parse("x" * (limits.NAME_LENGTH_MAX + 1))
    with pytest.raises(LimitExceeded, match=str(limits.NAME_LENGTH_MAX)):
        template.render(template.parse("${a}${a}"), lambda _: "x" * 200)


@given(LITERALS, WIDTHS, LITERALS, st.integers(0, 2000) | st.integers(0, limits.ID_MAX))
def test_invert_undoes_render(prefix: str, width: int, suffix: str, number: int) -> None:
    text = written(prefix, width, suffix)
    name = template.render(template.parse(text), {"id": number}.get)
    assert template.is_invertible(text)
    assert template.invert(text, name) == number


@given(st.text("an-", max_size=2), WIDTHS, st.text("b-0", max_size=2), st.text("an-b0123", max_size=9))
def test_invert_finds_only_names_that_render_gives(prefix: str, width: int, suffix: str, name: str) -> None:
    text = written(prefix, width, suffix)
    number = template.invert(text, name)
    if number is not None:
        assert template.render(template.parse(text), {"id": number}.get) == name
    else:
        assert name not in {template.render(template.parse(text), {"id": other}.get) for other in range(200)}


@pytest.mark.parametrize("text", ["node", "n${rack}", "n${rack}${id}", "${id}-${id}"])
def test_ids_cannot_be_read_from_other_templates(text: str) -> None:
    assert not template.is_invertible(text)
    assert template.invert(text, "n1") is None


@pytest.mark.parametrize(
    ("name", "number"),
    [("node0", 0), ("node12", 12), (f"node{limits.ID_MAX}", limits.ID_MAX), (f"node{limits.ID_MAX + 1}", None)]
    + [(name, None) for name in ("node", "node012", "node-1", "node+1", "node1 ", "node٣", "nod1", "node" + "1" * 9999)],
)
def test_default_id_takes_canonical_digits_only(name: str, number: int | None) -> None:
    assert template.default_id("node", name) == number


@given(st.text() | st.text("a${}:05id"))
def test_any_text_is_a_template_or_an_error(text: str) -> None:
    try:
        parts = template.parse(text)
    except FluxresError:
        return
    assert not any(isinstance(a, str) and isinstance(b, str) for a, b in pairwise(parts))
