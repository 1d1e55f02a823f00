"""Compressed files are detected by content and opened within bounds; truncated, damaged and exploding ones are refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.documents import compression
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry

TEXT = b"{fluxres: 1, name: tiny, resources: [{type: node, count: 2}]}"


def zst(data: bytes) -> bytes:
    pytest.importorskip("zstandard")
    return compression.pack(data, ".zst")


PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zst, ".bz2": bz2.compress}


@pytest.mark.parametrize("ending", PACK)
@given(data=st.binary(max_size=3000))
def test_compressed_content_is_decompressed(ending: str, data: bytes) -> None:
    assert compression.opened(PACK[ending](data), "x") == data
    assert compression.opened(compression.pack(data, ending), "x") == data
    assert compression.pack(data, ending) == compression.pack(data, ending)


@pytest.mark.parametrize("ending", PACK)
def test_concatenated_files_are_one(ending: str) -> None:
    pack = PACK[ending]
    big = bytes(range(256)) * 20_000
    packed = pack(big)
    assert compression.opened(packed + pack(b"a") + packed, "x") == big + b"a" + big


def test_trailing_zeros_are_padding() -> None:
    assert compression.opened(gzip.compress(TEXT) + bytes(500), "x") == TEXT


@pytest.mark.parametrize("ending", PACK)
def test_truncated_file_is_refused(ending: str) -> None:
    whole = PACK[ending](bytes(range(256)) * 100)
    for end in range(7, len(whole) - 1, 13):
        with pytest.raises(InputError, match=f"is a truncated {ending[1:]} file|is a damaged") as caught:
            compression.opened(whole[:end], "m.yaml")
        assert caught.value.where == "m.yaml"


@pytest.mark.parametrize("ending", PACK)
def test_damaged_file_is_refused_or_unchanged(ending: str) -> None:
    whole = PACK[ending](bytes(range(256)) * 10)
    for at in range(7, len(whole)):
        bad = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        try:
            compression.opened(bad, "x")
        except InputError as error:
            assert "damaged" in error.message or "truncated" in error.message  # noqa: PT017 - some bytes say nothing


@pytest.mark.parametrize("ending", PACK)
def test_decompression_bomb_ends_at_the_bound(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNCOMPRESSED_BYTES_FREE", 5 << 20)
    bomb = PACK[ending](bytes(8 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(LimitExceeded, match="decompress to more than 5242880"):
        compression.opened(bomb, "x")
    monkeypatch.setattr(limits, "UNCOMPRESSED_RATIO_MAX", 10_000)
    if ending not in (".zst", ".bz2"):  # which compress zeros even better
        assert compression.opened(bomb, "x") == bytes(8 << 20)


def test_decompression_bomb_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml.gz"
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        for _ in range(2):  # the first block, with the header of the file, and one that can stand anywhere
            block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
            file.write(block)
        file.write(block * 1098)
        file.write(packer.flush())
    assert path.stat().st_size > 1 << 20
    # VmHWM and not ru_maxrss: the latter starts at the size of the test process.
    code = (
        "import re, fluxres\n"
        "try: fluxres.load(%r)\n"
        "except fluxres.LimitExceeded as error: print(error.message)\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code % str(path)], capture_output=True, text=True, check=True)
    message, megabytes = done.stdout.splitlines()
    assert "bytes of gz decompress to more than" in message
    assert int(megabytes) < 700


def test_xz_that_needs_gigabytes_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    try:
        data = lzma.compress(TEXT, filters=filters)
    except (MemoryError, lzma.LZMAError):
        pytest.skip("no memory to write such a file")
    with pytest.raises(InputError, match="damaged xz file: Memory usage limit"):
        compression.opened(data, "x")


def test_zst_without_a_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zst(TEXT)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    for use in (lambda: compression.opened(data, "x"), lambda: compression.pack(TEXT, ".zst")):
        with pytest.raises(UsageError, match=r"not installed.*pip install zstandard"):
            use()


@pytest.mark.parametrize("ending", PACK)
def test_files_are_saved_and_loaded_compressed(ending: str, tmp_path: Path) -> None:
    graph = fluxres.load(_file(tmp_path / "plain.yaml", TEXT))
    path = tmp_path / f"m.yaml{ending}"
    report = fluxres.save(graph, path)
    assert report.format == "cluster"
    assert compression.found(path.read_bytes()) == ending[1:]
    assert fluxres.load(path).name == "tiny"
    other = tmp_path / "without an ending"
    other.write_bytes(path.read_bytes())
    assert fluxres.load(other).name == "tiny"


def _file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_bytes_and_streams_are_opened_like_files(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(TEXT))

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert fluxres.load("-").name == "tiny"
    assert registry.read(lzma.compress(TEXT)).name == "tiny"
    assert Source.open(gzip.compress(TEXT)).data == TEXT


def test_places_refer_to_the_decompressed_text() -> None:
    with pytest.raises(InputError) as caught:
        registry.read(gzip.compress(b"fluxres: 1\nname: a\nresources: 7\n"), file="a.yaml.gz")
    assert caught.value.where.startswith("a.yaml.gz:3:")


def test_a_compressed_document_of_changes_is_applied(tmp_path: Path) -> None:
    graph = fluxres.load(_file(tmp_path / "m.yaml", TEXT))
    graph.tag("/tiny/node0", "k", "v")
    fluxres.save(graph, tmp_path / "c", changed_only=True)
    (tmp_path / "c.gz").write_bytes(gzip.compress((tmp_path / "c").read_bytes()))
    again = fluxres.load(tmp_path / "m.yaml", changes=tmp_path / "c.gz")
    assert again.structure.tags == {1: {"k": "v"}}
