"""The part of the client that is written by hand: connections, tokens, retries, values and iterators."""

from __future__ import annotations

import base64
import copy
import datetime as _dt
import enum
import http.client
import json
import random
import select
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeVar

T = TypeVar("T")
C = TypeVar("C", bound="BaseClient")
DecimalInput = float | Decimal
"""A decimal in a request. A Decimal is sent exactly."""


class Unset(enum.Enum):
    """The type of UNSET."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""The value of a field that an update does not change. None clears the field."""


class Number(float):
    """A decimal in a response: a float whose ``decimal`` is the exact value."""

    __slots__ = ()

    @property
    def decimal(self) -> Decimal:
        """The exact value. The service sends at most 15 digits, which a float keeps."""
        return Decimal(int(self)) if self.is_integer() else Decimal(float.__repr__(self))


class Error(Exception):
    """The base class of all exceptions of this package, except those for invalid arguments."""


class TransportError(Error):
    """No response: the connection failed.

    ``sent`` is False if the service did not get the request, and True if it may have executed it.
    """

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message, sent)
        self.sent = sent

    def __str__(self) -> str:
        return str(self.args[0])


class RequestTimeout(TransportError, TimeoutError):
    """No response within the timeout."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A problem with one field of a request."""

    field: str
    message: str


class ApiError(Error):
    """The service responded with an error. Each code of the API has a subclass."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: tuple[FieldError, ...] = (),
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, code, detail, errors, request_id, retry_after)
        self.status, self.code, self.detail = status, code, detail
        self.errors = errors
        """The invalid fields, with a 422."""
        self.request_id = request_id
        """The id under which the log of the service has the request."""
        self.retry_after = retry_after
        """The seconds to wait before the next try, if the service sent them."""

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.detail}"


# Values of responses. All functions accept None: a field is None if an older service does not send it.


def optional(decode: Callable[[Any], T], value: Any) -> Any:
    return None if value is None else decode(value)


def each(decode: Callable[[Any], Any] | None, values: Any) -> Any:
    if values is None:
        return None
    return tuple(values) if decode is None else tuple([decode(v) for v in values])


def number(value: Any) -> Any:
    return None if value is None else Number(value)


def timestamp(value: Any) -> Any:
    """Converts an RFC 3339 time in UTC, as the service sends it."""
    if value is None:
        return None
    seconds, _, fraction = value.rstrip("Z").partition(".")
    if fraction:  # Python 3.10 accepts only six digits
        seconds += "." + (fraction + "00000")[:6]
    return _dt.datetime.fromisoformat(seconds + "+00:00")


def date(value: Any) -> Any:
    return None if value is None else _dt.date.fromisoformat(value)


def nothing(value: Any, etag: str | None = None) -> None:
    return None


def anything(value: Any, etag: str | None = None) -> Any:
    return value


def text(value: Any, etag: str | None = None) -> str:
    return str(value)


# Values of requests.


def encode(value: Any) -> str:
    """Returns the JSON text of a value, with the exact digits of a Decimal."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a JSON number")
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}:{encode(v)}" for k, v in value.items() if v is not UNSET) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, (_dt.date, _dt.datetime)):
        return json.dumps(plain(value))
    return json.dumps(value, allow_nan=False)


