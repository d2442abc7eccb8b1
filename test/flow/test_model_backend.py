"""The backends `openai` and `script`, through model_probe: what servers do, and what comes of it.

Each row of ANSWERS and ERRORS is a fault of model_faults.py.
"""
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading

import pytest

import llama_kit
import model_faults
from fumehood_kit import BUILD, WAIT_S
from model_server import ModelServer

PROBE = str(pathlib.Path(BUILD) / "src" / "model" / "model_probe")
KEY = "sk-verysecret0123456789"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def server():
    server = ModelServer(model_faults.FAULTS)
    yield server
    server.close()


class Probe:
    """A model_probe that runs."""

    def __init__(self, wish, key=None, environment=None):
        variables = {name: value for name, value in os.environ.items()
                     if name.lower() not in PROXIES}
        variables.update(environment or {})
        if key:
            variables["MODEL_PROBE_KEY"] = key
        self.process = subprocess.Popen([PROBE, json.dumps(wish)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=variables)

    def line(self):
        return json.loads(self.process.stdout.readline())

    def until(self, kind):
        while True:
            line = self.line()
            if line["type"] == kind:
                return line

    def close_stdin(self):
        self.process.stdin.close()

    def end(self):
        """All lines that are left."""
        lines = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(WAIT_S) in (0, 1)
        self.process.stdin.close()
        self.process.stdout.close()
        return lines


def ask(where, key=None, environment=None, **wish):
    """All lines; and the last."""
    wish = {"url": where, "model": "m", "prompts": ["say x"], **wish}
    lines = Probe(wish, key, environment).end()
    return lines, lines[-1]


def joined(lines, reasoning, number=0):
    return "".join(line["text"] for line in lines if line["type"] == "text"
                   and line["reasoning"] == reasoning and line["n"] == number)


COUNTED = {"prompt_tokens": 11, "tokens": 3, "cached_tokens": 7, "counted": True}

# fault: state, text, reasoning, more
ANSWERS = {
    "good": ("stopped", "print(1)", "", COUNTED),
    "length": ("length", "print", "", {"counted": False, "prompt_tokens": 2, "tokens": 2}),
    "no_done": ("stopped", "ab", "", COUNTED),
    "end_of_connection": ("stopped", "one", "", {}),
    "never_closes": ("stopped", "x", "", COUNTED),
    "done_and_open": ("stopped", "x", "", {}),
    "done_without_reason": ("stopped", "x", "", {}),
    "after_the_usage": ("stopped", "x", "", COUNTED),
    "not_streamed": ("length", "whole", "why", COUNTED),
    "content_parts": ("stopped", "ab", "hm", {}),
    "wrong_type": ("stopped", "x", "", {}),
    "no_type": ("stopped", "x", "", {}),
    "content_null": ("stopped", "x", "", {}),
    "empty_choices": ("stopped", "x", "", {}),
    "two_choices": ("stopped", "yes!", "", {}),
    "two_usages": ("stopped", "x", "", {**COUNTED, "tokens": 5}),
    "bad_usage": ("stopped", "12345678", "", {"counted": False, "prompt_tokens": 2, "tokens": 2}),
    "reasoning": ("stopped", "x", "one two", {}),
    "reasoning_content": ("stopped", "x", "one two", {}),
    "think_tags": ("stopped", "x <think>", "one two", {}),
    "think_unclosed": ("length", "", "one two", {}),
    "comments": ("stopped", "x", "", {}),
    "carriage_returns": ("stopped", "ab", "", {}),
    "data_in_lines": ("stopped", "x", "", {}),
    "one_byte_each": ("stopped", "é→😀", "", {}),
    "split_characters": ("stopped", "a😀bé", "", {}),
    "wrong_utf8": ("stopped", "a\ufffd\ufffdb\ufffdcd\ufffd", "", {}),
    "compressed": ("stopped", "zip", "", {}),
    "early_answers": ("stopped", "print(1)", "", COUNTED),
    "trailers": ("stopped", "x", "", {}),
    "half_event_at_end": ("stopped", "x", "", {}),
}

# fault: code, part of the message, text that is kept
ERRORS = {
    "cut": ("gone", "in the middle of the answer", "half an"),
    "cut_whole_chunks": ("gone", "in the middle of the answer", "half an"),
    "cut_json": ("gone", "closed the connection", ""),
    "cut_by_reset": ("gone", "in the middle of the answer", "half"),
    "no_answer": ("gone", "without an answer", ""),
    "empty_answer": ("gone", "without an answer", ""),
    "only_done": ("gone", "without an answer", ""),
    "only_comments": ("gone", "without an answer", ""),
    "huge_line": ("limit", "2 MiB", ""),
    "endless_whole": ("limit", "8 MiB", ""),
    "bomb": ("limit", "256 MiB", ""),
    "garbage": ("invalid", "no chat completion", ""),
    "no_http": ("invalid", "does not speak HTTP", ""),
    "bad_json": ("invalid", 'no piece of an answer: {"choices"', "x"),
    "error_in_stream": ("gone", "(500): CUDA error: out of memory", "half"),
    "error_event": ("gone", "the engine has died", "half"),
    "error_at_once": ("busy", "(503): overloaded for now", ""),
    "error_finish": ("gone", "gave up", "half"),
    "filtered": ("denied", "content filter", "half"),
    "context_in_stream": ("limit", "Context size has been exceeded", ""),
    "too_long_llamacpp": ("limit", "too long for the model", ""),
    "too_long_vllm": ("limit", "maximum context length is 4096", ""),
    "too_long_openai": ("limit", "reduce the length", ""),
    "too_long_status": ("limit", "(413): Payload Too Large", ""),
    "key": ("denied", "refuses the key, or the lack of one (401)", ""),
    "unknown_model": ("not_found", "try pulling it first", ""),
    "page": ("not_found", "404 Not Found", ""),
    "page_as_answer": ("invalid", "Welcome to nginx!", ""),
    "quota": ("denied", "exceeded your quota", ""),
    "loading": ("busy", "Loading model", ""),
    "failed": ("gone", "(500): it does not say why", ""),
    "gateway": ("gone", "502 Bad Gateway", ""),
    "elsewhere": ("invalid", "sends us on (307) to http://127.0.0.1", ""),
    "always_bad": ("invalid", "must end with a user's", ""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer(server, name):
    state, text, reasoning, more = ANSWERS[name]
    lines, done = ask(server.url(name))
    assert done["type"] == "done" and "error" not in done, done
    assert (done["state"], done["text"], done["reasoning"]) == (state, text, reasoning), done
    assert {key: done[key] for key in more} == more
    assert not done["prompt_cut"] and 0 <= done["first_seconds"] <= done["seconds"]
    assert (joined(lines, False), joined(lines, True)) == (text, reasoning)


@pytest.mark.parametrize("name", ERRORS)
def test_error(server, name):
    code, message, text = ERRORS[name]
    lines, done = ask(server.url(name))
    assert done["state"] == "failed" and done["error"]["code"] == code, done
    assert message in done["error"]["message"], done
    assert done["text"] == text == joined(lines, False)
    assert "\x1b" not in done["error"]["message"] and "\n" not in done["error"]["message"]


def test_every_fault_has_its_test(server):
    mine = pathlib.Path(__file__).read_text()
    assert not [name for name in model_faults.FAULTS if '"%s"' % name not in mine]


def test_thoughts_without_a_beginning(server):
    lines, done = ask(server.url("think_unopened"))
    assert (done["text"], done["reasoning"]) == ("x", "one two\n")
    assert joined(lines, False) == "one two\n</think>\n\nx"  # known too late


# ---------------------------------------------------------------------------------- limits of time

@pytest.mark.parametrize("name, said", [("stall_before", ""), ("stall_after_head", "")])
def test_no_first_byte(server, name, said):
    _, done = ask(server.url(name), first_ms=300)
    assert done["error"]["code"] == "timeout" and "nothing for 0.3 s" in done["error"]["message"]
    assert done["text"] == said
    assert server.wait_closed(name)


@pytest.mark.parametrize("name, limits", [("stall_inside", {"idle_ms": 300}),
                                          ("talks_on", {"first_ms": 1000, "idle_ms": 100000})])
def test_silence_in_the_middle(server, name, limits):
    _, done = ask(server.url(name), **limits)
    assert done["error"]["code"] == "timeout" and done["text"] == "half"
    assert "in the middle" in done["error"]["message"]
    assert server.wait_closed(name)


def test_endless_output_is_ended_at_the_tokens(server):
    lines, done = ask(server.url("endless"), tokens=100)
    assert done["state"] == "length" and 0 < len(done["text"]) < 50000
    assert server.wait_closed("endless")
    # Who allows very many tokens meets the limit of bytes.
    _, done = ask(server.url("endless"), tokens=2000000)
    assert done["error"]["code"] == "limit" and len(done["text"]) <= 1 << 20
    assert server.wait_closed("endless")
    _, done = ask(server.url("huge_text"))
    assert done["error"]["code"] == "limit" and len(done["text"]) == 1000000


@pytest.mark.parametrize("how", ["cancel", "drop"])
def test_cancel_closes_the_connection_at_once(server, how):
    probe = Probe({"url": server.url("stall_inside"), "model": "m", "prompts": ["x"], how: True,
                   "linger": True})
    assert probe.until("cancelled" if how == "cancel" else "done")
    # The process and its backend live on, so it is not its end that closes.
    assert server.wait_closed("stall_inside")
    assert probe.process.poll() is None
    probe.close_stdin()
    probe.end()


def test_waiting_for_something_else_as_well(server):
    probe = Probe({"url": server.url("stall_before"), "model": "m", "prompts": ["x"]})
    probe.until("model")
    probe.close_stdin()  # a pipe's end: POLLHUP alone
    assert probe.end()[-1]["message"] == "stdin ended"
    assert server.wait_closed("stall_before")


# ------------------------------------------------------------------------- what is asked, and again

def test_the_request(server):
    _, done = ask(server.url("echoes"), key=KEY, system="be good\0é", temperature=0.25, top_p=0.5,
                  seed=42, tokens=17, stop=["\n```", "END"], extra={"cache_prompt": True})
    assert json.loads(done["text"]) == {
        "model": "m", "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "be good\0é"},
                     {"role": "user", "content": "say x"}],
        "temperature": 0.25, "top_p": 0.5, "seed": 42, "max_tokens": 17, "stop": ["\n```", "END"],
        "cache_prompt": True}
    asked = server.asked["echoes"][-1]
    assert asked.headers["authorization"] == "Bearer " + KEY
    assert asked.headers["accept-encoding"] == "identity" and "expect" not in asked.headers
    assert asked.headers["user-agent"].startswith("fumehood/")
    assert "authorization" not in echo_without_key(server)


def echo_without_key(server):
    ask(server.url("echoes"))
    return server.asked["echoes"][-1].headers


REFUSED = {
    "no_stream_options": {"stream_options"}, "no_seed": {"seed"}, "no_max_tokens": {"max_tokens"},
    "nothing_extra": {"cache_prompt"},
    "says_only_bad": {"seed", "stream_options", "cache_prompt"},
    "one_after_another": {"stream_options", "seed", "stop", "temperature"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_server_does_not_know_is_left_out(server, name):
    lines, done = ask(server.url(name), prompts=["a"], seed=1, stop=["END"],
                      extra={"cache_prompt": True})
    assert done["state"] == "stopped" and done["text"] == "print(1)", done
    first, last = server.asked[name][0].body, server.asked[name][-1].body
    assert set(first) - set(last) == REFUSED[name]
    assert name != "no_max_tokens" or last["max_completion_tokens"] == first["max_tokens"]
    assert len(server.asked[name]) == (5 if name == "one_after_another" else 2)


def test_a_refusal_without_a_name_is_tried_once_more_only(server):
    before = len(server.asked["always_bad"])
    ask(server.url("always_bad"), seed=1)
    assert len(server.asked["always_bad"]) - before == 2
    before = len(server.asked["too_long_vllm"])
    ask(server.url("too_long_vllm"), seed=1)  # though it names one of the request's members
    assert len(server.asked["too_long_vllm"]) - before == 1


def test_busy_says_when(server):
    _, done = ask(server.url("busy"))
    assert done["error"]["code"] == "busy" and "(429)" in done["error"]["message"]
    assert done["retry_ms"] == 7000
    assert ask(server.url("loading"))[1]["retry_ms"] == -1


def test_the_prompt_was_cut(server):
    _, done = ask(server.url("cut_prompt"), prompts=["word " * 2000])
    assert done["prompt_cut"] and done["prompt_tokens"] == 512 and done["state"] == "stopped"
    _, done = ask(server.url("cut_prompt"), prompts=["word " * 500])
    assert not done["prompt_cut"]


def test_many_at_once(server):
    prompts = ["p%d" % i for i in range(20)]
    lines, _ = ask(server.url("echoes"), prompts=prompts)
    done = {line["n"]: line for line in lines if line["type"] == "done"}
    for number, prompt in enumerate(prompts):
        assert json.loads(done[number]["text"])["messages"][-1]["content"] == prompt
        assert joined(lines, False, number) == done[number]["text"]
    _, last = ask(server.url("stall_before"), prompts=["x"] * 33)
    assert last["code"] == "busy" and "32" in last["message"]


def test_numbers_out_of_range(server):
    for wish in ({"temperature": 3}, {"temperature": -1}, {"top_p": 1.5}, {"tokens": 0}):
        assert ask(server.url("good"), **wish)[1]["code"] == "invalid"
    assert ask(server.url("good"), stop=["a"] * 5)[1]["code"] == "limit"
    assert ask(server.url("good"), prompts=["x" * 100000] * 1)[1]["state"] == "stopped"


# ---------------------------------------------------------------------------------------- security

@pytest.mark.parametrize("where, part", [
    ("127.0.0.1:8080/v1", "it is like http://"), ("ftp://x/v1", "it is like http://"),
    ("file:///etc/passwd", "it is like http://"), ("", "it is like http://"),
    ("http://user:secret@x/v1", "belongs into the environment"), ("http://x/v1#a", "#"),
    ("http://x y/v1", "it is like http://"), ("http://x/\n", "it is like http://"),
    ("http://" + "x" * 3000, "too long")])
def test_bad_addresses(where, part):
    lines, last = ask(where)
    assert last["code"] == "invalid" and part in last["message"], last
    assert "secret" not in last["message"]


def test_bad_keys_and_members(server):
    for key in ("a b", "a\r\nX: y", "ключ", "x" * 5000):
        _, last = ask(server.url("good"), key=key)
        assert last["code"] == "invalid" and "key" in last["message"] and key not in last["message"]
    assert "yours to set" in ask(server.url("good"), extra={"stream": False})[1]["message"]
    assert ask(server.url("good"), extra=[1])[1]["code"] == "invalid"
    assert "107" in ask("http://localhost/v1", unix="/x" * 60)[1]["message"]


def test_the_key_is_in_no_message(server):
    _, done = ask(server.url("key"), key=KEY)
    assert "[key]" in done["error"]["message"] and "verysecret" not in json.dumps(done)


def test_the_key_goes_nowhere_else(server):
    before = len(server.asked["good"])
    _, done = ask(server.url("elsewhere"), key=KEY)
    assert done["error"]["code"] == "invalid" and len(server.asked["good"]) == before


def test_no_proxy_for_loopback(server):
    proxy = {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
    assert ask(server.url("good"), environment=proxy)[1]["state"] == "stopped"
    # And one for others: nobody listens on that port.
    _, done = ask("http://model.example/v1", environment=proxy)
    assert done["error"]["code"] == "gone"


def test_certificates_are_verified(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
                    "-out", certificate, "-days", "2", "-subj", "/CN=localhost"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    plain = socket.create_server(("127.0.0.1", 0))
    got = []

    def serve():
        connection, _ = plain.accept()
        try:
            got.append(context.wrap_socket(connection, server_side=True).recv(100))
        except (ssl.SSLError, OSError) as error:
            got.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    _, done = ask("https://localhost:%d/v1" % plain.getsockname()[1], key=KEY)
    thread.join(WAIT_S)
    plain.close()
    assert done["error"]["code"] == "denied" and "certificate" in done["error"]["message"], done
    assert isinstance(got[0], Exception) or got[0] == b""


def test_https_where_http_is_spoken():
    plain = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = plain.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        connection.recv(65536)
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    _, done = ask("https://127.0.0.1:%d/v1" % plain.getsockname()[1])
    thread.join(WAIT_S)
    plain.close()
    assert done["error"]["code"] == "invalid" and "plain http" in done["error"]["message"]


def test_nobody_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        _, done = ask("http://127.0.0.1:%d/v1" % unused.getsockname()[1])
    assert done["error"]["code"] == "gone" and "Connection refused" in done["error"]["message"]
    assert done["first_seconds"] == -1
    _, done = ask("http://no.such.host.invalid/v1")
    assert done["error"]["code"] == "gone" and "not known" in done["error"]["message"]
    _, done = ask("http://localhost/v1", unix="/nowhere/x.sock")
    assert done["error"]["code"] == "gone"


# ------------------------------------------------------------- addresses, models, a server of ours

@pytest.mark.parametrize("end", ["/v1/", "/v1///", "/v1/chat/completions", "/v1?api-version=2"])
def test_addresses_as_people_write_them(server, end):
    where = server.url("good")[:-3] + end
    assert ask(where)[1]["text"] == "print(1)"
    path = server.asked["good"][-1].path
    assert path == "/good/v1/chat/completions" + ("?api-version=2" if "?" in end else "")


def test_unix_socket(server, tmp_path):
    """Over a pipe to the server, since it is the way there that counts."""
    path = str(tmp_path / "s.sock")
    listener = socket.create_server(path, family=socket.AF_UNIX)

    def pass_on():
        near, _ = listener.accept()
        with near, socket.create_connection(("127.0.0.1", server.port)) as far:
            far.sendall(near.recv(65536))
            while data := far.recv(65536):
                near.sendall(data)

    thread = threading.Thread(target=pass_on)
    thread.start()
    _, done = ask("http://localhost/no_done/v1", unix=path)
    thread.join(WAIT_S)
    listener.close()
    assert done["text"] == "ab"


@pytest.mark.parametrize("name, model, tokens", [
    ("good", "m", 2048), ("ollama", "b:1b", 4096), ("ollama", "a:1b", 0), ("lmstudio", "m", 8192),
    ("two_models", "other", 0), ("silent", "m", 0), ("nothing", "m", 0)])
def test_context(server, name, model, tokens):
    lines, _ = ask(server.url(name), model=model, context=True, prompts=[])
    assert lines[-1] == {"type": "context", "n": 0, "tokens": tokens}


def test_the_only_model_need_not_be_named(server):
    lines, done = ask(server.url("echoes"), model=None)
    assert lines[0] == {"type": "model", "n": 0, "kind": "openai", "model": "m"}
    assert json.loads(done["text"])["model"] == "m"
    assert "m, other" in ask(server.url("two_models"), model=None)[1]["message"]
    assert ask(server.url("silent"), model=None)[1]["code"] == "timeout"
    assert ask(server.url("locked"), model=None)[1]["code"] == "denied"
    assert ask(server.url("nothing"), model=None)[1]["code"] == "invalid"
    assert ask("http://127.0.0.1:9/v1", model=None)[1]["code"] == "gone"


def hook(folder, *places):
    """A command that says one place after another, and the last for ever."""
    state = folder / "places"
    state.write_text("".join(place + "\n" for place in places))
    return ("head -n1 {0}; if [ $(wc -l < {0}) -gt 1 ]; then sed -i 1d {0}; fi").format(state)


def test_a_server_of_ours_is_looked_after(server, tmp_path):
    dead = "http://127.0.0.1:9/v1"
    lines, last = ask(dead, alive=hook(tmp_path, dead, server.url("good")))
    assert lines[0]["kind"] == "local" and last == {"type": "released"}
    assert lines[-2]["state"] == "stopped" and lines[-2]["text"] == "print(1)"
    # It dies before it says anything: asked once more.
    lines, _ = ask(dead, alive=hook(tmp_path, server.url("no_answer"), server.url("no_done")))
    assert lines[-2]["text"] == "ab"
    # It dies each time, or in the middle: no third try.
    lines, _ = ask(dead, alive=hook(tmp_path, server.url("no_answer")))
    assert lines[-2]["error"]["code"] == "gone" and "explained: " in lines[-2]["error"]["message"]
    lines, _ = ask(dead, alive=hook(tmp_path, server.url("cut"), server.url("good")))
    assert lines[-2]["error"]["code"] == "gone" and lines[-2]["text"] == "half an"
    lines, _ = ask(dead, alive="exit 1")
    assert lines[-2]["message"] == "the server cannot be started"


# ------------------------------------------------------------------------------------------ script

def script(folder, *answers):
    path = folder / "answers.ndjson"
    path.write_text("".join((a if isinstance(a, str) else json.dumps(a)) + "\n" for a in answers))
    return str(path)


def run_script(folder, *answers, **wish):
    lines = Probe({"script": script(folder, *answers), "prompts": ["x"], **wish}).end()
    return lines, lines[-1]


def test_script(tmp_path):
    text = "```python\nprint('é😀')\n```\n" * 20
    lines = Probe({"script": script(tmp_path, {"text": text, "reasoning": "so", "finish": "length"},
                                    "", {"text": "now", "delay_ms": 0},
                                    {"text": "half", "error": "the cable"},
                                    {"error": {"code": "busy", "message": "later"}}),
                   "prompts": ["a", "b", "c", "d", "e"], "context": True}).end()
    done = {line["n"]: line for line in lines if line["type"] == "done"}
    assert lines[0] == {"type": "model", "n": 0, "kind": "script", "model": "answers.ndjson"}
    assert lines[1]["tokens"] == 0
    assert (done[0]["state"], done[0]["text"], done[0]["reasoning"]) == ("length", text, "so")
    assert joined(lines, False, 0) == text and joined(lines, True, 0) == "so"
    assert sum(line["type"] == "text" and line["n"] == 0 for line in lines) > 10
    assert not done[0]["counted"] and done[0]["tokens"] == (len(text.encode()) + 2 + 3) // 4
    assert done[1]["text"] == "now" and done[1]["state"] == "stopped"
    assert done[2]["error"] == {"code": "gone", "message": "the cable"}
    assert done[2]["text"] == "half"
    assert done[3]["error"] == {"code": "busy", "message": "later"}
    assert done[4]["error"]["code"] == "gone"
    assert "no answer left: it has 4" in done[4]["error"]["message"]


def test_script_delays_by_a_timer(tmp_path):
    """The later answer comes first, and the descriptors are looked at meanwhile."""
    lines, _ = run_script(tmp_path, {"text": "slow", "delay_ms": 300}, {"text": "quick"},
                          prompts=["a", "b"])
    assert [line["n"] for line in lines if line["type"] == "done"] == [1, 0]
    assert [line["seconds"] >= 0.3 for line in lines if line["type"] == "done"] == [False, True]
    probe = Probe({"script": script(tmp_path, {"text": "x", "delay_ms": 600000}), "prompts": ["a"]})
    probe.until("model")
    probe.close_stdin()
    assert probe.end()[-1]["message"] == "stdin ended"


@pytest.mark.parametrize("line, part", [
    ("{", "line 2"), ("[]", "an object"), ('{"txt":"x"}', '"txt"'), ('{"text":1}', "a string"),
    ('{"text":"x","finish":"end"}', "finish"), ('{"text":"x","delay_ms":-1}', "delay_ms"),
    ('{"text":"x","delay_ms":"1"}', "delay_ms"), ('{"text":"x","error":{"code":"odd"}}', "error"),
    ('{"text":"x","error":{"code":"odd","message":"y"}}', "odd"), ("{}", "`text` or `error`"),
    ('{"text":"a","text":"b"}', "line 2"), ('{"text":"x"} {"text":"y"}', "line 2"),
    ('{"text":"x","finish":null}', "finish")])
def test_bad_scripts(tmp_path, line, part):
    _, last = run_script(tmp_path, {"text": "fine"}, line)
    assert last["code"] == "invalid" and part in last["message"], last
    assert "answers.ndjson, line 2" in last["message"]


def test_no_script(tmp_path):
    _, last = run_script(tmp_path)
    assert last["code"] == "invalid" and "one JSON object a line" in last["message"]
    lines = Probe({"script": str(tmp_path / "none"), "prompts": []}).end()
    assert lines[-1]["code"] == "not_found"
    lines = Probe({"script": str(tmp_path), "prompts": []}).end()
    assert lines[-1]["code"] == "invalid"


def test_a_big_script(tmp_path):
    text = "x" * 200000
    _, done = run_script(tmp_path, {"text": text})
    assert done["text"] == text
    _, done = run_script(tmp_path, {"text": "x" * (2 << 20)})
    assert done["error"]["code"] == "limit"


# ---------------------------------------------------------------------------------- the real thing

@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    with llama_kit.Llama(tmp_path_factory.mktemp("llama")) as llama:
        yield llama


def wish_for(llama, **wish):
    return {"url": "http://localhost/v1", "unix": llama.socket, "prompts": ["Say hello."],
            "temperature": 0, "tokens": 16, **wish}


def ask_llama(llama, key=llama_kit.KEY, **wish):
    lines = Probe(wish_for(llama, **wish), key).end()
    return lines, lines[-1]


def test_real_server(llama):
    system = "You are terse. " + "You answer with a number of words that is small. " * 8
    lines, done = ask_llama(llama, system=system, context=True, seed=1)
    assert lines[0]["model"] == llama.model and lines[1]["tokens"] == 1024  # a slot's part
    assert done["state"] in ("stopped", "length") and done["text"] == joined(lines, False)
    assert done["text"].strip() and done["counted"] and not done["prompt_cut"]
    assert done["prompt_tokens"] > 80 and 0 < done["tokens"] <= 16
    _, again = ask_llama(llama, system=system, seed=1)
    assert again["cached_tokens"] > 60  # the prefix was kept
    lines, _ = ask_llama(llama, prompts=["Count to 3.", "Count to 4."])
    assert {line["n"] for line in lines if line["type"] == "done"} == {0, 1}
    assert all(line["text"] for line in lines if line["type"] == "done")


def test_real_refusals(llama):
    _, done = ask_llama(llama, key="wrong", model="m")
    assert done["error"]["code"] == "denied", done
    _, done = ask_llama(llama, prompts=["word " * 3000], model="m")
    assert done["error"]["code"] == "limit" and "too long" in done["error"]["message"], done
    _, done = ask_llama(llama, url="http://localhost/v2", model="m")
    assert done["error"]["code"] == "not_found", done


def test_real_cancel_stops_the_server(llama):
    """One slot is left to the next if the cancelled ones do not give theirs back."""
    long = {"prompts": ["Count from 1 to 1000, a number a line."] * 2, "tokens": 900}
    lines = Probe(wish_for(llama, cancel=True, **long), llama_kit.KEY).end()
    assert lines[-1]["type"] == "cancelled"
    assert ask_llama(llama, **long, cancel=True)[1]["type"] == "cancelled"
    assert ask_llama(llama)[1]["text"].strip()


def test_real_server_is_killed_in_its_answer(tmp_path):
    with llama_kit.Llama(tmp_path) as llama:
        probe = Probe(wish_for(llama, prompts=["Count from 1 to 1000."], tokens=900), llama_kit.KEY)
        probe.until("text")
        llama.kill()
        done = probe.end()[-1]
        assert done["error"]["code"] == "gone" and "in the middle" in done["error"]["message"]
        assert done["text"] and done["first_seconds"] > 0
        assert ask_llama(llama, model="m")[1]["error"]["code"] == "gone"
