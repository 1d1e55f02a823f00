"""XML as a tree of elements, and refusals."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import safe_xml
from fluxres.documents.safe_xml import Element
from fluxres.errors import InputError, LimitExceeded

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), max_size=8)
LEAF: st.SearchStrategy[ElementTree.Element] = st.nothing()
NAME = st.sampled_from(["a", "b", "object", "info"])


def tree(children: st.SearchStrategy[ElementTree.Element]) -> st.SearchStrategy[ElementTree.Element]:
    def made(name: str, attributes: dict[str, str], texts: list[str], below: list[ElementTree.Element]) -> ElementTree.Element:
        element = ElementTree.Element(name, attributes)
        element.text = texts[0]
        for child, text in zip(below, texts[1:], strict=False):
            child.tail = text
            element.append(child)
        return element

    attributes, texts = st.dictionaries(NAME, TEXT, max_size=3), st.lists(TEXT, min_size=5, max_size=5)
    return st.builds(made, NAME, attributes, texts, st.lists(children, max_size=4) if children is not LEAF else st.just([]))


def same(element: ElementTree.Element, found: Element) -> bool:
    text = (element.text or "") + "".join(child.tail or "" for child in element)
    return (
        (element.tag, element.attrib, text) == (found.name, found.attributes, found.text)
        and len(element) == len(found.children)
        and all(same(child, below) for child, below in zip(element, found.children, strict=True))
    )


@given(st.recursive(tree(LEAF), tree, max_leaves=12))
def test_elements_attributes_and_text_are_those_of_the_standard_library(root: ElementTree.Element) -> None:
    data = ElementTree.tostring(root, "utf-8")
    assert same(ElementTree.fromstring(data), safe_xml.load(data))


@pytest.mark.parametrize("declared", ["", '<!DOCTYPE a SYSTEM "a.dtd">', '<!DOCTYPE a PUBLIC "-//a" "http://localhost:1/a.dtd">'])
@pytest.mark.parametrize("used", ["<a>&thing;</a>", "<a b='&thing;'/>"])
def test_undeclared_entities(declared: str, used: str) -> None:
    with pytest.raises(InputError, match=r"^<text>:1:\d+: (not XML: undefined entity|uses the entity 'thing')"):
        safe_xml.load((declared + used).encode())


def test_predefined_entities() -> None:
    found = safe_xml.load(b"<!DOCTYPE a SYSTEM 'a.dtd'><a b='&amp;&lt;&gt;&quot;&apos;&#65;&#x42;'>&amp;</a>")
    assert (found.attributes["b"], found.text) == ("&<>\"'AB", "&")


def test_elements_can_be_folded_into_their_parent() -> None:
    text = b"""<a k='0'><v k='x'>1</v><b><v k='x'>long enough to be no small word<i>no</i> and on</v><v>none</v>t</b>
    <v k='x'>2</v><v k='y'><v k='z'>deep</v></v></a>"""
    found = safe_xml.load(text, folded=("v", "k"))
    assert (found.values, [child.name for child in found.children]) == ({"x": "2", "y": ""}, ["b"])
    (below,) = found.children
    assert (below.values, below.text, below.children) == ({"x": "long enough to be no small word and on", "": "none"}, "t", [])
    assert safe_xml.load(text).values == {}
    # The root is kept, whatever its name is.
    assert safe_xml.load(b"<v k='x'><v k='y'>1</v></v>", folded=("v", "k")).values == {"y": "1"}


def test_folded_elements_are_bounded_too() -> None:
    depth = limits.DOCUMENT_DEPTH_MAX
    assert safe_xml.load(b"<a>" + b"<v>" * (depth - 1) + b"</v>" * (depth - 1) + b"</a>", folded=("v", "k")).values == {"": ""}
    with pytest.raises(LimitExceeded, match=r"<text>:1:\d+: more than \d+ levels"):
        safe_xml.load(b"<a>" + b"<v>" * depth, folded=("v", "k"))
    with pytest.raises(InputError, match="declares the entity"):
        safe_xml.load(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a><v>&b;</v></a>", folded=("v", "k"))


def test_depth_and_length_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert safe_xml.load(b"<a>" * limits.DOCUMENT_DEPTH_MAX + b"</a>" * limits.DOCUMENT_DEPTH_MAX).name == "a"
    with pytest.raises(LimitExceeded, match="levels"):
        safe_xml.load(b"<a>" * (limits.DOCUMENT_DEPTH_MAX + 1))
    monkeypatch.setattr(limits, "DOCUMENT_BYTES_MAX", 5)
    with pytest.raises(LimitExceeded, match="bytes"):
        safe_xml.load(b"<aaaa/>")