def plain(value: Any) -> str:
    """Returns the text of a value in a path or a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(plain, value))
    if isinstance(value, _dt.datetime):
        if value.tzinfo is None:
            raise ValueError("the datetime has no time zone; use datetime.now(timezone.utc) or .astimezone()")
        return value.isoformat()
    return value.isoformat() if isinstance(value, _dt.date) else str(value)


def segment(value: str | int) -> str:
    if value in ("", None):
        raise ValueError("the id is empty")
    return urllib.parse.quote(str(value), safe="")


def new_key() -> str:
    return str(uuid.uuid4())


@dataclass(slots=True)
class Response:
    status: int
    headers: http.client.HTTPMessage
    content: bytes


class Pool:
    """Connections to one service, safe for use by several threads."""

    MAX_IDLE = 32
    MAX_IDLE_SECONDS = 50.0  # less than the idle timeouts of common proxies

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"{url!r} is not the URL of a service, such as https://farm.example")
        self.tls, self.host = parts.scheme == "https", parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/") + "/api/v1"
        self.context = context or (ssl.create_default_context() if self.tls else None)
        self.lock = threading.Lock()
        self.idle: list[tuple[http.client.HTTPConnection, float]] = []
        self.proxy: urllib.parse.SplitResult | None = None
        self.proxy_headers: dict[str, str] = {}
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and not urllib.request.proxy_bypass(parts.netloc):
            self.proxy = p = urllib.parse.urlsplit(proxy if "://" in proxy else "http://" + proxy)
            if p.username is not None:
                user = f"{urllib.parse.unquote(p.username)}:{urllib.parse.unquote(p.password or '')}"
                self.proxy_headers = {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
            if not self.tls:  # a proxy expects the whole URL in a request without TLS
                self.prefix = f"http://{parts.netloc}{self.prefix}"

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self.host, self.port
        if self.proxy:
            host, port = self.proxy.hostname or "", self.proxy.port or 80
        if not self.tls:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self.context)
        if self.proxy:
            connection.set_tunnel(self.host, self.port, self.proxy_headers)
        return connection

    def get(self, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self.lock:
                if not self.idle:
                    return self.connect(timeout)
                connection, since = self.idle.pop()
            # The connection is readable if the service closed it or sent data without a request. Do not use it then.
            if time.monotonic() - since < self.MAX_IDLE_SECONDS and not readable(connection.sock):
                return connection
            connection.close()

    def put(self, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            if len(self.idle) < self.MAX_IDLE:
                self.idle.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for connection, _ in idle:
            connection.close()

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes | None, timeout: float) -> Response:
        """Sends a request once. Raises TransportError."""
        deadline = time.monotonic() + timeout
        connection, sent = self.get(timeout), False
        try:
            if connection.sock is None:
                connection.timeout = timeout
                connection.connect()
            if connection.sock is not None:
                connection.sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sent = True
            if not self.tls:
                headers = {**headers, **self.proxy_headers}
            connection.request(method, self.prefix + path, body, headers)
            response = connection.getresponse()
            content = b""
            while True:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                if connection.sock is not None:
                    connection.sock.settimeout(remaining)
                chunk = response.read1(1 << 16)
                content += chunk
                if not chunk or response.length == 0:
                    break
            if response.length:
                raise http.client.IncompleteRead(content, response.length)
            response.close()
        except BaseException as e:
            connection.close()
            if isinstance(e, TimeoutError):
                raise RequestTimeout(f"{method} {path}: no response within {timeout:g} s", sent) from e
            if isinstance(e, (OSError, http.client.HTTPException)):
                raise TransportError(f"{method} {path}: {type(e).__name__}: {e}", sent) from e
            raise
        if response.will_close:
            connection.close()
        else:
            self.put(connection)
        return Response(response.status, response.headers, content)


def readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])


class Session:
    """The tokens of a login, shared by all threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.access, self.refresh = "", ""
        self.renew_at = 0.0  # the monotonic time at which the client renews the access token

    def set(self, tokens: Mapping[str, Any]) -> None:
        lifetime = float(tokens["expires_in"])
        self.access, self.refresh = tokens["access_token"], tokens["refresh_token"]
        self.renew_at = time.monotonic() + lifetime - min(30, lifetime / 5)


