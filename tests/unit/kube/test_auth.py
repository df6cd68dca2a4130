"""Credentials as values, and a token file that rotates under a clock of our own."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from syncd.core.errors import Unauthorized
from syncd.kube.auth import Basic, Token, TokenFile
from syncd.kube.authenticator import Authenticator
from syncd.kube.exec_login import Proof


class Hands:
    time = 0.0

    def __call__(self) -> float:
        return self.time


async def bearer(authenticator: Authenticator) -> str:
    ((name, value),) = (await authenticator.proof()).headers
    assert name == "Authorization"
    return value.removeprefix("Bearer ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("  one\n")
    return path


async def test_fixed_logins() -> None:
    assert (await Authenticator(None).proof()).headers == []
    assert await bearer(Authenticator(Token("t"))) == "t"
    ((_, value),) = (await Authenticator(Basic("jané", "p:w")).proof()).headers
    assert base64.b64decode(value.removeprefix("Basic ")).decode() == "jané:p:w"


async def test_a_token_file_is_read_again_ten_seconds_before_a_minute_is_over(file: Path) -> None:
    hands = Hands()
    authenticator = Authenticator(TokenFile(file), monotonic=hands)
    assert await bearer(authenticator) == "one"
    file.write_text("two")
    hands.time = 49.9
    assert await bearer(authenticator) == "one"
    hands.time = 50.0
    assert await bearer(authenticator) == "two"
    file.write_text("three")
    hands.time = 99.9
    assert await bearer(authenticator) == "two"
    authenticator.rejected(Proof([]))
    assert await bearer(authenticator) == "three"


@pytest.mark.parametrize(
    "content", [None, b"", b" \n", b"\xff\xfe", b"two\r\nX-Evil: 1", "t\u00f6ken".encode()]
)
async def test_a_file_that_holds_no_token_keeps_the_last_one(file: Path, content: bytes | None) -> None:
    hands = Hands()
    authenticator = Authenticator(TokenFile(file), monotonic=hands)
    assert await bearer(authenticator) == "one"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    hands.time = 60.0
    assert await bearer(authenticator) == "one"
    authenticator.rejected(Proof([]))
    assert await bearer(authenticator) == "one"
    file.write_text("two")
    assert await bearer(authenticator) == "two", "tried at every request until it works"


async def test_the_fixed_token_stands_in_until_the_file_was_read(tmp_path: Path) -> None:
    path = tmp_path / "later"
    authenticator = Authenticator(TokenFile(path, "fallback"))
    assert await bearer(authenticator) == "fallback"
    path.write_text("read")
    assert await bearer(authenticator) == "read"
    path.unlink()
    authenticator.rejected(Proof([]))
    assert await bearer(authenticator) == "read"


async def test_no_token_at_all_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(Unauthorized, match="missing"):
        await Authenticator(TokenFile(tmp_path / "missing")).proof()
