from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _api, _core
from ._core import Error


class WebhookError(Error):
    """The request is not an authentic, recent message of the service."""


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that this version of the package does not know."""

    type: str
    timestamp: Any
    data: Any


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
) -> _api.WebhookEvent | UnknownEvent:
    """Checks the signature of a webhook request, and returns its event.

    Raises WebhookError if no signature is valid, or if the request is too old or from the future.

    :param body: The body exactly as received.
    :param headers: The headers of the request. Their names are not case-sensitive.
    :param secret: The secret of the webhook, ``whsec_...``, or several.
    :param tolerance: The largest accepted difference of the clocks, in seconds.
    :param now: The Unix time to compare with; the current time by default.
    """
    values = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, timestamp = values["webhook-id"], values["webhook-timestamp"]
        signatures = values["webhook-signature"].split()
    except KeyError as e:
        raise WebhookError(f"the header {e.args[0]} is missing") from None
    if not (timestamp.isascii() and timestamp.isdigit()):
        raise WebhookError("webhook-timestamp is not a Unix time")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise WebhookError("webhook-timestamp is too far from the current time")
    content = body.encode() if isinstance(body, str) else body
    signed = f"{message_id}.{timestamp}.".encode() + content
    valid = False
    for s in [secret] if isinstance(secret, str) else secret:
        try:
            key = base64.b64decode(s.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("the secret is not whsec_ and base64") from None
        want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        for signature in signatures:
            valid |= hmac.compare_digest(want.encode(), signature.encode())
    if not valid:
        raise WebhookError("webhook-signature has no valid signature")
    try:
        event = json.loads(content)
        name, decode = event["type"], _api.EVENTS.get(event["type"])
        return decode(event) if decode else UnknownEvent(name, _core.timestamp(event["timestamp"]), event["data"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WebhookError("the body is not an event") from None
