"""Formats are detected by content: every sample of every format is recognised, and nothing else is.

The samples are those that fuzzing starts from, ``data/fuzz/FORMAT/*``, so a format that adds its own is tested against
all others.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fluxres.errors import InputError
from fluxres.formats import registry
from fluxres.formats.detection import keys, xml_root
from tests.traceability import ROOT

CORPUS = ROOT / "data" / "fuzz"
SAMPLES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())

#: texts that are close to a format but in none, and texts that look like two
TRICKY: list[tuple[bytes, str | None]] = [
    (b"fluxres: 1", "cluster"),
    (b"# x\n\nname: a\nfluxres: 1", "cluster"),
    (b'{"name": "a", "fluxres": 1}', "cluster"),
    (b'\xef\xbb\xbf{\n "fluxres": 1}', "cluster"),
    (b"---\n  fluxres: 1\n", "cluster"),
    (b"{'fluxres': 1", "cluster"),
    (b"notfluxres: 1", None),
    (b"a:\n  fluxres: 1", None),
    (b'{"a": {"fluxres": 1}}', None),
    (b'{"a": "fluxres: 1"}', None),
    (b"# fluxres: 1\n", None),
    (b"", None),
    (b"\0" * 100, None),
    (b"{" * 1000, None),
    (b"<", None),
]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_samples_are_detected(path: Path) -> None:
    data = path.read_bytes()
    for start in (data, b"\xef\xbb\xbf" + data):
        found = registry.detect(start)
        assert found is not None
        assert found.name == path.parent.name


@pytest.mark.parametrize("name", [known.name for known in registry.formats() if known.reader is not None])
def test_every_format_that_is_read_has_samples_that_are_read(name: str) -> None:
    samples = [path for path in SAMPLES if path.parent.name == name]
    assert samples
    assert all(registry.read(path).structure.n >= 1 for path in samples)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_only_one_format_claims_a_sample(path: Path) -> None:
    head = path.read_bytes()[: registry.HEAD_BYTES]
    assert [known.name for known in registry.formats() if known.matches(head)] == [path.parent.name]


@pytest.mark.parametrize(("data", "name"), TRICKY)
def test_tricky_texts(data: bytes, name: str | None) -> None:
    found = registry.detect(data)
    assert (None if found is None else found.name) == name


def test_unrecognized_input_is_reported() -> None:
    for text, message in [
        (b"a: 1\n", "unrecognized format"),
        (b"", "is empty"),
        (b"\xff\xfea", "is UTF-16"),
        (b"a\0", "contains a NUL"),
        (b"\xe4: 1", "0xe4 is not UTF-8"),
        (b'{"a": ', "is never closed"),
    ]:
        with pytest.raises(InputError, match=message):
            registry.read(text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a PNG image, expected text .*fluxres formats"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "is a JPEG image"),
        (b"%PDF-1.5\n%\xd0\xd4", "is a PDF document"),
        (b"PK\x03\x04\x14\0", "is a zip archive, expected text .*unpack it"),
        (b"site.yaml".ljust(257, b"\0") + b"ustar\x0000" + bytes(300), "is a tar archive"),
        (b"SQLite format 3\0", "is a SQLite database, expected text .*sqlite:///"),
        (b"\x04\x22\x4d\x18\x64", "is compressed with lz4, expected text .*decompress it"),
        (b"\x7fELF\x02\x01", "is a program"),
        (b"PK: \xe4", "byte 0xe4 is not UTF-8"),
    ],
)
def test_binary_files_are_reported_by_their_kind(data: bytes, message: str) -> None:
    for options in ({}, {"format": "cluster"}, {"format": "slurm"}):
        with pytest.raises(InputError, match=message) as caught:
            registry.read(data, file="x", **options)
        assert caught.value.where.startswith("x")


@pytest.mark.parametrize(
    "text",
    [
        b"[project]\nname = 'x'\nversion = \"1\"\n",
        b"# of a tool\n\n[tool.ruff]\nline-length = 130\n",
        b"title = 'x'\n[[entry]]\na = 1\n",
        b"; ini\n[section one]\nkey=value\n",
    ],
)
def test_toml_without_resources_is_reported(text: bytes) -> None:
    message = r"^p.toml: is TOML or INI without a table \[resource\] \(a configuration of flux-core has \[\[resource.config\]\]"
    with pytest.raises(InputError, match=message):
        registry.read(text, file="p.toml")


def test_truncated_list_is_not_toml() -> None:
    for text in (b"[a, b", b"[a]\n", b"[1]\nx: 1\n"):
        with pytest.raises(InputError) as caught:
            registry.read(text)
        assert "TOML" not in caught.value.message


def test_head_may_be_truncated_anywhere() -> None:
    text = (CORPUS / "cluster" / "everything.yaml").read_bytes() + b'x: {"a": [{"b": 1}], c: \'d\'}\n'
    seen = keys(text)
    assert {"fluxres", "parts.cpu", "resources[].with[].hosts", "graphs.power.edges[].from", "x.a[].b", "x.c"} <= seen
    for end in range(0, len(text), 7):
        assert {key for key in keys(text[:end]) if key not in seen} <= {"x.a[].b"}


def test_colon_after_quotes_needs_no_blank() -> None:
    assert keys(b'{"a":true,"b":{"c":[{"d":1}]},e: f:g, h : 1}') == {"a", "b", "b.c", "b.c[].d", "e", "h"}


def test_keys_of_lists_are_found_at_any_indentation() -> None:
    wide = keys(b"a:\n  - b: 1\n    c:\n      d: 2\n  - - e: 3\nf: 4")
    assert keys(b"a:\n- b: 1\n  c:\n    d: 2\n- - e: 3\nf: 4") == wide
    assert wide == {"a", "a[].b", "a[].c", "a[].c.d", "a[][].e", "f"}


def test_first_element_of_xml() -> None:
    assert xml_root(b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <a> --><!DOCTYPE b [<!ENTITY c 'd'>]>\n<ns:e f='1'>") == "e"
    assert [xml_root(text) for text in (b"", b"x<a>", b"<!-- <a>", b"<?x")] == ["", "", "", ""]


JUNK = [b"{[", b'{"', b"- ", b": ", b"<!--", b"<!DOCTYPE [", b"'", b'\\"', b"a\t", b"a: \n", b" ", b"{a:b"]


@pytest.mark.parametrize("junk", JUNK)
def test_detection_is_fast_for_any_head(junk: bytes) -> None:
    # Patterns that backtrack over the same run would take minutes for these.
    head = (junk * registry.HEAD_BYTES)[: registry.HEAD_BYTES]
    for text in (head, b"{a: " + head, b"a" + head):
        assert isinstance(keys(text), frozenset)
        xml_root(text)


def test_compressed_samples_are_detected_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_bytes(gzip.compress((CORPUS / "cluster" / "plain.json").read_bytes()))
    assert registry.read(path).name == "tiny"
