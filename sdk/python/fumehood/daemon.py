"""Sessions of a daemon (`fumehood serve`): on this machine over its Unix socket, or on another by
URL and token.

REST starts, finds and ends sessions; everything else goes over the session's channel, a WebSocket
that carries the session protocol, so a Session there is the same as here. A session of a daemon
does not end with its client. When the connection is lost (the daemon was restarted, or has closed
one that was quiet) it is made anew at the next call: cells that run go on there, and none of their
events is missed.

An address is "http://HOST:PORT", "https://…", "unix:/path/to/api.sock" or that path; "" is the
usual socket of this user.
"""
from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import pathlib
import socket
import ssl
import time
import urllib.parse
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import errors, install, start, store
from .channel import Channel
from .websocket import WebSocketCodec

CONNECT_S = 10
ANSWER_S = 120  # a first session waits for its pool
RENEW_S = 20
_HEAD_BYTES_MAX = 64 << 10
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3
# What POST /v1/sessions has as limits; the others are members of a policy there.
_LIMITS = ("output_bytes", "background_bytes", "queue", "record_bytes", "processes", "files",
           "file_bytes", "tmp_bytes")


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket that somebody else connects."""

    def __init__(self, daemon: Daemon, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._daemon = daemon

    def connect(self) -> None:
        self.sock = self._daemon.connect_socket(self.timeout or CONNECT_S)


class Daemon:
    """Where a daemon is, and how to ask it."""

    def __init__(self, address: str = "", token: Optional[str] = None) -> None:
        self.token = token
        self.path: Optional[str] = None
        self.host, self.port, self.secure = "localhost", 0, False
        if address in ("", "unix:"):
            self.path = str(install.runtime() / "api.sock")
        elif address.startswith("unix:"):
            self.path = address[len("unix:"):]
        elif address.startswith("/"):
            self.path = address
        else:
            self._read_url(address)

    def _read_url(self, address: str) -> None:
        url = urllib.parse.urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/"):
            raise errors.UsageError(
                "a daemon's address is http://HOST:PORT, https://HOST:PORT or the path of its "
                "socket, not %s" % address)
        if url.username is not None or url.password is not None:
            raise errors.UsageError("give the token as `token`, not in the address")
        self.secure, self.host = url.scheme == "https", url.hostname
        self.port = url.port or (443 if self.secure else 80)
        if self.token is None:
            self.token = _token_of(str(self))

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return "http%s://%s" % ("s" if self.secure else "", self.authority)

    @property
    def authority(self) -> str:
        if self.path is not None:
            return "localhost"
        host = "[%s]" % self.host if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return host if self.port == usual else "%s:%d" % (host, self.port)

    # ---- asking

    def connect_socket(self, timeout: float) -> socket.socket:
        """A connection, as it is before HTTP."""
        try:
            if self.path is not None:
                return _connect_unix(self.path, timeout)
            sock = socket.create_connection((self.host, self.port), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self.secure:
                return sock
            try:
                return ssl.create_default_context().wrap_socket(sock, server_hostname=self.host)
            except BaseException:
                sock.close()
                raise
        except (FileNotFoundError, ConnectionRefusedError):
            raise errors.NotFoundError(
                "no daemon listens on %s: start one by `fumehood serve`" % self) from None
        except ssl.SSLError as error:
            raise errors.DeniedError("the daemon %s: %s" % (self, error)) from error
        except OSError as error:
            raise errors.from_os(error, "cannot connect to the daemon %s" % self) from error

    def _fields(self) -> Dict[str, str]:
        fields = {"Host": self.authority}
        if self.token is not None:
            fields["Authorization"] = "Bearer " + self.token
        return fields

    def ask(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Any:
        """A request; its JSON, or None. Raises what the daemon says is wrong."""
        connection = _Connection(self, ANSWER_S)
        fields = self._fields()
        data = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode("ascii")
            fields["Content-Type"] = "application/json"
        try:
            connection.request(method, path, data, fields)
            answer = connection.getresponse()
            content = answer.read()
        except (http.client.HTTPException, OSError) as error:
            if isinstance(error, errors.Error):
                raise
            raise errors.GoneError("the daemon %s gave no answer: %s" % (self, error)) from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise _problem(answer.status, content)
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise errors.CorruptError("the daemon %s gave an answer that is no JSON" % self
                                      ) from None

    def asking(self, asked: Mapping[str, Any]) -> Lines:
        """POST /v1/ask: its lines as they come."""
        return Lines(self, asked)

    def channel(self, session: str) -> "Tuple[socket.socket, bytes]":
        """The session's channel: the socket, and what came behind the head of the answer."""
        key = base64.b64encode(os.urandom(16)).decode("ascii")
        fields = {**self._fields(), "Upgrade": "websocket", "Connection": "Upgrade",
                  "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Protocol": "fumehood.v1"}
        head = "GET /v1/sessions/%s/channel HTTP/1.1\r\n%s\r\n" % (
            urllib.parse.quote(session, safe=""),
            "".join("%s: %s\r\n" % item for item in fields.items()))
        sock = self.connect_socket(CONNECT_S)
        try:
            sock.settimeout(ANSWER_S)
            sock.sendall(head.encode("latin-1", "replace"))
            return sock, _upgraded(sock, key)
        except (OSError, errors.Error) as error:
            sock.close()
            if isinstance(error, errors.Error):
                raise
            raise errors.GoneError("the daemon %s gave no answer: %s" % (self, error)) from error
        except BaseException:
            sock.close()
            raise

    # ---- sessions: what start.py does for those of this machine

    def begin(self, options: start.Options) -> start.Begun:
        """A new session."""
        made = self.ask("POST", "/v1/sessions", _body(options))
        try:
            return self._open(made, True)
        except BaseException:
            try:
                self.end(str(made["id"]), True)
            except (errors.Error, KeyError, TypeError):
                pass
            raise

    def find(self, session: str, running_only: bool = False) -> start.Begun:
        """A session that exists; one that has stopped is started."""
        path = "/v1/sessions/" + urllib.parse.quote(session, safe="")
        made = self.ask("GET", path)
        if running_only and isinstance(made, dict) and not made.get("running"):
            raise errors.NotFoundError("the session %s is not running" % session)
        return self._open(made, False)

    def begin_named(self, options: start.Options) -> start.Begun:
        """The session of this name, or a new one."""
        assert options.name is not None
        store.check_name(options.name)
        for _ in range(3):
            try:
                return self.find(options.name)
            except errors.NotFoundError:
                try:
                    return self.begin(options)
                except errors.DuplicateError:
                    continue
        raise errors.BusyError("the session %s is made and removed again and again" % options.name)

    def connect(self, place: store.Place, running_only: bool = False) -> Channel:
        sock, rest = self.channel(place.id)
        channel = Channel(sock, WebSocketCodec(), rest)
        channel.renew = lambda: self._renew(place)
        return channel

    def finish(self, channel: Channel, place: store.Place, stops: bool, removes: bool) -> None:
        channel.close()
        self.after(place.id, stops, removes)

    def after(self, ident: str, stops: bool, removes: bool) -> None:
        if not stops and not removes:
            return
        try:
            self.end(ident, removes)
        except errors.NotFoundError:
            pass

    def end(self, session: str, remove: bool) -> None:
        """Stops the session, and removes it if that is wanted."""
        self.ask("DELETE", "/v1/sessions/%s%s" % (
            urllib.parse.quote(session, safe=""), "" if remove else "?keep=true"))

    def sessions(self) -> List[Mapping[str, Any]]:
        answer = self.ask("GET", "/v1/sessions")
        found = answer.get("sessions") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise errors.CorruptError("what answers at %s is no daemon of Fumehood's" % self)
        return found

    def _open(self, made: Mapping[str, Any], created: bool) -> start.Begun:
        if not isinstance(made, dict) or not isinstance(made.get("id"), str):
            raise errors.CorruptError("what answers at %s is no daemon of Fumehood's" % self)
        place = store.Place(made["id"], made.get("name"),
                            pathlib.Path(str(made.get("directory") or "")), made)
        channel = self.connect(place)
        try:
            channel.take_hello(ANSWER_S)
            seq = channel.call({"op": "status"}, ANSWER_S).get("last_seq")
            channel.link.last_seq = max(channel.link.last_seq, int(seq or 0))
        except BaseException:
            channel.close()
            raise
        return start.Begun(channel, place, created)

    def _renew(self, place: store.Place) -> Channel:
        """Another connection to the same session, which must be there: a daemon that is being
        restarted is waited for."""
        until = time.monotonic() + RENEW_S
        while True:
            try:
                channel = self.connect(place)
                channel.renew = None
                channel.take_hello(ANSWER_S)
                return channel
            except (errors.GoneError, errors.NotFoundError, errors.BusyError) as error:
                unknown = error.code == "not_found" and "no daemon" not in error.message
                if unknown or time.monotonic() >= until:
                    raise
            time.sleep(0.05)