class BaseClient:
    """The base class of ``Client``. It sends requests and renews tokens. ``Client`` adds the operations."""

    _errors: Mapping[str, type[ApiError]] = {}
    _version = ""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 30,
        retries: int = 2,
        repeat_writes: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Prepares a client. It connects with the first call.

        :param url: The URL of the service, such as ``https://farm.example``.
        :param api_key: An API key. Without one, use ``Client.login``.
        :param timeout: Seconds that one try of a call may take.
        :param retries: How often a call is tried again after a connection error, a 429, or a 502, 503 or 504.
        :param repeat_writes: Whether a PATCH or DELETE is tried again if the service may have executed it.
        :param ssl_context: Replaces the default, which trusts the certificates of the system and of ``SSL_CERT_FILE``.
        """
        self._pool, self._session = Pool(url, ssl_context), Session()
        self._api_key = api_key
        self._timeout, self._retries, self._repeat_writes = timeout, retries, repeat_writes
        self._bind()

    def _bind(self) -> None:
        """Creates the attributes with the operations."""

    @classmethod
    def login(
        cls: type[C],
        url: str,
        email: str,
        password: str,
        *,
        otp: str | None = None,
        timeout: float = 30,
        retries: int = 2,
        repeat_writes: bool = False,
        ssl_context: ssl.SSLContext | None = None,
    ) -> C:
        """Logs in and returns a client. The client renews its tokens, and does not keep the password.

        :param otp: The code of the app, or a recovery code, of a user with a second factor.
        """
        client = cls(url, timeout=timeout, retries=retries, repeat_writes=repeat_writes, ssl_context=ssl_context)
        body = {"email": email, "password": password}
        if otp is not None:
            body["otp"] = otp
        try:
            client._session.set(client._call("POST", "/auth/login", anything, body=body, token=None))
        except BaseException:
            client.close()
            raise
        return client

    def logout(self) -> None:
        """Ends the login."""
        refresh, self._session.refresh = self._session.refresh, ""
        if refresh:
            self._call("POST", "/auth/logout", nothing, body={"refresh_token": refresh})

    def with_options(
        self: C, *, timeout: float | None = None, retries: int | None = None, repeat_writes: bool | None = None
    ) -> C:
        """Returns a client with other options, which shares the connections and the login with this one."""
        other = copy.copy(self)
        if timeout is not None:
            other._timeout = timeout
        if retries is not None:
            other._retries = retries
        if repeat_writes is not None:
            other._repeat_writes = repeat_writes
        other._bind()
        return other

    def close(self) -> None:
        """Closes the idle connections. The client can still be used."""
        self._pool.close()

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _call(
        self,
        method: str,
        path: str,
        decode: Callable[[Any, str | None], T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        csv: str | bytes | None = None,
        jsonl: str | bytes | None = None,
        file: bytes | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        token: str | None = "",
    ) -> T:
        headers = {"User-Agent": "spoolwright-python/" + self._version}
        if query:
            pairs = [(k, plain(v)) for k, v in query.items() if v is not None]
            path += "?" + urllib.parse.urlencode(pairs) if pairs else ""
        data = None
        if body is not None:
            data, headers["Content-Type"] = encode(body).encode(), "application/json"
        for text, media in (csv, "text/csv"), (jsonl, "application/jsonl"), (file, "application/octet-stream"):
            if text is not None:
                data, headers["Content-Type"] = text.encode() if isinstance(text, str) else text, media
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if if_match is not None:
            headers["If-Match"] = if_match
        if self._api_key is not None:
            headers["X-API-Key"], token = self._api_key, None
        # A repeated refresh within 30 seconds returns the current tokens again.
        repeatable = method == "GET" or idempotency_key is not None or path == "/auth/refresh" or self._repeat_writes
        attempt, renewed = 0, False
        while True:
            if token is not None:
                token = self._token()
                headers["Authorization"] = "Bearer " + token
            try:
                response = self._pool.send(method, path, headers, data, self._timeout)
            except TransportError as e:
                refused = isinstance(e.__cause__, ssl.SSLCertVerificationError)
                if attempt >= self._retries or refused or (e.sent and not repeatable):
                    raise
                seconds = None
            else:
                if response.status < 300:
                    kind = response.headers.get("Content-Type", "")
                    json_body = kind.startswith("application/json")
                    value = json.loads(response.content) if json_body else response.content.decode()
                    return decode(value, response.headers.get("ETag"))
                error = self._error(response)
                if error.status == 401 and token is not None and not renewed and self._renew(token):
                    renewed = True
                    continue
                again = error.status == 429 or (error.status in (502, 503, 504) and repeatable)
                if attempt >= self._retries or not again or (error.retry_after or 0) > 60:
                    raise error
                seconds = error.retry_after
            pause = 0.25 * 2**attempt
            time.sleep((seconds or pause) + random.random() * pause)
            attempt += 1

    def _error(self, response: Response) -> ApiError:
        try:
            body = json.loads(response.content)
            code, detail = str(body["code"]), str(body["detail"])
            errors = tuple(FieldError(e["field"], e["message"]) for e in body.get("errors", ()))
        except (ValueError, KeyError, TypeError):  # a proxy responded
            code, detail, errors = "", response.content[:200].decode(errors="replace"), ()
        seconds = response.headers.get("Retry-After", "")
        return self._errors.get(code, ApiError)(
            response.status,
            code,
            detail,
            errors,
            response.headers.get("X-Request-Id"),
            float(seconds) if seconds.isdigit() else None,
        )

    def _token(self) -> str:
        """Returns the access token, after a refresh if it expires soon."""
        s = self._session
        if not s.access:
            raise Error("the client has no API key and no login; use Client.login")
        if s.refresh and time.monotonic() >= s.renew_at:
            self._renew(s.access)
        return s.access

    def _renew(self, token: str) -> bool:
        """Replaces the access token, unless another thread already did. Returns False if the login has ended."""
        s = self._session
        with s.lock:
            if s.access != token:
                return True
            if not s.refresh:
                return False
            try:
                s.set(self._call("POST", "/auth/refresh", anything, body={"refresh_token": s.refresh}, token=None))
            except ApiError as e:
                if e.status != 401:
                    raise
                s.refresh = ""
                return False
            return True


def pages(client: BaseClient, path: str, decode: Callable[[Any], Any], query: Mapping[str, Any]) -> Iterator[Any]:
    """Yields each item of a list once. It selects the pages of the list by the number of items to skip.

    Each page begins with the last item of the page before. If a page does not, items were deleted. Then the function
    fetches earlier pages until a page begins with a known item.
    """
    seen: set[str] = set()
    skip, limit = 0, 100
    while True:
        page = client._call("GET", path, lambda d, _: decode(d), query={**query, "skip": skip, "limit": limit})
        if skip > 0 and not (page.items and page.items[0].id in seen):
            skip = max(0, skip - limit + 1)
            continue
        for item in page.items:
            if item.id not in seen:
                seen.add(item.id)
                yield item
        if len(page.items) < limit:
            return
        skip += limit - 1


def cursor_pages(
    client: BaseClient, path: str, decode: Callable[[Any], Any], query: Mapping[str, Any]
) -> Iterator[Any]:
    """Yields the items of a list. It selects the pages by cursor, or by number if the sort order has no cursor."""
    after: str | None = None
    while True:
        page = client._call("GET", path, lambda d, _: decode(d), query={**query, "limit": 100, "after": after})
        if after is None and page.next is None and page.total > len(page.items):
            yield from pages(client, path, decode, query)
            return
        yield from page.items
        after = page.next
        if after is None:
            return
