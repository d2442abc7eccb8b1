/**
 * What needs no editor and no server: texts, the page of images, lengths in bytes, the manifest.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import * as http from "node:http";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const report = require("../dist/test/report.cjs");
const { NoServer, request } = require("../dist/test/http.cjs");
const manifest = require("../package.json");

test("programs that are written at once are told one after the other", () => {
  const transcript = new report.Transcript();
  const lines = [
    { type: "ask" },
    { type: "attempt", attempt: 1, state: "started", kind: "sample" },
    { type: "attempt", attempt: 2, state: "started", kind: "sample" },
    { type: "token", attempt: 2, text: "second" },
    { type: "token", attempt: 1, text: "first" },
    { type: "token", attempt: 1, text: "thought", reasoning: true },
    { type: "output", attempt: 2, stream: "stdout", text: "2\n" },
    { type: "attempt", attempt: 2, state: "finished", status: "ok" },
    { type: "attempt", attempt: 1, state: "finished", status: "error",
      error: { ename: "NameError", evalue: "x" } },
    { type: "attempt", attempt: 3, state: "started", kind: "repair", of: 1 },
    { type: "token", attempt: 3, text: "third" },
    { type: "verdict" },
  ];
  const text = lines.map((line) => transcript.take(line)).join("");
  assert.deepEqual(text.split("\n").filter((line) => line !== ""), [
    "--- program 1 ---", "first", "--- program 1 raised (NameError: x) ---",
    "--- program 2 ---", "second", "--- prints ---", "2", "--- program 2 ran ---",
    "--- program 3, a repair of 1 ---", "third"]);
});

test("a selection loses the indentation that all its lines have", () => {
  for (const [given, made] of [
    ["  a\n  b", "a\nb"], ["a\n    b", "a\nb"], ["if x:\n    b", "if x:\n    b"],
    ["\ta\r\n\t\tb", "a\n\tb"], ["    if x:\n        y\n\n    z", "if x:\n    y\n\nz"],
    ["", ""], ["x", "x"], ["  \n  y", "\ny"]])
    assert.equal(report.dedent(given), made, JSON.stringify(given));
});

test("outcomes in words", () => {
  const outcome = report.readOutcome(JSON.stringify({ success: true, stdout: "", stderr: "w",
    code: "1", attempts: 2, response: "", confidence: "agreed", agreement: { k: 2, n: 3 },
    suspicions: ["odd"] }));
  const text = report.outcomeText(outcome);
  for (const part of ["Generated code:\n", "(no output)", "Warnings:\n", "2 of 3 programs agree",
    "Suspicious: odd"])
    assert.ok(text.includes(part), text);
  assert.equal(report.succeeded(2), "Execution Succeeded in 2 attempts!");
  assert.match(report.outcomeText({ success: false, stderr: "Max", message: "why" }),
    /Details: Max\nwhy/);
  assert.throws(() => report.readOutcome("[]"));
  assert.throws(() => report.readOutcome("<html>"));
  assert.match(report.refused(400, '{"error": "Missing field"}'), /status 400: Missing field/);
});

test("the page of images runs nothing and loads nothing", async () => {
  await import("./kit.mjs"); // `vscode` for the module
  const { page, picturesOf } = require("../dist/test/images.cjs");
  const html = page('<script>"', [{ mime: 'image/png"><script>', data: Buffer.from("x") },
    { mime: "image/svg+xml", data: Buffer.from("<svg onload=alert(1)>") }], "N");
  assert.ok(html.includes("default-src 'none'; img-src data:; style-src 'nonce-N'"));
  assert.ok(!html.includes("<script") && !html.includes("onload"));
  assert.equal(html.match(/<img /g).length, 2);
  const many = Array.from({ length: 60 }, () => ({ mime: "image/png", data: Buffer.from("x") }));
  assert.match(page("t", many, "N"), /10 more are not shown/);
  const big = { mime: "image/png", data: Buffer.alloc(33 << 20) };
  assert.match(page("t", [big], "N"), /1 more are not shown/);
  const [drawn] = picturesOf({ type: "display",
    data: { "image/svg+xml": "<svg/>", "text/plain": "" } });
  assert.equal(drawn.data.toString(), "<svg/>");
  assert.deepEqual(picturesOf({ type: "stream", text: "x" }), []);
});

test("a request's length is that of its bytes", async () => {
  const server = http.createServer(async (asked, answer) => {
    let text = "";
    for await (const piece of asked.setEncoding("utf-8"))
      text += piece;
    answer.end(JSON.stringify({ length: asked.headers["content-length"], text }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}/`;
  const { text } = await request("POST", url, { body: { instruction: "数を 😀" } });
  const told = JSON.parse(text);
  assert.deepEqual(JSON.parse(told.text), { instruction: "数を 😀" });
  assert.equal(Number(told.length), Buffer.byteLength(told.text));
  server.close();
  await assert.rejects(request("GET", url), NoServer);
  await assert.rejects(request("GET", "ftp://x/"), /no http/);
});

test("a request ends when it is cancelled, or when its time is over", async () => {
  const server = http.createServer(() => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}/`;
  const control = new AbortController();
  const waiting = request("GET", url, { signal: control.signal });
  await once(server, "request");
  control.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  await assert.rejects(request("GET", url, { timeout: 50 }), /gave no answer/);
  server.closeAllConnections();
  server.close();
});

test("the manifest has the original's commands, and settings that a folder cannot set", () => {
  const titles = Object.fromEntries(manifest.contributes.commands
    .map((one) => [one.command, one.title]));
  assert.equal(titles["slm-code-interpreter.executeSelection"],
    "SLM Code Interpreter: Execute Selected Prompt / Code");
  assert.equal(titles["slm-code-interpreter.executeInstruction"],
    "SLM Code Interpreter: Ask Agent to Write & Run...");
  assert.deepEqual(manifest.contributes.menus["editor/context"][0],
    { command: "slm-code-interpreter.executeSelection", when: "editorHasSelection",
      group: "navigation" });
  const properties = manifest.contributes.configuration.properties;
  for (const name of ["endpoint", "daemon", "program", "startServer", "url"])
    assert.equal(properties["slm-code-interpreter." + name].scope, "machine", name);
  // These a folder may set, once it is trusted.
  for (const [name, property] of Object.entries(properties))
    if (property.scope === "machine-overridable")
      assert.ok(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations.includes(name),
        name);
});
