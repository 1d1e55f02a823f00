"""The unit for systemd and the container file work as they are: verified, installed, run, killed and stopped."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fluxres.cli.commands.serve import serve_command
from tests.service.conftest import DEMO, Server
from tests.service.installed import FILES, Containerfile, Installed, install, require_root, require_systemd
from tests.service.test_access import FILE

UNIT = FILES / "fluxres.service"
EXPOSURE_MAX = 20
"""In tenths, as `systemd-analyze security` counts: 0 to 20 is OK, 92 a service without any protection."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    require_root()
    return install(tmp_path_factory.mktemp("installed"))


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here: install the package systemd")
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False)


def test_the_unit_is_valid(tmp_path: Path) -> None:
    there = tmp_path / "fluxres.service"
    text = UNIT.read_text(encoding="utf-8")
    for path, real in (("/opt/fluxres/bin/fluxres", sys.executable), ("/opt/fluxres/share/man/man1/fluxres-serve.1", str(UNIT))):
        assert path in text
        text = text.replace(path, real)
    there.write_text(text)
    said = analyzed("verify", str(there))
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_the_unit_gives_the_service_no_more_than_it_needs() -> None:
    said = analyzed("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(UNIT))
    assert said.returncode == 0, said.stdout


def test_the_command_lines_have_options_of_the_command() -> None:
    unit = UNIT.read_text(encoding="utf-8").replace("\\\n#", "")
    lines = re.findall(r"^#?ExecStart=/opt/fluxres/bin/fluxres serve (.+)$", unit, re.MULTILINE)
    words = [shlex.split(line) for line in lines] + [json.loads(Containerfile.read().of("CMD")[0])[1:]]
    assert [len(line) > 3 for line in words] == [True, True, True]
    for line in words:
        serve_command.make_context("serve", line)


def test_the_manual_page_of_the_unit_is_installed() -> None:
    page = re.findall(r"^Documentation=file:/opt/fluxres/share/man/man1/(.+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert (FILES.parent.parent / "man" / page[0]).exists()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_service_manager_is_told_when_it_listens_and_when_it_stops(
    start: Callable[..., Server], tmp_path: Path, is_abstract: bool
) -> None:
    name = f"@fluxres-{tmp_path}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(60)
        server = start(environment={"NOTIFY_SOCKET": name})
        assert manager.recv(4096) == b"READY=1"
        assert server.answers("GET", "/health")[0] == 200
        assert server.stop()[0] == 0
        assert manager.recv(4096) == b"STOPPING=1"


def test_a_service_manager_that_is_gone_is_no_reason_to_end(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start(environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert server.answers("GET", "/ready")[0] == 200
    status, said = server.stop()
    assert status == 0
    assert "the service manager cannot be told READY=1" in said


IN_A_CONTAINER = """
mount -t proc proc /proc
ip link set lo up
cd /
{environment}
setpriv --reuid={user} --regid={user} --init-groups {begin} > /shared/out 2> /shared/err &
until grep -qs '"url"' /shared/out; do kill -0 $!; sleep 0.1; done
{health}
unset FLUXRES_STORE FLUXRES_TOKENS
export FLUXRES_TOKEN={token}
fluxres --store http://127.0.0.1:7390 load /shared/demo.json > /dev/null
fluxres --store http://127.0.0.1:7390 allocate -N2 -x --job j1 -o folded
stat -c %U /var/lib/fluxres/site.db
kill -{stop} $!
wait $!
rm -rf /var/lib/fluxres
"""


@pytest.mark.long
def test_the_steps_of_the_container_file_make_a_service(installed: Installed) -> None:
    file, token = Containerfile.read(), "container-0123456789"
    (installed.shared / "demo.json").write_text(json.dumps(DEMO))
    given = ["PATH=/opt/fluxres/bin:$PATH", *file.of("ENV"), f"FLUXRES_TOKENS=ops:admin:{token}"]
    script = IN_A_CONTAINER.format(
        environment="\n".join(f"export {one}" for one in given),
        user=file.of("USER")[0],
        begin=shlex.join([*json.loads(file.of("ENTRYPOINT")[0]), *json.loads(file.of("CMD")[0])]),
        health=shlex.join(json.loads(file.of("HEALTHCHECK")[0].removeprefix("CMD "))),
        stop=file.of("STOPSIGNAL")[0],
        token=token,
    )
    done = installed.run(script, apart="--net --pid --fork --kill-child")
    assert done.returncode == 0, done.stdout + done.stderr + (installed.shared / "err").read_text()
    assert done.stdout.splitlines() == ["/demo/rack0/node[0-1]", file.of("USER")[0]]


# Each part prints what the test expects; `set -e` ends the script at what fails.
UNDER_SYSTEMD = """
unit=fluxres.service
installed=/etc/systemd/system/$unit
shown() { systemctl show $unit --property "$1" --value; }
ready() { for _ in $(seq 300); do curl -sSf -o /dev/null "$@" && return; sleep 0.1; done; return 1; }
http=http://127.0.0.1:7390
trap 'journalctl --sync; journalctl --unit $unit --output json > /shared/journal' EXIT
fluxres() { /opt/fluxres/bin/fluxres "$@"; }

systemctl start $unit
curl -sf -o /dev/null $http/ready; echo "ready when it has started"
fluxres --store $http load /shared/demo.json > /dev/null
fluxres --store $http allocate -N2 -x --job j1 -o folded
echo "as $(stat -c %U /var/lib/fluxres/site.db), $(stat -c %a /var/lib/fluxres/site.db)"

kill -KILL $(shown MainPID)
until [ "$(shown NRestarts)" = 1 ]; do sleep 0.1; done
ready $http/ready
echo "after SIGKILL: $(fluxres --store $http find 'job=j1' -o folded)"

curl -sN --max-time 60 $http/v1/graphs/demo/events > /shared/stream & stream=$!
until grep -qs following /shared/stream; do sleep 0.1; done
/opt/fluxres/bin/python /shared/pairs.py > /shared/pairs & pairs=$!
until [ -s /shared/pairs ]; do sleep 0.1; done
systemctl stop $unit
wait $stream; echo "the stream has ended: $?"
wait $pairs; tail -n 1 /shared/pairs
echo "stopped: $(shown Result) $(shown ExecMainStatus)"

fluxres --store sqlite:///var/lib/fluxres/site.db allocate /demo/rack1/node3 --job root -o folded
systemctl start $unit
fluxres --store $http free root
fluxres --store sqlite:///var/lib/fluxres/site.db store backup /shared/backup.db > /dev/null
fluxres --store sqlite:///shared/backup.db store check | tail -n 1 | cut -d' ' -f2-
systemctl stop $unit

sed -i 's/^#\\(LoadCredential\\|ExecStart\\|    --tokens\\)/\\1/' $installed
mkdir -p /etc/fluxres
cp /shared/tokens.toml /shared/cert.pem /shared/key.pem /etc/fluxres/
systemctl daemon-reload
systemctl start $unit
https=https://127.0.0.1:7390
curl -sk -o /dev/null -w 'without a token: %{http_code}\\n' $https/v1/graphs
curl -sk -o /dev/null -w 'with a token: %{http_code}\\n' -H 'Authorization: Bearer ops-0123456789abcdef' $https/v1/graphs
systemctl reload $unit
curl -sk -o /dev/null -w 'after a reload: %{http_code}\\n' -H 'Authorization: Bearer ops-0123456789abcdef' $https/v1/graphs
systemctl stop $unit

sed -i 's/--host 0.0.0.0/--host nowhere.invalid/' $installed
systemctl daemon-reload
systemctl start $unit || echo "a start that fails is seen"
systemctl stop $unit
sed -i 's/--host nowhere.invalid/--hosts 0.0.0.0/' $installed
systemctl daemon-reload
systemctl start $unit || sleep 2
echo "wrong options: $(shown ActiveState), $(shown NRestarts) restarts, status $(shown ExecMainStatus)"
"""

PAIRS = """
import fluxres
made = 0
with fluxres.connect("http://127.0.0.1:7390", timeout_s=1) as graph:
    try:
        while True:
            graph.allocate("slot=1/core", job="pair")
            graph.free("pair")
            made += 1
            print(made, flush=True)
    except fluxres.FluxresError as error:
        print("clients get:", type(error).__name__, flush=True)
"""


SAID = """\
ready when it has started
/demo/rack0/node[0-1]
as fluxres, 600
after SIGKILL: /demo/rack0/node[0-1]
the stream has ended: 0
clients get: Unavailable
stopped: success 0
/demo/rack1/node3
root holds nothing now
1 graph, no problems
without a token: 401
with a token: 200
after a reload: 200
a start that fails is seen
wrong options: failed, 0 restarts, status 2
""".splitlines()


@pytest.mark.long
def test_the_unit_runs_under_systemd(installed: Installed) -> None:
    require_systemd()
    shared = installed.shared
    (shared / "demo.json").write_text(json.dumps(DEMO))
    (shared / "pairs.py").write_text(PAIRS)
    (shared / "tokens.toml").write_text(FILE)
    for name, file in (("cert.pem", "localhost.pem"), ("key.pem", "localhost.key")):
        shutil.copy(Path(__file__).with_name(file), shared / name)
    units = installed.folder / "upper" / "etc" / "systemd" / "system"
    units.mkdir(parents=True, exist_ok=True)
    shutil.copy(UNIT, units)
    booted = installed.boot(UNDER_SYSTEMD)
    output, errors = ((shared / name).read_text() for name in ("output", "errors"))
    assert booted.returncode == 0, booted.stdout[-2000:] + booted.stderr + errors
    assert output.splitlines() == SAID
    lines = [json.loads(line) for line in (shared / "journal").read_text().splitlines()]
    own = [json.loads(line["MESSAGE"]) for line in lines if line.get("SYSLOG_IDENTIFIER") == "fluxres"]  # every line is JSON
    assert [one["leads"] for one in own if "leads" in one] == [True] * 4
    assert "no such option" in own[-1]["message"]
