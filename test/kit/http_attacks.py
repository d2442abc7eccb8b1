"""Requests and WebSocket frames that a strict server refuses, and some that it must take.

http_cases(port, token, session)   [(name, bytes, verdict)]
ws_cases()                         [(name, frames, verdict)]

Verdicts of requests: "refuse" (4xx, 5xx or the end, never 2xx nor 101), "take", "take twice", or a
status. Of frames: "answer", "pong", or a close code; "end": closed without data, by any code.
The routes that they use: GET /v1/sessions, POST …/section (at most 64 KiB), GET …/channel.
"""
import random
import struct

BODY = '{"title":""}'
TITLE_OVER = 2 << 20


class Maker:
    """Puts requests together."""

    def __init__(self, port, token, session):
        self.port = port
        self.host = "Host: 127.0.0.1:%d\r\n" % port
        self.token = "Authorization: Bearer %s\r\n" % token
        self.list = "GET /v1/sessions HTTP/1.1"
        self.channel = "GET /v1/sessions/%s/channel HTTP/1.1" % session
        self.start = ("POST /v1/sessions/%s/section HTTP/1.1\r\n" % session + self.host
                      + self.token + "Content-Type: application/json\r\n")
        self.upgrade = ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")

    def post(self, extra="", body=BODY):
        return self.start + extra + "Content-Length: %d\r\n\r\n" % len(body) + body

    def get(self, line, rest=""):
        return line + "\r\n" + self.host + self.token + rest + "\r\n"


def lengths(make):
    """Two opinions on where a body ends."""
    chunked = "Transfer-Encoding: chunked\r\n"
    body = "c\r\n" + BODY + "\r\n0\r\n\r\n"
    length = "Content-Length: %d\r\n" % len(BODY)
    inner = make.get(make.list)
    yield "chunked", make.start + chunked + "\r\n" + body, "take"
    yield "length and chunked", make.start + length + chunked + "\r\n" + body, "refuse"
    yield ("chunked and length",
           make.start + chunked + "Content-Length: 4\r\n\r\n0\r\n\r\n" + inner, "refuse")
    yield "length twice", make.start + length * 2 + "\r\n" + BODY, "refuse"
    yield ("two lengths", make.start + length + "Content-Length: 3\r\n\r\n" + BODY, "refuse")
    for value in ("12, 12", "+12", "-1", "0x0c", "12abc", "1 2", "18446744073709551628", ""):
        yield "length " + value, make.start + "Content-Length: %s\r\n\r\n" % value + BODY, "refuse"
    for value in ("xchunked", "identity", "chunked, identity", "chunked, chunked"):
        yield ("coding " + value,
               make.start + "Transfer-Encoding: %s\r\n\r\n" % value + body, "refuse")
    yield "tab before colon", make.start + "Transfer-Encoding\t: chunked\r\n\r\n" + body, "refuse"
    for name, text in (("negative", "-1\r\n" + BODY), ("0x", "0xc\r\n" + BODY + "\r\n0\r\n\r\n"),
                       ("huge", "ffffffffffffffff1\r\n" + BODY), ("LF", "c\n" + BODY + "\n0\n\n"),
                       ("without CR LF", "c\r\n" + BODY + "XX0\r\n\r\n"),
                       ("LF in extension", "c;a\nb\r\n" + BODY + "\r\n0\r\n\r\n"),
                       ("blank first", " c\r\n" + BODY + "\r\n0\r\n\r\n"),
                       ("no size", "\r\n" + BODY + "\r\n0\r\n\r\n"),
                       ("all extension", ("1;" + "x" * 900 + "\r\n \r\n") * 200)):
        yield "chunk: " + name, make.start + chunked + "\r\n" + text, "refuse"
    yield "two requests", make.post() * 2, "take twice"
    yield "too large, announced", make.start + "Content-Length: 2097152\r\n\r\n", 413
    yield "too large, sent", make.post(body="x" * TITLE_OVER), 413
    yield ("too large, chunked", make.start + chunked + "\r\n"
           + ("10000\r\n" + "x" * 65536 + "\r\n") * 32 + "0\r\n\r\n", 413)
    yield "expected", make.start + "Expect: 100-continue\r\n" + length + "\r\n", 100
    yield ("expected without token", make.start.replace(make.token, "")
           + "Expect: 100-continue\r\n" + length + "\r\n", 401)


