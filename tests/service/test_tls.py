"""HTTPS with a certificate that nobody else has signed; `localhost.pem` is valid until 2120."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import fluxres
from fluxres import clock
from fluxres.clock import stopwatch
from fluxres.errors import StoreError
from tests.service.conftest import demo_store, running

HERE = Path(__file__).parent
CERTIFICATE, KEY = str(HERE / "localhost.pem"), str(HERE / "localhost.key")


def test_a_certificate_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with running(demo_store(tmp_path), "--tls-cert", CERTIFICATE, "--tls-key", KEY) as server:
        assert server.url.startswith("https://")
        with pytest.raises(StoreError, match=r"certificate of the server is refused: self.signed.*export SSL_CERT_FILE=FILE"):
            fluxres.connect(server.url)
        with pytest.raises(StoreError, match="does it speak HTTPS"):
            fluxres.connect(server.url.replace("https:", "http:"))
        monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
        with fluxres.connect(server.url) as graph:
            assert graph.jobs() == []


def test_another_name_than_that_of_the_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
    said = r"not valid for '127.0.0.2' \(name it as its certificate does\)"
    with (
        running(demo_store(tmp_path), "--host", "127.0.0.2", "--tls-cert", CERTIFICATE, "--tls-key", KEY) as server,
        pytest.raises(StoreError, match=said),
    ):
        fluxres.connect(server.url)


def test_a_certificate_is_read_again_at_sighup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "server.pem", tmp_path / "server.key"]
    for file, source in zip(files, (CERTIFICATE, KEY), strict=True):
        shutil.copy(source, file)
    monkeypatch.setenv("SSL_CERT_FILE", str(HERE / "renewed.pem"))
    with running(demo_store(tmp_path), "--tls-cert", str(files[0]), "--tls-key", str(files[1])) as server:
        shutil.copy(HERE / "renewed.pem", files[0])  # the key is still the old one
        server.process.send_signal(signal.SIGHUP)
        assert "the certificate stays as it is" in server.says("certificate")
        with pytest.raises(StoreError, match="certificate of the server is refused"):
            fluxres.connect(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
        fluxres.connect(server.url).close()
        shutil.copy(HERE / "renewed.key", files[1])
        server.process.send_signal(signal.SIGHUP)
        assert server.says("certificate") == f"fluxres: INFO the certificate was read again: {files[0]}\n"
        monkeypatch.setenv("SSL_CERT_FILE", str(HERE / "renewed.pem"))
        until_s = stopwatch() + 20
        while True:
            try:
                fluxres.connect(server.url).close()
                break
            except StoreError:
                assert stopwatch() < until_s
                clock.sleep(0.05)


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match=rf"{KEY}: is no certificate \(PEM\) of this key \(give one that belongs to"),
        running(demo_store(tmp_path), "--tls-cert", KEY, "--tls-key", CERTIFICATE),
    ):
        pass
