"""What `web_fetch` reaches of a network in which every address answers: the public ones alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tools.private_network import PAGE, PUBLIC, REFUSED

pytestmark = pytest.mark.slow

Outcome = tuple[list[str], bool, str]
ROOT = Path(__file__).parents[2]


def unsharing() -> list[str]:
    """The command that runs another one in a network of its own.

    Skips the test where this machine lets nobody have one.
    """
    for options in (["--net"], ["--user", "--map-root-user", "--net"]):
        command = ["unshare", *options]
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], check=False, capture_output=True).returncode
        ):
            return command
    pytest.skip(
        "no network namespace can be made here: it needs Linux, and root or user namespaces"
    )


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    told = subprocess.run(
        [*unsharing(), sys.executable, "-m", "tests.support.tools.private_network"],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    by_case: dict[str, Outcome] = json.loads(told.stdout)
    return by_case


def test_a_public_address_is_reached_also_by_a_redirect(outcomes: dict[str, Outcome]) -> None:
    for case, times in (("public", 1), ("a redirect that stays public", 2)):
        reached, is_error, content = outcomes[case]
        assert reached == [PUBLIC] * times
        assert not is_error
        assert PAGE.decode() in content


@pytest.mark.parametrize("kind", REFUSED)
def test_no_other_address_is_reached_by_name_or_number(
    outcomes: dict[str, Outcome], kind: str
) -> None:
    for case in (f"a name of {kind}", f"the address of {kind}"):
        reached, is_error, content = outcomes[case]
        assert reached == []
        assert is_error
        assert "not a public host" in content


@pytest.mark.parametrize("kind", REFUSED)
def test_a_redirect_leads_to_no_other_address(outcomes: dict[str, Outcome], kind: str) -> None:
    reached, is_error, content = outcomes[f"a redirect to {kind}"]
    assert reached == [PUBLIC]
    assert is_error
    assert "another host" in content


@pytest.mark.parametrize("kind", REFUSED)
def test_a_name_that_changes_is_connected_to_where_it_was_checked(
    outcomes: dict[str, Outcome], kind: str
) -> None:
    reached, is_error, _ = outcomes[f"a name that was public before {kind}"]
    assert (reached, is_error) == ([PUBLIC], False)
    reached, is_error, content = outcomes[f"a redirect, and by then {kind}"]
    assert (reached, is_error) == ([PUBLIC], True)
    assert "not a public host" in content
