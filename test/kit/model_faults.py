"""What servers for models do to their clients, a function each: for model_server.py.

A function gets the connection with a request read from it. What it returns: "again" when another
request may come over the connection; else the connection is closed.
"""
import gzip
import json
import socket
import zlib

from model_server import USAGE, WAIT_S

FAULTS = {}
LONG_TEXT = "hello " * 20


def fault(function):
    FAULTS[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------ good answers

@fault
def good(peer):
    peer.say("print", "(1)")
    peer.usage()
    peer.end()
    return "again"


@fault
def length(peer):
    peer.say("print", finish="length")
    peer.end()


@fault
def no_done(peer):
    peer.say("a", "b")
    peer.usage()
    peer.end(done=False)


@fault
def end_of_connection(peer):
    """HTTP/1.0: the end of the connection is the end of the body."""
    peer.head(chunked=False, version="1.0")
    peer.delta(content="one")
    peer.delta(finish="stop")


@fault
def never_closes(peer):
    """Says why it ended, then neither [DONE] nor the end."""
    peer.say("x")
    peer.usage()
    peer.wait_for_end()


@fault
def done_and_open(peer):
    peer.say("x")
    peer.event(b"[DONE]")
    peer.wait_for_end()


@fault
def done_without_reason(peer):
    peer.say("x", finish=None)
    peer.end()


@fault
def after_the_usage(peer):
    """Cut off, though all that matters has come."""
    peer.say("x")
    peer.usage()


@fault
def not_streamed(peer):
    peer.whole(200, {"id": "c", "object": "chat.completion", "usage": USAGE, "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "whole", "reasoning": "why"},
         "finish_reason": "length"}]})
    return "again"


