/** What needs no daemon: streams cut anywhere, frames, addresses, paths, results, errors. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fumehood from "../dist/index.js";
import { readAddress } from "../dist/address.js";
import { blobsOf, fromBase64, toBase64, withBlobs } from "../dist/events.js";
import { fromProblem } from "../dist/errors.js";
import { encodePath } from "../dist/files.js";
import { encodeFrame, FrameReader } from "../dist/frames.js";
import { Collector } from "../dist/result.js";
import { LINE_MAX, LineSplitter, parseObject, SseParser } from "../dist/sse.js";

const SSE = "\ufeff: comment\nid: 1\ndata: {\"a\":1}\n\ndata:{\"b\":\r\ndata: 2}\r\n\r\n"
  + "event: x\rdata: {\"c\":3}\r\rdata\n\n: end\n\ndata: never ended\n";
const EXPECTED = ['{"a":1}', '{"b":\n2}', '{"c":3}', ""];

test("SSE in pieces of any size", () => {
  for (let size = 1; size <= SSE.length; size++) {
    const parser = new SseParser();
    const found = [];
    for (let at = 0; at < SSE.length; at += size)
      found.push(...parser.push(SSE.slice(at, at + size)));
    assert.deepEqual(found, EXPECTED, `pieces of ${size}`);
  }
});

test("lines have a limit, and what is no JSON object is said", () => {
  const lines = new LineSplitter();
  const piece = "x".repeat(1 << 20);
  assert.throws(() => {
    for (let at = 0; at <= LINE_MAX; at += piece.length)
      lines.push(piece);
  }, fumehood.LimitError);
  for (const text of ["", "{", "[1]", "null", "3"])
    assert.throws(() => parseObject(text), fumehood.CorruptError);
});

function serverFrame(opcode, payload, { last = true, masked = false, reserved = 0 } = {}) {
  const size = payload.length;
  const head = size < 126 ? Buffer.from([0, size]) : size < 65536 ? Buffer.alloc(4)
    : Buffer.alloc(10);
  if (head.length === 4)
    head.writeUInt16BE(size, 2);
  if (head.length === 10)
    head.writeBigUInt64BE(BigInt(size), 2);
  head[0] = (last ? 0x80 : 0) | reserved << 4 | opcode;
  head[1] = (head.length === 2 ? size : head.length === 4 ? 126 : 127) | (masked ? 0x80 : 0);
  return Buffer.concat([head, payload]);
}

test("frames of any length, in any pieces", () => {
  for (const size of [0, 1, 125, 126, 65535, 65536, 100_000]) {
    const payload = Buffer.alloc(size, "aé");
    const sent = Buffer.from(encodeFrame(1, payload));
    assert.equal(sent[0], 0x81);
    assert.ok(sent[1] & 0x80, "a client masks");
    const begin = { 126: 4, 127: 10 }[sent[1] & 0x7f] ?? 2;
    const key = sent.subarray(begin, begin + 4);
    const back = sent.subarray(begin + 4).map((byte, at) => byte ^ key[at & 3]);
    assert.deepEqual(Buffer.from(back), payload);

    const whole = Buffer.concat([serverFrame(1, payload), serverFrame(9, Buffer.from("p"))]);
    for (const cut of [1, 2, 3, 5, whole.length >> 1, whole.length]) {
      const reader = new FrameReader();
      const found = [...reader.push(whole.subarray(0, cut)), ...reader.push(whole.subarray(cut))];
      assert.deepEqual(found.map((frame) => frame.opcode), [1, 9]);
      assert.equal(found[0].payload.length, size);
    }
  }
});

test("fragments, and frames that are forbidden", () => {
  const reader = new FrameReader();
  const found = reader.push(Buffer.concat([
    serverFrame(1, Buffer.from("one "), { last: false }), serverFrame(9, Buffer.from("ping")),
    serverFrame(0, Buffer.from("message")), serverFrame(8, Buffer.from("\x03\xe8why", "latin1"))]));
  assert.deepEqual(found.map((frame) => [frame.opcode, frame.text]),
    [[9, ""], [1, "one message"], [8, "why"]]);
  for (const bad of [serverFrame(1, Buffer.from("x"), { masked: true }),
    serverFrame(1, Buffer.from("x"), { reserved: 4 }), serverFrame(2, Buffer.from("x")),
    serverFrame(3, Buffer.from("x")), serverFrame(11, Buffer.from("x")),
    serverFrame(0, Buffer.from("x")), serverFrame(9, Buffer.alloc(126)),
    serverFrame(9, Buffer.from("x"), { last: false })])
    assert.throws(() => new FrameReader().push(bad), fumehood.CorruptError);
  const huge = Buffer.alloc(10);
  huge[0] = 0x81;
  huge[1] = 127;
  huge.writeBigUInt64BE(1n << 40n, 2);
  assert.throws(() => new FrameReader().push(huge), fumehood.LimitError);
});

test("addresses", () => {
  const usual = () => "/run/api.sock";
  assert.deepEqual(readAddress("", usual),
    { base: "http://localhost", socketPath: "/run/api.sock" });
  assert.equal(readAddress("unix:/a/b", usual).socketPath, "/a/b");
  assert.equal(readAddress("/a/b", usual).socketPath, "/a/b");
  assert.deepEqual(readAddress("https://code.example.org:8443/", usual),
    { base: "https://code.example.org:8443", socketPath: null });
  assert.equal(readAddress("http://[::1]:80", usual).base, "http://[::1]");
  for (const bad of ["ftp://x", "relative", "http://", "http://a:b@c", "http://host/path",
    "http://host/?q"])
    assert.throws(() => readAddress(bad, usual), fumehood.UsageError, bad);
});

test("paths of the workspace", () => {
  assert.equal(encodePath("a b/é?#%"), "a%20b/%C3%A9%3F%23%25");
  assert.equal(encodePath("/workspace/x/"), "x");
  assert.equal(encodePath("./x"), "x");
  assert.equal(encodePath("/workspace"), "");
  assert.equal(encodePath(new Uint8Array([0x61, 0xff])), "a%FF");
  for (const bad of ["../x", "a/../b", "a//b", "/etc/passwd", "a/./b"])
    assert.throws(() => encodePath(bad), fumehood.UsageError, bad);
});

test("a result is a fold over events", () => {
  const collector = new Collector();
  let seq = 0;
  const take = (event) => collector.take({ seq: ++seq, t: "", cell: "c", ...event });
  take({ type: "stream", name: "stdout", text: "a" });
  take({ type: "stream", name: "stdout", text: "b" });
  take({ type: "stream", name: "stderr", text: "e" });
  take({ type: "display", data: { "text/plain": "one", "image/png": toBase64(Buffer.from("P")) },
    metadata: {}, display_id: "d" });
  take({ type: "update_display", data: { "text/plain": "two" }, metadata: {}, display_id: "d" });
  take({ type: "result", data: { "text/plain": "42" }, metadata: {}, execution_count: 3 });
  assert.equal(collector.take({ seq: 1, type: "stream", name: "stdout", text: "again" }), false);
  const { result } = collector;
  assert.deepEqual(result.outputs.map((output) => [output.kind, output.text]),
    [["stdout", "ab"], ["stderr", "e"], ["display", "two"], ["result", "42"]]);
  take({ type: "clear", wait: true });
  take({ type: "stream", name: "stdout", text: "new" });
  take({ type: "error", ename: "E", evalue: "v", traceback: ["t1", "t2"] });
  take({ type: "finished", status: "error", state: "kept", text: "T", duration_us: 2e6,
    files: [{ path: "x", change: "created", bytes: 1, mime: "m", origin: "background" },
      { path_base64: "Yf8=", change: "deleted", bytes: 0, mime: "m" }] });
  assert.deepEqual(result.outputs.map((output) => output.text), ["new", "t1\nt2"]);
  assert.deepEqual([result.stdout, result.stderr, result.text, result.duration],
    ["abnew", "e", "T", 2]);
  assert.deepEqual(result.error, { name: "E", value: "v", traceback: ["t1", "t2"] });
  assert.equal(result.files[0].background, true);
  assert.deepEqual([...result.files[1].raw], [0x61, 0xff]);
  assert.throws(() => result.throwForError(), fumehood.CellError);
});

test("large values go where their links were", () => {
  const hash = "a".repeat(64);
  const event = { seq: 1, data: { "image/png": { $blob: hash, bytes: 2 }, "text/plain": "x" } };
  assert.deepEqual([...blobsOf(event)], [hash]);
  assert.equal(withBlobs(event, new Map([[hash, new Uint8Array([0xff, 0])]])).data["image/png"],
    "/wA=");
  assert.deepEqual(withBlobs({ "application/json": { $blob: hash } },
    new Map([[hash, new TextEncoder().encode('{"a":1}')]])), { "application/json": { a: 1 } });
  const large = new Uint8Array(100_000).map((_, at) => at);
  assert.deepEqual(fromBase64(toBase64(large)), large);
  assert.equal(fromBase64("*"), null);
});

test("problem documents become exceptions by their code", () => {
  const problem = (status, code) => fromProblem(status, JSON.stringify({
    type: "urn:fumehood:" + code, title: "T", status, detail: "why", code }), "3");
  for (const [status, code, Kind] of [[404, "not_found", fumehood.NotFoundError],
    [401, "unauthorized", fumehood.UnauthorizedError], [429, "rate", fumehood.LimitError],
    [421, "misdirected", fumehood.DeniedError], [410, "gone", fumehood.GoneError],
    [418, "of_the_future", fumehood.FumehoodError], [400, "toString", fumehood.FumehoodError]]) {
    const error = problem(status, code);
    assert.ok(error instanceof Kind, code);
    assert.deepEqual([error.code, error.status, error.type, error.retryAfter],
      [code, status, "urn:fumehood:" + code, 3]);
    assert.ok(error.message.startsWith("why"));
  }
  assert.ok(problem(401, "unauthorized") instanceof fumehood.DeniedError);
  assert.equal(fromProblem(502, "<html>", null).code, "gone");
  assert.equal(fromProblem(500, "[]", null).code, "internal");
});
