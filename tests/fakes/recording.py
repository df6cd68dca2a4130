"""The recordings of a real API server as values: request line, status, headers, body without its chunks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

WIRE = Path(__file__).parent.parent / "data" / "wire"
NAMES = sorted(path.stem for path in WIRE.glob("*.http"))


@dataclass(frozen=True, slots=True)
class Recording:
    """One exchange. `headers` has lower-case names."""

    name: str
    request: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.request and self.status == 200


def recording(name: str) -> Recording:
    """The exchange recorded under this name."""
    asked, _, answered = (WIRE / f"{name}.http").read_bytes().partition(b"HTTP/1.1 ")
    head, _, body = answered.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {key.strip().lower(): value.strip() for key, _, value in (one.partition(":") for one in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _without_chunks(body)
    return Recording(name, asked.decode().splitlines()[0].removeprefix("> "), int(status[:3]), headers, body)


def _without_chunks(data: bytes) -> bytes:
    parts: list[bytes] = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if length == 0:
            break
        parts.append(rest[:length])
        data = rest[length + 2 :]
    return b"".join(parts)
