"""Store URLs, and the location of the default store."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres.errors import StoreError
from fluxres.store import open_store, url


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///srv/flux/site.db", "/srv/flux/site.db"),
        ("sqlite:////srv/site.db", "/srv/site.db"),
        ("sqlite:////site.db", "/site.db"),
        ("sqlite:///site.db", "{cwd}/site.db"),
        ("sqlite:site.db", "{cwd}/site.db"),
        ("sqlite://data/site.db", "{cwd}/data/site.db"),
        ("site.db", "{cwd}/site.db"),
        ("data/site.sqlite3", "{cwd}/data/site.sqlite3"),
        ("/srv/../srv/site.db", "/srv/site.db"),
        ("sqlite:///srv/my%20site.db", "/srv/my site.db"),
    ],
)
def test_url_names_a_file(text: str, path: str) -> None:
    assert url.parse(text).path == Path(path.format(cwd=Path.cwd()))


def test_url_may_name_a_graph() -> None:
    assert url.parse("sqlite:///srv/site.db?graph=a%20b").graph == "a b"
    assert url.parse("sqlite:///srv/site.db").graph is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("oracle:x", "unknown store scheme 'oracle'.*known: sqlite.*postgresql.*etcd"),
        ("etcd://[::1/site", r"cannot be read: .*write etcd://\[::1\]:2379/prefix"),
        ("postgresql://ada@[::1/site", "cannot be read: "),
        ("postgres://ada:top/secret@db/site", "^postgres://ada@db/site: is no address.*did you mean postgresql://ada@db/site"),
        ("etcd:/127.0.0.1:2379/site", "^etcd:/127.*did you mean etcd://127.0.0.1:2379/site"),
        ("localhost:7390", "did you mean http://localhost:7390"),
        ("http:/localhost", "did you mean http://localhost"),
        ("http://localhost", "address of a server, and not of a store.*connect"),
        ("oracle://ada:secret@db/x", "^oracle://ada@db/x: unknown"),
        ("sqlite:", "has no file name"),
        ("sqlite:///", "has no file name"),
        ("", "has no file name"),
        ("sqlite:///srv/a.db?name=x", "'name=x' is not an option.*graph=NAME"),
        ("sqlite:///srv/a.db?graph=", "'graph=' is not an option"),
        ("a\0.db", "NUL"),
    ],
)
def test_invalid_urls_are_explained(text: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        url.parse(text)


def test_a_file_whose_name_has_a_colon_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd:name.db").touch()
    assert url.parse("odd:name.db").path == tmp_path / "odd:name.db"


def test_the_default_store_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUXRES_STORE", "sqlite:///srv/flux/site.db?graph=g")
    assert open_store().address == url.StoreUrl(Path("/srv/flux/site.db"), "g")
    monkeypatch.delenv("FLUXRES_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert open_store().address == url.StoreUrl(tmp_path / "fluxres" / "fluxres.db", private=True)
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store().path == tmp_path / ".local" / "share" / "fluxres" / "fluxres.db"


def test_the_address_of_a_server_keeps_the_options_of_its_library() -> None:
    found = url.parse("postgresql://ada:x@db.site:5433/cluster?graph=demo&sslmode=require")
    assert found == url.ServerUrl("postgresql://ada:x@db.site:5433/cluster?sslmode=require", "demo")
    assert url.is_store_url("postgresql://db.site/cluster")
    socket = "postgresql:///cluster?host=%2Frun%2Fpostgresql"
    assert url.parse(f"{socket}&graph=demo") == url.ServerUrl(socket, "demo")
    assert url.parse("postgresql:///cluster?graph=demo") == url.ServerUrl("postgresql:///cluster", "demo")
    assert url.parse("postgresql://db.site/cluster").path != found.path


def test_a_symbolic_link_is_the_store_that_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "b.db").symlink_to("a.db")
    (tmp_path / "loop.db").symlink_to("loop.db")
    assert open_store(str(tmp_path / "b.db")).path == tmp_path / "a.db"
    assert url.parse(f"sqlite:///{tmp_path}/b.db").path == tmp_path / "a.db"
    assert url.parse(str(tmp_path / "loop.db")).path == tmp_path / "loop.db"