@fault
def content_parts(peer):
    peer.whole(200, {"choices": [{"message": {"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "finish_reason": "stop"}]})


@fault
def wrong_type(peer):
    """A stream that says that it is something else."""
    peer.head(kind="application/json")
    peer.delta(content="x")
    peer.delta(finish="stop")
    peer.end()


@fault
def no_type(peer):
    peer.head(kind=None)
    peer.bytes(b"\xef\xbb\xbf")
    peer.delta(content="x")
    peer.delta(finish="stop")
    peer.end()


@fault
def content_null(peer):
    peer.head()
    peer.delta(role="assistant", content=None)
    peer.delta(content=None, refusal=None)
    peer.delta(content="x")
    peer.event({"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]})
    peer.end()


@fault
def empty_choices(peer):
    peer.head()
    peer.event({"choices": [], "prompt_filter_results": []})
    peer.delta(content="x")
    peer.event({"choices": []})
    peer.delta(finish="stop")
    peer.end()


@fault
def two_choices(peer):
    peer.head()
    peer.event({"choices": [{"index": 1, "delta": {"content": "no"}},
                            {"index": 0, "delta": {"content": "yes"}}]})
    peer.event({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]})
    peer.delta(content="!")
    peer.delta(finish="stop")
    peer.end()


@fault
def two_usages(peer):
    peer.say("x")
    peer.usage(completion_tokens=1)
    peer.usage(completion_tokens=5)
    peer.end()


@fault
def bad_usage(peer):
    peer.say("12345678")
    peer.event({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 1e300}})
    peer.event({"choices": [], "usage": "many"})
    peer.end()


@fault
def reasoning(peer):
    peer.head()
    peer.delta(reasoning="one ")
    peer.delta(reasoning="two", content="")
    peer.delta(content="x")
    peer.delta(finish="stop")
    peer.end()


@fault
def reasoning_content(peer):
    peer.head()
    peer.delta(reasoning_content="one ", content=None)
    peer.delta(reasoning_content="two", reasoning="two")  # both: the same
    peer.delta(content="x", reasoning_content=None)
    peer.delta(finish="stop")
    peer.end()


@fault
def think_tags(peer):
    peer.say("\n<th", "ink>one", " two</t", "hink>", "\n\n", "x <think>")
    peer.end()


@fault
def think_unclosed(peer):
    peer.say("<think>one", " two", finish="length")
    peer.end()


@fault
def think_unopened(peer):
    peer.say("one two", "\n</think>\n\n", "x")
    peer.end()


# ------------------------------------------------------------------------- bytes in strange places

@fault
def comments(peer):
    peer.head()
    peer.bytes(b": OPENROUTER PROCESSING\n\n:\n\n")
    peer.delta(content="x")
    peer.bytes(b"retry: 10\nid: 4\nevent: ping\ndata: {}\n\nevent: nothing\n\nwhat: ever\n\n")
    peer.delta(finish="stop")
    peer.end()


@fault
def carriage_returns(peer):
    """Lines that end with CR alone, then with both."""
    peer.head()
    peer.event({"choices": [{"delta": {"content": "a"}}]}, b"\r\r")
    peer.event({"choices": [{"delta": {"content": "b"}}]}, b"\r\n\r\n")
    peer.event({"choices": [{"delta": {}, "finish_reason": "stop"}]}, b"\r\r")
    peer.end()


@fault
def data_in_lines(peer):
    """One event over three lines of data, without the blank after the colon."""
    peer.head()
    peer.bytes(b'data:{"choices":[{"delta":\ndata:{"content":"x"},\n'
               b'data:"finish_reason":"stop"}]}\n\n')
    peer.end()


@fault
def one_byte_each(peer):
    text = json.dumps({"choices": [{"delta": {"content": "é→😀"}}]}, ensure_ascii=False).encode()
    peer.head()
    for byte in b"data: " + text + b"\r\n\r\n":
        peer.bytes(bytes([byte]))
    peer.delta(finish="stop")
    peer.end()


def piece(content):
    return b'{"choices":[{"delta":{"content":"%s"}}]}' % content


@fault
def split_characters(peer):
    """Each event has half of a character."""
    peer.head()
    for part in (b"a\xf0\x9f", b"\x98\x80b\xc3", b"\xa9"):
        peer.event(piece(part))
    peer.delta(finish="stop")
    peer.end()


@fault
def wrong_utf8(peer):
    peer.head()
    peer.event(piece(b"a\xff\xfeb"))
    peer.event(piece(b"\\ud800c"))
    peer.event(piece(b"d\xe2\x82"))  # and nothing more
    peer.delta(finish="stop")
    peer.end()


@fault
def compressed(peer):
    peer.head(Content_Encoding="gzip")
    answer = {"choices": [{"delta": {"content": "zip"}, "finish_reason": "stop"}]}
    data = json.dumps(answer).encode()
    peer.bytes(gzip.compress(b"data: " + data + b"\n\ndata: [DONE]\n\n"))
    peer.end(done=False)


@fault
def early_answers(peer):
    """100 Continue, which nobody asked for, and 103."""
    peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")
    good(peer)


@fault
def trailers(peer):
    peer.say("x")
    peer.event(b"[DONE]")
    peer.send(b"0\r\nX-Checksum: 1\r\nX-More: 2\r\n\r\n")


@fault
def half_event_at_end(peer):
    """The last event lacks its blank line, but it is whole."""
    peer.head()
    peer.delta(content="x")
    peer.event({"choices": [{"delta": {}, "finish_reason": "stop"}]}, b"")
    peer.end(done=False)


# ----------------------------------------------------------------------------------------- the end

@fault
def cut(peer):
    peer.say("half an", finish=None)
    peer.bytes(b'data: {"choices":[{"del')


@fault
def cut_whole_chunks(peer):
    """A proxy that closes politely."""
    peer.say("half an", finish=None)
    peer.end(done=False)


@fault
def cut_json(peer):
    peer.head(kind="application/json", chunked=False, Content_Length=1000)
    peer.bytes(b'{"choices":[{"message":{"content":"half')


@fault
def cut_by_reset(peer):
    peer.say("half", finish=None)
    peer.reset()


@fault
def no_answer(_peer):
    pass


@fault
def empty_answer(peer):
    peer.head(chunked=False, Content_Length=0)


@fault
def only_done(peer):
    peer.head()
    peer.end()


@fault
def only_comments(peer):
    peer.head()
    peer.bytes(b": wait\n\n")
    peer.end(done=False)


@fault
def stall_before(peer):
    peer.wait_for_end()


@fault
def stall_after_head(peer):
    peer.head()
    peer.bytes(b": wait\n\n")
    peer.wait_for_end()


@fault
def stall_inside(peer):
    peer.say("half", finish=None)
    peer.bytes(b"data: {")
    peer.wait_for_end()


@fault
def talks_on(peer):
    """Comments for ever after the first piece."""
    peer.say("half", finish=None)
    peer.sock.settimeout(0.05)
    while True:
        try:
            if not peer.sock.recv(1):
                break
        except socket.timeout:
            peer.sock.settimeout(WAIT_S)
            peer.bytes(b": wait\n\n")
            peer.sock.settimeout(0.05)
    peer.server.closed[peer.name].put(True)


@fault
def endless(peer):
    """Never heard of max_tokens."""
    peer.head()
    while True:
        peer.delta(content=LONG_TEXT)


@fault
def endless_whole(peer):
    peer.head(kind="application/json")
    peer.bytes(b'{"choices":[{"message":{"content":"')
    while True:
        peer.bytes(b"x" * 65536)


@fault
def huge_line(peer):
    peer.head()
    peer.bytes(b"data: ")
    while True:
        peer.bytes(b"x" * 65536)


@fault
def huge_text(peer):
    peer.head()
    for _ in range(3):
        peer.delta(content="x" * 500000)
    peer.end()


@fault
def bomb(peer):
    """Three hundred megabytes of comments in one."""
    peer.head(Content_Encoding="gzip")
    packer = zlib.compressobj(1, wbits=31)
    for _ in range(300):
        data = packer.compress(b": " + b" " * (1 << 20) + b"\n")
        if data:
            peer.bytes(data)
    peer.bytes(packer.flush())
    peer.end()


@fault
def garbage(peer):
    peer.head()
    peer.bytes(bytes(range(128, 256)) * 8 + b"\n\n\0\0\n\n")
    peer.end(done=False)


@fault
def no_http(peer):
    peer.send(b"SSH-2.0-OpenSSH_9.2\r\n")


@fault
def bad_json(peer):
    peer.head()
    peer.delta(content="x")
    peer.event(b'{"choices":[{"delta":{"content":"y"}')
    peer.end()


# ------------------------------------------------------------------------------------------ errors

@fault
def error_in_stream(peer):
    peer.say("half", finish=None)
    peer.event({"error": {"message": "CUDA error: out of memory", "type": "server_error",
                          "code": 500}})
    peer.end()


@fault
def error_event(peer):
    peer.say("half", finish=None)
    peer.bytes(b"event: error\ndata: the engine has died\n\n")
    peer.end()


@fault
def error_at_once(peer):
    """Status 200, and no answer in it."""
    peer.whole(200, {"error": "overloaded for now", "code": 503})


@fault
def error_finish(peer):
    peer.say("half", finish="error")
    peer.end()


@fault
def filtered(peer):
    peer.say("half", finish="content_filter")
    peer.end()


@fault
def context_in_stream(peer):
    peer.say(finish=None)
    peer.event({"error": {"message": "Context size has been exceeded.", "type": "server_error",
                          "code": 500}})


@fault
def too_long_llamacpp(peer):
    peer.whole(400, {"error": {"code": 400, "type": "exceed_context_size_error",
                               "message": "the request exceeds the available size",
                               "n_prompt_tokens": 3022, "n_ctx": 1024}})


@fault
def too_long_vllm(peer):
    peer.whole(400, {"object": "error", "type": "BadRequestError", "param": None, "code": 400,
                     "message": "This model's maximum context length is 4096 tokens. However, you "
                                "requested 5000 tokens. Please reduce max_tokens or `seed`."})


@fault
def too_long_openai(peer):
    peer.whole(400, {"error": {"message": "Please reduce the length of the messages.",
                               "type": "invalid_request_error", "param": "messages",
                               "code": "context_length_exceeded"}})


@fault
def too_long_status(peer):
    peer.whole(413, b"Payload Too Large", "text/plain")


@fault
def cut_prompt(peer):
    """Reads the end of the prompt only, and says nothing."""
    peer.say("x")
    peer.usage(prompt_tokens=512)
    peer.end()


@fault
def key(peer):
    peer.whole(401, {"error": {"message": "Incorrect API key provided: %s."
                               % peer.headers.get("authorization", "").split(" ")[-1]}})


@fault
def unknown_model(peer):
    peer.whole(404, {"error": {"message": "model 'm' not found, try pulling it first",
                               "type": "api_error", "code": None}})


@fault
def page(peer):
    peer.whole(404, b"<!doctype html><html><head><title>404 Not\n Found</title></head>\x1b[2J" +
               b"<p>" * 40000, "text/html")


@fault
def page_as_answer(peer):
    peer.whole(200, b"\n<html><head><title>Welcome to nginx!</title></head></html>", "text/html")


@fault
def busy(peer):
    peer.whole(429, {"error": {"message": "Rate limit reached"}}, Retry_After=7)


@fault
def quota(peer):
    peer.whole(429, {"error": {"message": "You exceeded your quota", "type": "insufficient_quota"}})


@fault
def loading(peer):
    peer.whole(503, {"error": {"message": "Loading model", "type": "unavailable_error",
                               "code": 503}})


@fault
def failed(peer):
    peer.whole(500, b"", "text/plain")


@fault
def gateway(peer):
    peer.whole(502, b"<html><title>502 Bad Gateway</title></html>", "text/html")


@fault
def elsewhere(peer):
    peer.whole(307, b"", Location=peer.server.url("good") + "/chat/completions")


def without(peer, field, words):
    """Refuses the field in `words`, else answers."""
    if field in peer.body:
        peer.whole(400, words)
        return "again"
    return good(peer)


@fault
def no_stream_options(peer):
    return without(peer, "stream_options",
                   {"error": {"message": "Unrecognized request argument supplied: stream_options"}})


@fault
def no_seed(peer):
    return without(peer, "seed", {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"],
                                              "msg": "Extra inputs are not permitted"}]})


@fault
def no_max_tokens(peer):
    return without(peer, "max_tokens", {"error": {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                   "'max_completion_tokens' instead.", "param": "max_tokens"}})


@fault
def nothing_extra(peer):
    return without(peer, "cache_prompt", {"error": {"message": "unknown field \"cache_prompt\""}})


@fault
def says_only_bad(peer):
    """Refuses seed, and does not say so."""
    return without(peer, "seed", {"error": {"message": "Bad Request"}})


@fault
def one_after_another(peer):
    for field in ("stream_options", "seed", "stop", "temperature"):
        if field in peer.body:
            return without(peer, field, {"error": {"message": "'%s' is not supported" % field}})
    return good(peer)


@fault
def always_bad(peer):
    peer.whole(400, {"error": {"message": "messages: must end with a user's"}})
    return "again"


@fault
def echoes(peer):
    """Tells what it was asked."""
    peer.whole(200, {"choices": [{"message": {"content": json.dumps(peer.body)},
                                  "finish_reason": "stop"}]})
