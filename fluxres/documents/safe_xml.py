"""Read XML as a tree of elements, without the dangerous parts of XML.

The expat parser under `xml.etree` expands entities and would follow external ones; a few lines of declarations become gigabytes.
Resource files need no entity declarations, so any entity is an error, and nothing outside the text is ever fetched. Names come
without their namespace, since files declare it in several ways, or wrongly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from fluxres import limits
from fluxres.documents import source_text
from fluxres.errors import InputError, LimitExceeded

_ENTITY: Final = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos);)([A-Za-z_:][\w.:-]*);")

#: maximal length of folded texts that are shared: types, sizes, states
_SHORT: Final = 8


@dataclass(slots=True)
class Element:
    """One element: its name, attributes, children, direct text, and first line.

    `values` are the texts of the children that were not kept as elements, see :func:`load`.
    """

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def all(self, name: str) -> list[Element]:
        return [child for child in self.children if child.name == name]


def load(source: Path | bytes, *, file: str | None = None, folded: tuple[str, str] | None = None) -> Element:
    """The root element of a file or of bytes.

    Args:
        folded: name of an element and of an attribute: the text of such an element becomes an entry in `values` of its parent,
            keyed by the attribute (the last of several wins), and its children are ignored. This takes a fifth of the memory of
            elements.

    Cost O(length). Errors: InputError `FILE:line:column` for text that is not XML or declares entities; LimitExceeded beyond
    `limits.DOCUMENT_BYTES_MAX` or `limits.DOCUMENT_DEPTH_MAX`.

    >>> load(b"<a><b x='1'>text</b></a>").children[0].attributes
    {'x': '1'}
    """
    if isinstance(source, Path):
        file, data = file or str(source), source_text.read_file(source)
    else:
        file, data = file or "<text>", source
    return _Reader(file, folded).read(data)


class _Reader:
    def __init__(self, file: str, folded: tuple[str, str] | None = None) -> None:
        self._file = file
        self._folded, self._key_of_folded = folded if folded is not None else ("", "")
        #: open levels within the folded element, its key, and its text
        self._inside, self._key, self._pieces = 0, "", list[str]()
        self._known: dict[str, str] = {}
        self._open: list[Element] = []
        # Pieces of text by depth: an element with many children has many pieces, which are joined once.
        self._texts: list[list[str]] = []
        self._root: Element | None = None
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._has_declarations_elsewhere = False
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def read(self, data: bytes) -> Element:
        if len(data) > limits.DOCUMENT_BYTES_MAX:
            raise LimitExceeded(f"{len(data)} bytes, at most {limits.DOCUMENT_BYTES_MAX} are allowed", where=self._file)
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            what = expat.errors.messages.get(error.code, "not XML")
            raise InputError(f"not XML: {what}", where=f"{self._file}:{error.lineno}:{error.offset + 1}") from None
        except (LookupError, ValueError) as error:
            raise InputError(f"not XML: {error}", where=self._file) from None
        if self._has_declarations_elsewhere and (used := _ENTITY.search(data)):
            # If declarations may be in an external file, the parser silently drops unknown entities from values.
            before = data[: used.start()].decode("utf-8", "replace")
            where = source_text.place(self._file, before, len(before))
            raise InputError(f"uses the entity {used[1].decode()!r}, but entities are not supported", where=where)
        assert self._root is not None
        return self._root

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) + self._inside >= limits.DOCUMENT_DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=self._here())
        name = name.rpartition(":")[2]
        if self._inside or (name == self._folded and self._open):
            self._fold(attributes)
            return
        element = Element(name, attributes, self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _fold(self, attributes: dict[str, str]) -> None:
        if not self._inside:
            key = attributes.get(self._key_of_folded, "")
            self._key, self._pieces = self._known.setdefault(key, key), []
        self._inside += 1

    def _end(self, _name: str) -> None:
        if self._inside:
            self._inside -= 1
            if not self._inside:
                text = "".join(self._pieces)
                self._open[-1].values[self._key] = self._known.setdefault(text, text) if len(text) < _SHORT else text
            return
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, text: str) -> None:
        if self._inside:
            if self._inside == 1:
                self._pieces.append(text)
            return
        self._texts[-1].append(text)

    def _refuse(self, name: str, *_: object) -> NoReturn:
        raise InputError(f"declares the entity {name!r}, but entities are not supported", where=self._here())

    def _doctype(self, _name: str, system: str | None, public: str | None, _has_internal: int) -> None:
        self._has_declarations_elsewhere = system is not None or public is not None

    def _here(self) -> str:
        return f"{self._file}:{self._parser.CurrentLineNumber}:{self._parser.CurrentColumnNumber + 1}"
