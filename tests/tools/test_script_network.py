"""Scripts that may ask some hosts, and nobody else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from service.agent.agent_factory import agent_from_settings
from service.cli.doctor_checks import check_sandbox
from service.config import LLMSettings, Settings, ToolsSettings, load_settings
from service.domain.errors import ConfigurationError
from service.tools.builtins.run_script import run_script_tool
from service.tools.sandbox.levels import NOT_COVERED, sandbox_for
from service.tools.scripts.domain_proxy import DomainProxy
from tests.support.tools.attacks import ATTACKS
from tests.support.tools.prey import laid_out
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio

HOST = "api.example.org"
ADDRESSES = {
    HOST: ["127.0.0.1"],
    "private.example.org": ["10.0.0.7"],
    "rebound.example.org": ["93.184.216.34", "127.0.0.1"],
    "other.example.com": ["127.0.0.1"],
}
LISTED = (HOST, "private.example.org", "rebound.example.org", "gone.example.org")


class Site(ThreadingHTTPServer):
    """A server that tells what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                heads = "|".join(f"{name}: {value}" for name, value in self.headers.items())
                answer = f"{self.command} {self.path} {heads} {body.decode()}".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        yield server
        server.shutdown()


async def resolve(host: str, port: int) -> list[str]:
    if host not in ADDRESSES:
        raise OSError("no such host")
    return ADDRESSES[host]


def proxy_to(site: Site, *domains: str) -> DomainProxy:
    ports = (site.server_port, 443)
    return DomainProxy(domains, resolve=resolve, ports=ports, private_hosts=(HOST,))


@contextlib.asynccontextmanager
async def asked(proxy: DomainProxy, folder: Path, request: str) -> AsyncIterator[str]:
    """What is answered to a request, until the other side ends."""
    async with proxy.listening(folder) as path, await anyio.connect_unix(path) as connection:
        with anyio.fail_after(30):
            await connection.send(request.encode())
            answer = b""
            with contextlib.suppress(anyio.EndOfStream):
                while True:
                    answer += await connection.receive()
        yield answer.decode()


async def answer_to(proxy: DomainProxy, folder: Path, request: str) -> str:
    async with asked(proxy, folder, request) as answer:
        return answer


async def test_a_request_to_a_listed_host_is_passed_on_without_what_is_the_proxys(
    site: Site, tmp_path: Path
) -> None:
    answer = await answer_to(
        proxy_to(site, HOST),
        tmp_path,
        f"POST http://API.Example.org.:{site.server_port}/a%20b?q=1 HTTP/1.1\r\nHost: other.org\r\n"
        "Proxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\nX-Mine: kept\r\n"
        "Content-Length: 3\r\n\r\nyes",
    )
    assert "200 OK" in answer
    assert "POST /a%20b?q=1 " in answer
    assert "X-Mine: kept" in answer
    assert "Connection: close" in answer
    assert answer.endswith(" yes")
    for gone in ("secret", "other.org", "Proxy-"):
        assert gone not in answer


async def test_a_tunnel_to_a_listed_host_leads_both_ways(site: Site, tmp_path: Path) -> None:
    proxy = proxy_to(site, "*.example.org")
    tunnel = f"CONNECT {HOST}:{site.server_port} HTTP/1.1\r\n\r\n"
    answer = await answer_to(proxy, tmp_path, f"{tunnel}GET /through HTTP/1.0\r\n\r\n")
    assert "200 Connection established" in answer
    assert "GET /through" in answer


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("CONNECT other.example.com:443", "403 Forbidden"),
        ("CONNECT example.org:443", "403 Forbidden"),
        ("CONNECT api.example.org.evil.com:443", "403 Forbidden"),
        ("CONNECT 127.0.0.1:443", "403 Forbidden"),
        ("CONNECT [::1]:443", "403 Forbidden"),
        (f"CONNECT {HOST}:22", "403 Forbidden"),
        ("CONNECT private.example.org:443", "not a host of the public network"),
        ("CONNECT rebound.example.org:443", "not a host of the public network"),
        ("CONNECT gone.example.org:443", "There is no host gone.example.org"),
        (f"CONNECT {HOST}:443", "cannot be reached"),
        (f"CONNECT {HOST}", "400 Bad Request"),
        (f"CONNECT me@{HOST}:443", "400 Bad Request"),
        (f"CONNECT {HOST}:99999", "400 Bad Request"),
        (f"GET https://{HOST}/", "400 Bad Request"),
        ("GET file:///etc/passwd", "400 Bad Request"),
        ("GET /", "400 Bad Request"),
        ("", "400 Bad Request"),
        ("GET http://[", "400 Bad Request"),
        (f"GET http://{HOST}/" + "x" * 50_000, "431 "),
    ],
)
async def test_anything_else_is_refused_in_words(
    site: Site, tmp_path: Path, target: str, answer: str
) -> None:
    told = await answer_to(proxy_to(site, *LISTED), tmp_path, f"{target} HTTP/1.1\r\n\r\n")
    assert answer in told
    assert "Connection: close" in told