def forms(make):
    """Heads that have not the form that RFC 9112 gives."""
    get = make.get
    yield "plain", make.post(), "take"
    for name, line in (("blank before colon", "X-A : 1\r\n"), ("folded", "X-A: 1\r\n 2\r\n"),
                       ("LF", "X-A: 1\n"), ("CR", "X-A: 1\r2\r\n"), ("NUL", "X-A: 1\0002\r\n"),
                       ("control", "X-A: 1\x012\r\n"), ("no name", ": 1\r\n"),
                       ("no colon", "X-A\r\n"), ("bad name", "X(A: 1\r\n"),
                       ("70 KiB", "X-A: " + "a" * 70000 + "\r\n"),
                       ("200", "".join("X-%d: 1\r\n" % i for i in range(200)))):
        yield "field: " + name, make.post(line), "refuse"
    yield "indented field", make.list + "\r\n X: 1\r\n" + make.host + make.token + "\r\n", "refuse"
    yield "all LF", make.post().replace("\r\n", "\n"), "refuse"
    yield "LF behind the line", make.list + "\n" + make.host + make.token + "\r\n", "refuse"
    for line in ("GET /\0 HTTP/1.1", "GET  / HTTP/1.1", "GET\t/ HTTP/1.1", "GET /a b HTTP/1.1",
                 "get /v1/sessions HTTP/1.1", "G@T / HTTP/1.1", "GET /\xff HTTP/1.1",
                 "GET /v1/sessions HTTP/1.2", "GET /v1/sessions HTTP/2.0",
                 "GET /v1/sessions http/1.1", "GET http://evil/ HTTP/1.1",
                 "CONNECT evil:80 HTTP/1.1", "OPTIONS * HTTP/1.1",
                 "GET /" + "a" * 9000 + " HTTP/1.1"):
        yield "line: " + line[:40], get(line), "refuse"
    yield "junk first", "\0\0" + get(make.list), "refuse"
    yield "HTTP/1.0", "GET /v1/sessions HTTP/1.0\r\n" + make.token + "\r\n", "refuse"
    yield "HTTP/0.9", "GET /v1/sessions\r\n\r\n", "refuse"
    yield "HTTP/0.9 and fields", "GET /\n" + make.host + make.token + "\r\n", "refuse"
    yield "HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "refuse"


