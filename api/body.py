"""Request body: the right type, within the limit, decompressed."""

from __future__ import annotations

import asyncio
from email.message import Message

from fastapi import Request

from gangfit.api.parse import TooLargeError, gunzip
from gangfit.api.problems import ProblemError


async def read_body(request: Request, limit: int) -> bytes:
    """Body of a request that declares JSON, at most `limit` bytes. Raises ProblemError; for broken gzip InputError."""
    _require_json(request.headers.get("content-type"))
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("gzip", "identity"):
        detail = f"Content-Encoding {encoding!r} is not supported; send gzip or none."
        raise ProblemError(415, "unsupported-encoding", detail, {"Accept-Encoding": "gzip, identity"})
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit, f"is {declared} bytes long")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit, "is longer")
    if encoding == "identity":
        return bytes(body)
    try:
        return await asyncio.to_thread(gunzip, bytes(body), limit)
    except TooLargeError:
        raise _too_large(limit, "is longer after decompression") from None


def _require_json(content_type: str | None) -> None:
    accept = {"Accept": "application/json"}
    if content_type is None:
        raise ProblemError(415, "unsupported-media-type", "Content-Type is missing; send application/json.", accept)
    message = Message()
    message["content-type"] = content_type
    charset = message.get_content_charset("utf-8")
    if message.get_content_type() != "application/json" or charset not in ("utf-8", "utf8"):
        detail = f"Content-Type {content_type!r} is not supported; send application/json (UTF-8)."
        raise ProblemError(415, "unsupported-media-type", detail, accept)


def _too_large(limit: int, what: str) -> ProblemError:
    return ProblemError(413, "body-too-large", f"The limit is {limit} bytes; the body {what}.")