async def test_a_folder_with_a_long_name_has_a_socket_elsewhere(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / ("长" * 40)
    folder.mkdir()
    async with proxy_to(site, HOST).listening(folder) as path:
        assert path.parent != folder
        async with await anyio.connect_unix(path):
            pass
    assert not path.parent.exists()


@pytest.mark.slow
async def test_in_the_sandbox_a_script_asks_listed_hosts_and_nobody_else(
    site: Site, tmp_path: Path
) -> None:
    try:
        sandbox = sandbox_for("bubblewrap+landlock")
    except ConfigurationError as error:
        pytest.skip(error.detail)
    (tmp_path / "ask.py").write_text(
        f"""
import http.client, os, socket, subprocess, urllib.error, urllib.request
def ask(host):
    page = f"http://{{host}}:{site.server_port}/page"
    try: return urllib.request.urlopen(page, timeout=20).read()
    except urllib.error.HTTPError as error: return error.read()
print(ask("{HOST}"))
print(ask("other.example.com"))
tunnel = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
tunnel.set_tunnel("{HOST}", {site.server_port})
tunnel.request("GET", "/tunnel")
print(tunnel.getresponse().read())
for address in (("127.0.0.1", {site.server_port}), ("1.1.1.1", 443)):
    try: socket.create_connection(address, 5); print("CONNECTED")
    except OSError as error: print(error)
try: socket.socket(socket.AF_UNIX).connect("/run/rondo/proxy")
except OSError as error: print(error)
print(subprocess.run("sleep 0; wait; echo waited", shell=True, capture_output=True).stdout)
while True:
    try: os.wait()
    except ChildProcessError: break
"""
    )
    tool = run_script_tool(tmp_path, sandbox=sandbox, proxy=proxy_to(site, HOST))
    output = (await result_of(tool, name="ask.py")).content
    assert "exit code 0" in output, output
    assert "GET /page" in output
    assert "other.example.com" in output
    assert "tools.script_network lists api.example.org" in output
    assert "GET /tunnel" in output
    assert "CONNECTED" not in output
    assert output.count("Permission denied") == 3
    assert "waited" in output


@pytest.mark.slow
async def test_the_hosts_are_those_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "ask.py").write_text(
        "import urllib.error, urllib.request\n"
        "try: urllib.request.urlopen('http://other.example.com/')\n"
        "except urllib.error.HTTPError as error: print(error.code, error.read())\n"
    )
    settings = Settings(
        data_dir=tmp_path,
        tools=ToolsSettings(scripts=True, script_network=("*.example.org",)),
        llm=LLMSettings(provider="embedded"),
    )
    if not sandbox_for(settings.tools.sandbox).leads_to_proxy:
        pytest.skip("no sandbox here leads to a proxy")
    tool = agent_from_settings(settings).tools.get("run_script")
    assert tool is not None
    output = (await result_of(tool, name="ask.py")).content
    assert "403" in output
    assert "tools.script_network lists *.example.org, at the ports 80 and 443" in output


@pytest.mark.slow
async def test_a_way_to_some_hosts_is_no_way_out(site: Site, tmp_path: Path) -> None:
    try:
        sandbox = sandbox_for("bubblewrap+landlock")
    except ConfigurationError as error:
        pytest.skip(error.detail)
    with laid_out(tmp_path) as prey:
        escaped, output = await prey.attacked(ATTACKS, sandbox, proxy=proxy_to(site, HOST))
    assert escaped == set(NOT_COVERED[sandbox.level]), output
    assert "exit code 0" in output


@pytest.mark.slow
async def test_where_it_cannot_be_kept_to_some_hosts_a_script_has_no_network(
    site: Site, tmp_path: Path
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        tools=ToolsSettings(scripts=True, sandbox="landlock", script_network=(HOST,)),
    )
    try:
        sandbox = sandbox_for("landlock")
    except ConfigurationError as error:
        pytest.skip(error.detail)
    (tmp_path / "ask.py").write_text(
        "import os, socket\n"
        "print([name for name in os.environ if 'proxy' in name.lower()])\n"
        f"socket.create_connection(('127.0.0.1', {site.server_port}), 5)"
    )
    tool = run_script_tool(tmp_path, sandbox=sandbox, proxy=proxy_to(site, HOST))
    output = (await result_of(tool, name="ask.py")).content
    assert "[]" in output
    assert "Permission denied" in output
    finding = check_sandbox(settings)
    assert finding.verdict == "note"
    assert "cannot keep a script to some" in finding.words


@pytest.mark.parametrize(
    ("written", "granted"),
    [
        (True, True),
        ("false", False),
        ("yes", True),
        ([], ()),
        (["API.example.org", "*.例子.中国"], ("api.example.org", "*.xn--fsqu00a.xn--fiqs8s")),
        ("a.example.org, b.example.org", ("a.example.org", "b.example.org")),
    ],
)
def test_the_network_is_granted_as_a_whole_or_by_hosts(written: object, granted: object) -> None:
    assert ToolsSettings.model_validate({"script_network": written}).script_network == granted


@pytest.mark.parametrize(
    "written",
    ["localhost", "127.0.0.1", "[::1]", "*", "*.org", "https://a.org", "a.org:443", "a b.org"],
)
def test_what_is_no_name_of_hosts_is_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="is no name of hosts"):
        ToolsSettings(script_network=(written,))


def test_a_variable_can_list_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for written, granted in (
        ('["a.example.org"]', ("a.example.org",)),
        ("a.example.org,b.example.org", ("a.example.org", "b.example.org")),
        ("true", True),
    ):
        monkeypatch.setenv("RONDO_TOOLS__SCRIPT_NETWORK", written)
        assert load_settings().tools.script_network == granted
    monkeypatch.setenv("RONDO_TOOLS__SCRIPT_NETWORK", "10.0.0.1")
    with pytest.raises(ConfigurationError, match=r"tools\.script_network cannot be used"):
        load_settings()