def policies(make):
    """Host, Origin, token, and the same on an upgrade."""
    get, line, token = make.get, make.list, make.token
    yield "no Host", line + "\r\n" + token + "\r\n", "refuse"
    yield "good and bad Host", get(line, "Host: evil\r\n"), "refuse"
    yield "bad and good Host", line + "\r\nHost: evil\r\n" + make.host + token + "\r\n", "refuse"
    for host in ("evil", "localhost.:%d" % make.port, "a@127.0.0.1:%d" % make.port,
                 "127.0.0.1", "127.0.0.1:%d.evil" % make.port):
        yield "Host " + host, line + "\r\nHost: %s\r\n" % host + token + "\r\n", 421
    yield "Origin evil", get(line, "Origin: http://evil\r\n"), 403
    yield "Origin null", get(line, "Origin: null\r\n"), 403
    good = "Origin: http://127.0.0.1:%d\r\n" % make.port
    yield "good Origin", get(line, good), "take"
    yield "two Origins", get(line, good + "Origin: http://evil\r\n"), "refuse"
    yield "of another site", get(line, "Sec-Fetch-Site: cross-site\r\n"), 403
    yield "no token", line + "\r\n" + make.host + "\r\n", 401
    yield "bad token", (line + "\r\n" + make.host + "Authorization: Bearer tox\r\n\r\n"), 401
    yield "short token", line + "\r\n" + make.host + token[:-3] + "\r\n\r\n", 401
    yield "two tokens", get(line, "Authorization: Bearer x\r\n"), "refuse"
    socket, channel = make.upgrade, make.channel
    yield "channel", get(channel, socket), 101
    yield "channel, bad Origin", get(channel, socket + "Origin: http://evil\r\n"), 403
    yield "channel, no token", channel + "\r\n" + make.host + socket + "\r\n", 401
    yield "channel, bad Host", channel + "\r\nHost: evil\r\n" + token + socket + "\r\n", 421
    yield "channel, wrong path", get(channel.replace("channel", "channelx"), socket), 404
    yield "channel, version 8", get(channel, socket.replace("13", "8")), 426
    yield "channel, no key", get(channel, socket.rsplit("Sec-WebSocket-Key", 1)[0]), 400
    yield "channel, bad key", get(channel, socket.replace("dGhlIHNhbXBsZSBub25jZQ==", "abc")), 400
    yield ("channel, POST", get(channel.replace("GET", "POST"), socket + "Content-Length: 0\r\n"),
           405)
    yield "h2c", get(line, "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                           "HTTP2-Settings: AAMAAABkAAQAAP__\r\n"), "take"


def http_cases(port, token, session):
    make = Maker(port, token, session)
    for group in (lengths, forms, policies):
        for name, text, verdict in group(make):
            yield name, text.encode("latin1"), verdict


def mutants(port, token, session, seed, count):
    """Requests with a few bytes changed, taken out, put in or doubled."""
    chance = random.Random(seed)
    make = Maker(port, token, session)
    seeds = [data[:5000] for _, data, _ in http_cases(port, token, session)]
    up = make.get(make.channel, make.upgrade).encode()
    seeds += [up + frame(1, b"ABCDE"), up + frame(1, b"A", fin=0) + frame(0, b"B"),
              up + frame(8, b"\x03\xe8")]
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at, kind = chance.randrange(len(data)), chance.random()
            if kind < .3:
                data[at] = chance.choice(b"\r\n\0 \t:;,/\x7f\xff0aF")
            elif kind < .5:
                del data[at:at + chance.randint(1, 8)]
            elif kind < .7:
                data[at:at] = bytes(chance.choices(b"\r\n :0aZ\xff\0", k=chance.randint(1, 6)))
            elif kind < .85:
                data[at:at] = data[max(0, at - 20):at]
            else:
                data[at] = chance.randrange(256)
            data = data or bytearray(b"x")
        yield bytes(data)


# -------------------------------------------------------------------------------------- frames

TEXT, BINARY, MORE, PING, PONG, CLOSE = 1, 2, 0, 9, 10, 8


def frame(opcode, data=b"", fin=1, rsv=0, mask=True, form=None, length=None):
    """A frame as RFC 6455 has it, or as it has not. `form`: bits of the length."""
    length = len(data) if length is None else length
    form = form or (7 if length < 126 else 16 if length < 65536 else 64)
    bit = 0x80 if mask else 0
    head = bytes([fin << 7 | rsv << 4 | opcode])
    if form == 7:
        head += bytes([bit | length])
    else:
        head += bytes([bit | (126 if form == 16 else 127)])
        head += struct.pack(">H" if form == 16 else ">Q", length)
    if not mask:
        return head + data
    key = b"\1\2\3\4"
    return head + key + bytes(byte ^ key[i & 3] for i, byte in enumerate(data))


def code(number, reason=b""):
    return struct.pack(">H", number) + reason


def ws_cases():
    yield "text", [frame(TEXT, b"hi")], "answer"
    yield "large text", [frame(TEXT, b"x" * 200000)], "answer"
    yield "empty text", [frame(TEXT)], "answer"
    yield ("fragments and a ping", [frame(TEXT, b"a", 0), frame(MORE, b"b", 0), frame(PING, b"p"),
                                    frame(MORE, b"c")], "answer")
    yield ("a character in two fragments", [frame(TEXT, b"\xe2\x82", 0), frame(MORE, b"\xac")],
           "answer")
    yield "ping 125", [frame(PING, b"x" * 125)], "pong"
    yield "pong unasked", [frame(PONG, b"x"), frame(TEXT, b"k")], "answer"
    yield "binary", [frame(BINARY, b"x")], 1003
    yield "unmasked", [frame(TEXT, b"hi", mask=False), frame(TEXT, b"hi")], 1002
    for rsv in (4, 2, 1):
        yield "rsv %d" % rsv, [frame(TEXT, b"hi", rsv=rsv)], 1002
    yield "rsv on ping", [frame(PING, rsv=4)], 1002
    yield "opcode 3", [frame(3)], 1002
    yield "opcode 11", [frame(11)], 1002
    yield "ping 126", [frame(PING, b"x" * 126)], 1002
    yield "ping in fragments", [frame(PING, b"x", 0)], 1002
    yield "goes on with nothing", [frame(MORE, b"x")], 1002
    yield "text in fragments", [frame(TEXT, b"a", 0), frame(TEXT, b"b")], 1002
    yield "5 in 16 bits", [frame(TEXT, b"hello", form=16)], 1002
    yield "5 in 64 bits", [frame(TEXT, b"hello", form=64)], 1002
    yield "negative length", [frame(BINARY, b"x", form=64, length=1 << 63)], 1002
    yield "33 MiB", [frame(TEXT, b"x", length=(32 << 20) + 1)], 1009
    yield "1 TiB", [frame(TEXT, b"x", length=1 << 40)], 1009
    yield "bad UTF-8", [frame(TEXT, b"\xff\xfe")], 1007
    yield "surrogate", [frame(TEXT, b"\xed\xa0\x80")], 1007
    yield "cut UTF-8", [frame(TEXT, b"\xe2\x82")], 1007
    yield "bad UTF-8 in a fragment", [frame(TEXT, b"\xff", 0)], 1007
    yield "close 1000", [frame(CLOSE, code(1000))], 1000
    yield "close, empty", [frame(CLOSE)], "end"
    yield "close, 1 byte", [frame(CLOSE, b"x")], "end"
    for number in (1005, 999, 2000):
        yield "close %d" % number, [frame(CLOSE, code(number))], 1002
    yield "close, bad UTF-8", [frame(CLOSE, code(1000, b"\xff"))], 1007
    yield "data behind close", [frame(CLOSE, code(1000)), frame(TEXT, b"late")], 1000
    yield "close of 126 bytes", [frame(CLOSE, code(1000, b"x" * 124))], 1002
