"""The port of the metrics outlives a broker: it answers between two of them, at the same address."""

import asyncio
import json

from oncelog.broker.admin.access import Access
from oncelog.broker.admin.http import HttpServer
from oncelog.broker.admin.kept_port import KeptPort
from oncelog.broker.admin.messages import AdminRequest, Response
from oncelog.broker.config.admin_address import parse_http_address


def server_of(name: str) -> HttpServer:
    async def serve(_: AdminRequest) -> Response:
        return Response(200, {"broker": name})

    return HttpServer(serve, Access("metrics", parse_http_address("127.0.0.1:0")), None)


async def ask(address: tuple[str, int], path: str) -> tuple[int, dict[str, str]]:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


def test_one_broker_after_the_other_answers_at_one_address() -> None:
    """The process is alive, not ready, and without metrics, between the two."""

    async def run() -> None:
        kept = KeptPort(lambda: "it is about to lead")
        address = await kept.start(server_of("one"), "127.0.0.1", 0)
        assert await ask(address, "/metrics") == (200, {"broker": "one"})
        await kept.release()
        assert await ask(address, "/healthz") == (200, {"status": "alive"})
        assert await ask(address, "/readyz") == (503, {"status": "not ready", "reason": "it is about to lead"})
        assert (await ask(address, "/metrics"))[0] == 503
        assert await kept.start(server_of("two"), "127.0.0.1", 0) == address
        assert await ask(address, "/readyz") == (200, {"broker": "two"})
        await kept.close()

    asyncio.run(run())


def test_nothing_listens_once_it_is_closed() -> None:
    async def run() -> None:
        kept = KeptPort(lambda: None)
        address = await kept.start(server_of("one"), "127.0.0.1", 0)
        await kept.close()
        try:
            await asyncio.open_connection(*address)
        except OSError:
            return
        raise AssertionError("it still listens")

    asyncio.run(run())
