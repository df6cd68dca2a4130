"""What is cut out of a text, and what an operator still needs of it."""

from __future__ import annotations

import pytest

from syncd.core.secrecy import printable, without_credentials, without_keys

SECRET = "hunter2Xq9"
LONG = "Zm9vYmFyQmF6MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1u"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"basic {SECRET}==",
        f"https://user:{SECRET}@host/path",
        f"https://user:p@{SECRET}@host/path",
        f"eyJhbGciOiJS.eyJzdWIiOiIx.{SECRET}",
        f"password={SECRET}",
        f"AWS_SECRET_ACCESS_KEY={SECRET} is wrong",
        f'{{"access_token": "{SECRET}"}}',
        f"client-secret: {SECRET}",
        f"usage: tool --client-secret {SECRET}",
        f"usage: tool --token={SECRET}",
        f"ghp_{SECRET}abcdefgh",
        f"AKIA{SECRET.upper()}ABCD is no key",
    ],
)
def test_what_looks_like_a_credential_is_cut(text: str) -> None:
    for left in (without_credentials(text), without_keys(text)):
        assert "***" in left
        assert SECRET not in left
        assert SECRET.upper() not in left


@pytest.mark.parametrize("text", [f"k8s-aws-v1.{LONG}", f"got {LONG}/{LONG}+==", f"ya29.a0{LONG}"])
def test_a_key_without_its_name_is_cut_where_strangers_speak(text: str) -> None:
    assert LONG not in without_keys(text)


@pytest.mark.parametrize(
    "text",
    [
        "prod: pods in kube-system: kube-controller-manager-control-plane-1 is in quarantine",
        "default/checkout-service-canary-5d4f8c7b9d-x2x7k-a1b2c3d4",
        "3 of secrets: 403 Forbidden: secrets is forbidden",
    ],
)
def test_names_of_objects_stay_in_what_syncd_says(text: str) -> None:
    assert without_credentials(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Unable to locate credentials. You can configure credentials by running aws configure.",
        "error: token: expired at 2026-11-21T01:00:00Z",
        "ERROR: (gcloud.auth) Your active account [me@example.com] does not have any valid credentials",
        "ForbiddenException: request 7c9e6679-7425-40de-944b-e07fc1f90ae7 was refused",
        "FileNotFoundError: '/usr/lib/python3.11/site-packages/botocore/data'",
        "dial tcp: lookup sts.eu-central-1.amazonaws.com: no such host",
        "AADSTS700016: Application was not found in the directory",
    ],
)
def test_what_helps_stays(text: str) -> None:
    assert without_keys(text) == without_credentials(text) == text


def test_a_text_becomes_one_printable_line() -> None:
    assert (
        printable("\x1b[1;31mError\x1b[0m:\tno\r\n  way\x07 \x1b]0;title\x07ök\x00\u202e!")
        == "Error: no way ök !"
    )