class Lines:
    """The lines of an ask of a daemon (asking.Source). To go away is to cancel it."""

    def __init__(self, daemon: Daemon, asked: Mapping[str, Any]) -> None:
        self._daemon = daemon
        self._left = False
        self._connection = _Connection(daemon, CONNECT_S)
        self._connection.connect()
        sock: socket.socket = self._connection.sock
        # Nothing may come for as long as a program runs, or a model is loaded.
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._sock: Optional[socket.socket] = sock
        fields = {**daemon._fields(), "Content-Type": "application/json",
                  "Accept": "application/x-ndjson"}
        try:
            data = json.dumps(asked, allow_nan=False).encode("ascii")
        except (TypeError, ValueError) as error:
            self._connection.close()
            raise errors.UsageError("an option is no JSON: %s" % error) from None
        try:
            self._connection.request("POST", "/v1/ask", data, fields)
            self._answer = self._connection.getresponse()
            if self._answer.status >= 400:
                raise _problem(self._answer.status, self._answer.read())
        except BaseException as error:
            self.close()
            if isinstance(error, (http.client.HTTPException, OSError)) \
                    and not isinstance(error, errors.Error):
                raise self.why() from error
            raise

    def next(self) -> Optional[bytes]:
        try:
            return self._answer.readline() or None
        except (http.client.HTTPException, OSError, ValueError) as error:
            if self._left:
                return None
            raise self.why() from error

    def stop(self) -> None:
        self._left = True
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the daemon has closed it

    def close(self) -> None:
        self.stop()
        self._sock = None
        answer = getattr(self, "_answer", None)
        if answer is not None:
            answer.close()
        self._connection.close()

    def why(self) -> errors.Error:
        return errors.GoneError("the daemon %s ended the ask without a result" % self._daemon)


