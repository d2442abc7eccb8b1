/** Asks over a real daemon, by the real program; the model's answers come from a file. */
import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";

import * as fumehood from "../dist/index.js";
import { askBody } from "../dist/ask.js";
import { Daemon, test } from "./kit.mjs";

const daemon = await Daemon.start();
const options = { daemon: daemon.socket };
const folder = await mkdtemp(path.join(process.env.FUMEHOOD_TEST_FOLDER ?? tmpdir(), "js-ask-"));
let count = 0;

async function script(...programs) {
  const file = path.join(folder, `${++count}.ndjson`);
  await writeFile(file, programs.map((code) => JSON.stringify(
    { text: "```python\n" + code + "\n```\n" }) + "\n").join(""));
  return file;
}

test("a session asks: lines as they come, and the answer", async () => {
  const session = await fumehood.Session.start(options);
  await session.run("base = 40");
  const ask = session.startAsk("Add 2", { effort: "low",
    script: await script("base += 2\nprint(base)") });
  const lines = [];
  for await (const line of ask)
    lines.push(line);
  const answer = await ask.result();
  assert.deepEqual([answer.success, answer.stdout.trim(), answer.confidence, answer.text.trim()],
    [true, "42", "ran", "42"]);
  assert.equal(answer.session, session.id);
  assert.deepEqual([lines[0].type, lines.at(-1).type], ["ask", "result"]);
  assert.match(lines.filter((line) => line.type === "token").map((line) => line.text).join(""),
    /print\(base\)/);
  assert.equal((await session.run("base")).result, "42");
  assert.equal(answer.throwForError(), answer);
  await session.close();
});

test("an answer without success says why, and is no exception", async () => {
  const heard = [];
  const answer = await fumehood.ask("Divide", { ...options, programs: 1, effort: "low",
    script: await script("print('part')\n1 / 0"), onLine: (line) => heard.push(line.type) });
  assert.equal(answer.success, false);
  assert.ok(answer.message !== "" && answer.programs[0].status === "error");
  assert.match(answer.programs[0].stdout, /part/);
  assert.throws(() => answer.throwForError(), (error) => error instanceof fumehood.AnswerError
    && error.answer === answer);
  assert.equal(heard.at(-1), "result");
});

test("who goes away ends the ask", async () => {
  const session = await fumehood.Session.start(options);
  const control = new AbortController();
  const file = await script("print('go', flush=True)\nwhile True: pass");
  const aborted = session.startAsk("Loop",
    { script: file, runSeconds: 100, signal: control.signal });
  for await (const line of session.startAsk("Loop", { script: file, runSeconds: 100 }))
    if (line.type === "code")
      break;
  control.abort(new Error("enough"));
  await assert.rejects(aborted.result(), /enough/);
  const fail = () => { throw new Error("no"); };
  await assert.rejects(session.ask("Loop", { script: file, onLine: fail }), /no/);
  assert.equal((await session.run("1")).result, "1");
  await session.close();
});

test("what is asked wrongly, and what there is not, is said", async () => {
  await assert.rejects(async () => fumehood.ask("  ", options), fumehood.UsageError);
  await assert.rejects(fumehood.ask("x", { ...options, effort: "huge" }), fumehood.InvalidError);
  await assert.rejects(fumehood.ask("x", { ...options, script: "/no/such/file" }),
    fumehood.FumehoodError);
  await assert.rejects(fumehood.ask("x", { daemon: "/no/such/api.sock", reconnect: 0 }),
    fumehood.NotFoundError);
  assert.deepEqual(JSON.parse(JSON.stringify(askBody("x", { expect: [/a.b/, "c"], asserts: "d",
    runSeconds: 2 }, "s"))),
  { instruction: "x", session: "s", run_seconds: 2, expect: ["/a.b/", "c"], assert: "d" });
  assert.equal(askBody("x", { expect: /a/i }, null).expect, "/a/i");
  assert.throws(() => askBody("x", { expect: /a/s }, null), fumehood.UsageError);
});

test("the daemon ends", async () => {
  await daemon.stop();
});
