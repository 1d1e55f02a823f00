"""Job ids: the forms of RFC 19 encode the same 64 bits."""

from __future__ import annotations

import sys
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.syntax import fluid
from fluxres.syntax.fluid import SYMBOLS, Form, Parts

FORMS = [form for form in get_args(Form) if form != "words"]
IDS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("job_id", "forms"),
    [
        (0, ["0", "0x0", "0000.0000.0000.0000", "job.0000.0000.0000.0000", "ƒ1", "f1", "😃"]),
        (1888, ["1888", "0x760", "0000.0000.0000.0760", "job.0000.0000.0000.0760", "ƒZZ", "fZZ", "😆🐻"]),
        (
            2**64 - 1,
            [
                str(2**64 - 1),
                "0x" + "f" * 16,
                "ffff.ffff.ffff.ffff",
                "job.ffff.ffff.ffff.ffff",
                "ƒjpXCZedGfVQ",
                "fjpXCZedGfVQ",
                "🚹💗💧👗😷📷📚",
            ],
        ),
    ],
)
def test_forms(job_id: int, forms: list[str]) -> None:
    assert [fluid.encode(job_id, form) for form in FORMS] == forms
    assert {fluid.decode(text) for text in forms} == {job_id}


@pytest.mark.parametrize(
    ("text", "job_id"), [("0.0.0.39", 57), ("A.b.C.d", 0xA000B000C000D), ("f111", 0), (" 12\n", 12), ("007", 7), (" 😃😄\n", 1)]
)
def test_loose_spellings(text: str, job_id: int) -> None:
    assert fluid.decode(text) == job_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "boo",
        "-1",
        "+1",
        "1 2",
        "1_0",
        "0x",
        "0x1g",
        "0X1",
        "0.0.0",
        "0.0.0.0.0",
        "0.0.0.",
        "0.0.0.g",
        "0.0.0.12345",
        "job.0.0",
        "job.1",
        "notjob.0.0.0.0",
        "f",
        "ƒ",
        "fO",
        "f0",
        "fI",
        "fl",
        "ƒjpXCZedGfVR",
        "f1111111111111",
        str(2**64),
        "0x1" + "0" * 16,
        "9" * 5000,
        "0x" + "f" * 5000,
        "academy-academy-academy",
        "academy-academy-academy--academy-academy-academy--academy-academy-academy",
        "academy-academy-academy--academy-academy-acadamy",
        "amen-amen-amen--academy-academy-ego",
        "amen-amen-amen--academy-academy-academy",
        "-",
        "--",
        "😃x",
        "😃 😃",
        "😀",
        "\U0001f44d\U0001f3fd",
        "🚹💗💧👗😷📷📓",
        "😃" * 8,
        "😄" * 5000,
        "٣",
    ],
)
def test_invalid_ids_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="job id"):
        fluid.decode(text)


@pytest.mark.parametrize(
    ("form", "text"),
    [("f58", "1234"), ("dothex", "12"), ("kvs", "0.0.0.1"), ("dothex", "job.0.0.0.1"), ("hex", "12"), ("emoji", "12")],
)
def test_a_form_can_be_required(form: Any, text: str) -> None:
    assert fluid.decode(text) >= 0
    with pytest.raises(InputError):
        fluid.decode(text, form)


@given(IDS, st.sampled_from([*FORMS, "words"]))
def test_written_ids_are_read_back(job_id: int, form: Any) -> None:
    text = fluid.encode(job_id, form)
    assert fluid.decode(text) == fluid.decode(text, form) == job_id


def test_symbols() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 576
    assert all(symbol.encode()[:2] == b"\xf0\x9f" for symbol in SYMBOLS)
    assert fluid.decode("😃😄") == fluid.decode("😄") == 1
    assert fluid.decode("😄😃") == 576


@given(IDS)
def test_fields(job_id: int) -> None:
    parts = fluid.split(job_id)
    assert fluid.join(parts) == job_id
    assert parts.timestamp_ms * 2**24 + parts.generator * 2**10 + parts.sequence == job_id


def test_words() -> None:
    assert fluid.encode(6731191091817518, "words") == "reform-remote-galileo--heart-package-academy"
    assert fluid.decode(" academy-acrobat-academy--academy-academy-academy ") == 1626


def test_words_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mnemonicode", None)
    with pytest.raises(UsageError, match="pip install mnemonicode"):
        fluid.encode(1, "words")
    with pytest.raises(UsageError, match="mnemonicode"):
        fluid.decode("reform-remote-galileo--heart-package-academy")
    with pytest.raises(InputError):
        fluid.decode("no-words")


@pytest.mark.parametrize("parts", [Parts(2**40, 0, 0), Parts(0, 2**14, 0), Parts(0, 0, 2**10), Parts(-1, 0, 0)])
def test_fields_that_do_not_fit(parts: Parts) -> None:
    with pytest.raises(UsageError):
        fluid.join(parts)


@pytest.mark.parametrize("job_id", [-1, 2**64])
def test_invalid_ids_cannot_be_written(job_id: int) -> None:
    with pytest.raises(UsageError):
        fluid.encode(job_id)


@given(st.text() | st.text("fƒ0123abx.- "))
def test_any_text_is_an_id_or_an_error(text: str) -> None:
    try:
        found = fluid.decode(text)
    except FluxresError:
        return
    assert fluid.decode(fluid.encode(found)) == found