def _token_of(address: str) -> Optional[str]:
    """The token that this user's own daemon has left for its clients, if it is the one that is
    meant."""
    try:
        note = json.loads((install.runtime() / "api.json").read_text())
        return str(note["token"]) if note["url"].rstrip("/") == address else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, errors.Error):
        return None


def _connect_unix(path: str, timeout: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = -1
    try:
        sock.settimeout(timeout)
        if len(os.fsencode(path)) >= 108:
            folder, name = os.path.split(path)
            directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = "/proc/self/fd/%d/%s" % (directory, name)
        sock.connect(path)
        return sock
    except BaseException:
        sock.close()
        raise
    finally:
        if directory >= 0:
            os.close(directory)


def _upgraded(sock: socket.socket, key: str) -> bytes:
    """Reads the head of the answer; what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(16384)
        if not piece or len(data) > _HEAD_BYTES_MAX:
            raise errors.GoneError("the daemon closed the connection without an answer")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip()
              for name, _, value in (line.partition(":") for line in lines[1:])}
    status = int(lines[0].split(" ")[1]) if lines[0].startswith("HTTP/1.1 ") else 0
    if status != 101:
        size = int(fields.get("content-length") or 0)
        while len(rest) < min(size, _HEAD_BYTES_MAX) and (piece := sock.recv(16384)):
            rest += piece
        raise _problem(status, rest)
    proof = base64.b64encode(hashlib.sha1((key + _ACCEPT).encode("ascii")).digest())
    if fields.get("sec-websocket-accept", "").encode("latin-1") != proof:
        raise errors.CorruptError("what answers there speaks no WebSocket")
    return rest


_STATUS_CODES = {401: "denied", 403: "denied", 404: "not_found", 408: "timeout", 409: "duplicate",
                 413: "limit", 429: "limit", 503: "busy", 507: "no_space"}


def _problem(status: int, content: bytes) -> errors.Error:
    """A problem document (RFC 9457) as an exception."""
    try:
        body = json.loads(content)
        code, detail = str(body["code"]), str(body["detail"])
    except (ValueError, KeyError, TypeError):
        code, detail = "", "the daemon answered with status %d" % status
    if code not in errors.CODES:
        code = _STATUS_CODES.get(status, code or "internal")
    if status == 401:
        detail += " (give a token: `fumehood token create`)"
    return errors.make(code, detail)


def _body(options: start.Options) -> Dict[str, Any]:
    """The options as POST /v1/sessions takes them."""
    start.check(options)
    policy = start.policy_of(options) or {}
    limits = dict(options.limits)
    timeout = limits.pop("wall_s", options.timeout)
    for name in [name for name in limits if name not in _LIMITS]:
        policy[name] = limits.pop(name)
    body: Dict[str, Any] = {
        "name": options.name, "timeout": timeout, "limits": limits or None,
        "policy": policy or None, "durability": options.durability, "python": options.python,
        "notebook": dict(options.notebook_metadata) if options.notebook_metadata else None}
    if options.workspace is not None:
        body["workspace"] = os.fsdecode(options.workspace)
        body["workspace_mode"] = options.workspace_mode
    if options.tier != "full":
        body["tier"] = options.tier
    return {key: value for key, value in body.items() if value is not None}
