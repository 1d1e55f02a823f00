"""What the whole suite shares: the plugins, the settings of Hypothesis, and the options of the conformance tests.

The options stand here and not in `tests/conformance`, because pytest reads options before it looks into sub-folders.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.deeper", "tests.traceability"]

# How long an example takes depends on what else the machine does, and no Hypothesis test is about time.
settings.register_profile("untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A suite that a shell runs in the background ignores SIGINT, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases", metavar="DIR", default=None, help="folder with recorded facts of other systems, for tests/conformance"
    )
    parser.addoption(
        "--minima", metavar="FILE", default=None, help="TOML file of how many of these cases must agree at least, suite by suite"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """How many processes `--numprocesses=auto` means: one a core for a whole run, else none beside this one.

    Runs of a few files end before other processes have begun, and what measures or prints must be here.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and "not bench" in config.option.markexpr
    return None if whole else 0
