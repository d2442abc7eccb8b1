/** Sessions of a real daemon: over its Unix socket and over TCP with a token. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import * as path from "node:path";

import * as fumehood from "../dist/index.js";
import { cli, Daemon, test, within } from "./kit.mjs";

const { Session } = fumehood;
const daemon = await Daemon.start();

async function collect(iterable) {
  const found = [];
  for await (const item of iterable)
    found.push(item);
  return found;
}

for (const where of ["unix", "tcp"]) {
  const options = where === "unix" ? { daemon: daemon.socket }
    : { daemon: daemon.url, token: daemon.token };
  const session = await Session.start({ ...options, timeout: 20, memory: 512 << 20,
    notebookMetadata: { mine: 1 } });

  test(`over ${where}: a cell's outputs, value, error, image, files and text`, async () => {
    const result = await session.run(
      "import sys\nx = 6\nprint('out')\nprint('err', file=sys.stderr)\nx * 7");
    assert.deepEqual([result.stdout, result.stderr, result.result, result.status, result.ok],
      ["out\n", "err\n", "42", "ok", true]);
    assert.match(result.text, /out[^]*42/);
    assert.ok(result.duration > 0 && result.memoryPeak > 0 && result.executionCount === 1);

    const failed = await session.run("print('before')\n1 / 0");
    assert.deepEqual([failed.status, failed.stdout, failed.error.name, failed.error.value],
      ["error", "before\n", "ZeroDivisionError", "division by zero"]);
    assert.throws(() => failed.throwForError(), (error) => error instanceof fumehood.CellError
      && error.result === failed);

    const drawn = await session.run("import matplotlib.pyplot as plt\nplt.plot([1, 4])\n"
      + "plt.show()\nopen('table.csv', 'w').write('a,b\\n')");
    assert.equal(drawn.images[0].mime, "image/png");
    assert.deepEqual([...drawn.images[0].data.subarray(1, 4)], [0x50, 0x4e, 0x47]);
    assert.ok(drawn.images[0].url.startsWith("data:image/png;base64,iVBOR"));
    assert.deepEqual(drawn.files.map((file) => [file.path, file.change, file.bytes]),
      [["table.csv", "created", 4]]);
  });

  test(`over ${where}: what a cell may not costs the cell`, async () => {
    await session.run("kept = 1");
    assert.equal((await session.run("while True: pass", { timeout: 0.3 })).status, "timeout");
    const died = await session.run("import os; os._exit(3)");
    assert.equal(died.status, "died");
    assert.match(died.error.value, /exit status 3/);
    assert.equal((await session.run("kept")).result, "1");
    const undone = await session.run("kept = 2\n1 / 0", { atomic: true });
    assert.deepEqual([undone.status, undone.state], ["error", "rolled_back"]);
    assert.equal((await session.run("kept")).result, "1");
  });

  test(`over ${where}: events as they come, and callbacks in their order`, async () => {
    const heard = [];
    const run = session.stream("import time\nfor i in range(3):\n"
      + "    print(i, flush=True); time.sleep(0.05)\ni", {
      onStdout: async (text) => { await null; heard.push(text); },
      onOutput: (output) => heard.push(output.kind),
    });
    const types = [];
    for await (const event of run)
      types.push(event.type);
    assert.deepEqual([types[0], types.at(-1)], ["cell", "finished"]);
    assert.ok(types.filter((type) => type === "stream").length >= 2);
    assert.equal(heard.filter((text) => text.endsWith("\n")).join(""), "0\n1\n2\n");
    assert.equal(heard.at(-1), "result");
    assert.equal((await run.result()).result, "2");
    await assert.rejects(session.run("print('x')", {
      onStdout: () => { throw new Error("of the callback"); } }), /of the callback/);
  });

  test(`over ${where}: interrupts: asked for, by leaving, and by a signal`, async () => {
    const run = session.startRun("while True: pass");
    await run.cell;
    assert.equal(await run.interrupt(), true);
    assert.equal((await run.result()).status, "interrupted");
    assert.equal(await run.interrupt(), false);

    let cell;
    for await (const event of session.stream("print('go')\nwhile True: pass")) {
      cell = event.cell;
      if (event.type === "stream")
        break;
    }
    const ends = async (id) => {
      for await (const event of session.events({ follow: true, cell: id }))
        if (event.type === "finished")
          return event.status;
      return null;
    };
    assert.equal(await within(ends(cell), "the cell that was left"), "interrupted");

    const control = new AbortController();
    const signalled = session.startRun("while True: pass", { signal: control.signal });
    cell = await signalled.cell;
    control.abort(new Error("no longer wanted"));
    await assert.rejects(signalled.result(), /no longer wanted/);
    assert.equal(await within(ends(cell), "the cell of the signal"), "interrupted");
    await assert.rejects(session.run("1", { signal: AbortSignal.abort() }),
      { name: "AbortError" });

    const detached = session.startRun("import time; time.sleep(0.5); 'whole'",
      { detach: true });
    cell = await detached.cell;
    detached.close();
    await assert.rejects(detached.result(), { name: "AbortError" });
    assert.equal(await within(ends(cell), "the detached cell"), "ok");
  });

  test(`over ${where}: answers to prompts`, async () => {
    const code = "a = input('Who? ')\nb = input()\na, b";
    const prompts = [];
    const asked = await session.run(code, { input: (prompt, password) => {
      prompts.push([prompt, password]);
      return "Ada";
    } });
    assert.equal(asked.result, "('Ada', 'Ada')");
    assert.deepEqual(prompts, [["Who? ", false], ["", false]]);
    assert.equal((await session.run(code, { input: "é\n2" })).result, "('é', '2')");
    const short = await session.run(code, { input: ["one"] });
    assert.equal(short.error.name, "EOFError");
    await assert.rejects(session.input("nobody waits"), fumehood.NotFoundError);
  });

  test(`over ${where}: questions`, async () => {
    await session.run("word = 'x'\ndef documented():\n    'What it does.'");
    const completion = await session.complete("word.upp");
    assert.deepEqual([completion.matches, completion.start, completion.end],
      [["upper"], 5, 8]);
    assert.match((await session.inspect("documented")).text, /What it does/);
    const variables = await session.variables("wo*");
    assert.deepEqual([variables[0].name, variables[0].repr, variables.total],
      ["word", "'x'", 1]);
    const run = session.startRun("while True: pass");
    await run.cell;
    await assert.rejects(session.variables(), fumehood.BusyError);
    const status = await session.status();
    assert.equal(status.state, "running");
    assert.equal(status.cell, await run.cell);
    await run.interrupt();
  });

  test(`over ${where}: the record: section, note, texts, images, notebook`, async () => {
    await session.section("Part " + where);
    const note = await session.note("Some *words*.");
    const run = session.startRun("print('in the section')");
    const result = await run.result();
    assert.equal(await session.text(result.cell), result.text);
    assert.match(await session.text(result.cell, { marks: true }), /^\[stdout\]\n/);
    assert.deepEqual([...(await session.outputs("Part " + where)).keys()], [result.cell]);
    const notebook = await session.notebook();
    assert.deepEqual([notebook.nbformat, notebook.metadata.mine], [4, 1]);
    assert.ok(notebook.cells.some((cell) => cell.id === note
      && cell.source === "Some *words*."));
    const { images, lastSeq } = await session.images();
    assert.ok(images.some((image) => image.place === "session"));
    assert.deepEqual((await session.images(lastSeq)).images, []);
    assert.match(await session.save(), /notebook\.ipynb$/);
  });

  test(`over ${where}: files`, async () => {
    const large = new Uint8Array(3 << 20).map((_, at) => at * 7);
    await session.files.put("large é.bin", large, { mode: 0o600 });
    assert.deepEqual(await session.files.get("/workspace/large é.bin"), large);
    assert.deepEqual(await session.files.get("large é.bin", { offset: 10, length: 5 }),
      large.subarray(10, 15));
    assert.deepEqual(await session.files.get("large é.bin", { offset: large.length - 3 }),
      large.subarray(-3));
    await session.files.makeFolder("a/b");
    await session.files.put("a/b/text", "grüße");
    await session.files.put("a/b/blob", new Blob(["of a blob"]));
    await session.files.put("a/b/stream", new Blob(["of a stream"]).stream());
    assert.equal(await session.files.text("a/b/stream"), "of a stream");
    assert.deepEqual((await session.files.list("a/b")).map((entry) => [entry.name, entry.bytes]),
      [["blob", 9], ["stream", 11], ["text", 7]]);
    const top = await session.files.list();
    assert.equal(top.find((entry) => entry.name === "large é.bin").mode & 0o777, 0o600);
    assert.equal((await session.run("open('a/b/text').read()")).result, "'grüße'");
    const zip = await session.files.zip("a");
    assert.deepEqual([...zip.subarray(0, 4)], [0x50, 0x4b, 3, 4]);
    await session.run("open(b'bytes\\xff', 'w').write('raw')\n"
      + "import os; os.mkdir('many'); [open(f'many/{i:04}', 'w') for i in range(1001)] and None");
    const strange = (await session.files.list()).find((entry) => entry.raw);
    assert.equal(await session.files.text(strange.raw), "raw");
    assert.equal((await session.files.list("many")).length, 1001);
    await assert.rejects(session.files.remove("a"), fumehood.FumehoodError);
    await session.files.remove("a", { whole: true });
    await session.files.remove("many", { whole: true });
    await session.files.remove(strange.raw);
    await assert.rejects(session.files.get("a/b/text"), fumehood.NotFoundError);
    assert.throws(() => session.files.open("../../etc/passwd"), fumehood.UsageError);
  });

  test(`over ${where}: the journal from any place, by SSE and by WebSocket`, async () => {
    const all = await collect(session.events());
    assert.deepEqual(all.map((event) => event.seq), all.map((_, at) => at + 1));
    assert.deepEqual(await collect(session.events({ via: "websocket" })), all);
    const since = all.length - 3;
    assert.deepEqual((await collect(session.events({ since }))).map((event) => event.seq),
      [since + 1, since + 2, since + 3]);
    for (const via of ["sse", "websocket"]) {
      const followed = session.events({ since: all.length, follow: true, via });
      const first = followed.next();
      const result = await session.run("print('followed')");
      let event = (await within(first, "an event by " + via)).value;
      while (!(event.type === "finished" && event.cell === result.cell))
        event = (await within(followed.next(), "an event by " + via)).value;
      await followed.return();
      const control = new AbortController();
      const endless = collect(session.events({ follow: true, via, signal: control.signal }));
      control.abort();
      await assert.rejects(endless, { name: "AbortError" });
    }
  });

  test(`over ${where}: values of any size come whole`, async () => {
    const result = await session.run("'x' * 20_000_000", { maxChars: 0 });
    assert.equal(result.result.length, 20_000_002);
    assert.equal(result.text, "");
  });

  test(`over ${where}: a slow reader over a WebSocket misses nothing`, async () => {
    const from = (await session.status()).lastSeq;
    const cell = (await session.run("import sys\nfor i in range(6000):\n"
      + "    (sys.stdout if i % 2 else sys.stderr).write(f'{i} '); sys.stdout.flush(); "
      + "sys.stderr.flush()", { maxChars: 0 })).cell;
    let count = 0;
    let text = "";
    for await (const event of session.events({ since: from, cell, via: "websocket" })) {
      if (count++ === 0)
        await new Promise((resolve) => { setTimeout(resolve, 300); }); // lets the rest come
      text += event.type === "stream" ? event.text : "";
    }
    const numbers = text.trim().split(" ").map(Number).sort((a, b) => a - b);
    assert.deepEqual(numbers, Array.from({ length: 6000 }, (_, at) => at));
  });

  test(`over ${where}: checkpoints, rollback, reset, fork, restart`, async () => {
    await session.run("x = 1");
    const checkpoint = await session.checkpoint("before");
    assert.equal(checkpoint.name, "before");
    await assert.rejects(session.checkpoint("before"), fumehood.DuplicateError);
    const second = await session.run("x = 2");
    assert.ok((await session.checkpoints()).some((one) => one.name === "before"));
    const branch = await session.fork();
    assert.equal((await branch.run("x")).result, "2");
    const back = await session.rollback("before");
    assert.ok(back.rolledBack.includes(second.cell));
    assert.equal((await session.run("x")).result, "1");
    assert.equal((await branch.run("x")).result, "2");
    await branch.close();
    await assert.rejects(Session.open(branch.id, options), fumehood.NotFoundError);
    await session.dropCheckpoint("before");
    await assert.rejects(session.rollback("before"), fumehood.NotFoundError);
    await session.reset();
    assert.equal((await session.run("x")).error.name, "NameError");
    await session.restart();
    assert.equal((await session.run("'again'")).result, "'again'");
  });

  test(`over ${where}: limits and policy`, async () => {
    const limits = await session.limits();
    assert.deepEqual([limits.wall_s.value, limits.memory_bytes.value], [20, 512 << 20]);
    assert.equal((await session.limits({ wall_s: 15 })).wall_s.value, 15);
    await assert.rejects(session.limits({ no_such: 1 }), fumehood.InvalidError);
    assert.deepEqual((await session.policy()).net, []);
    if (where === "unix")
      assert.equal((await session.policy({ net: ["example.org"] })).net.length, 1);
    else
      await assert.rejects(session.policy({ net: ["example.org"] }), fumehood.DeniedError);
  });

  test(`over ${where}: the channel speaks the protocol`, async () => {
    const channel = await session.channel();
    assert.deepEqual([channel.hello.type, channel.hello.session], ["hello", session.id]);
    const replies = await Promise.all(Array.from({ length: 20 }, () => channel.call("status")));
    assert.equal(replies.length, 20);
    const finished = new Promise((resolve) => {
      channel.onEvent = (event) => event.type === "finished" && resolve(event);
    });
    await channel.call("events", { since: replies[0].last_seq, follow: true });
    const reply = await channel.call("run", { code: "1 + 1", max_chars: 100 });
    const event = await within(finished, "the cell's end");
    assert.deepEqual([event.cell, event.status], [reply.cell, "ok"]);
    await assert.rejects(channel.call("text", { cell: "none" }), fumehood.NotFoundError);
    await assert.rejects(channel.call("no_such_op"), fumehood.FumehoodError);
    channel.close();
    await assert.rejects(channel.call("status"), fumehood.GoneError);
  });

  test(`over ${where}: ids, keys and what a run is refused with`, async () => {
    const result = await session.run("1", { cell: "mine-" + where });
    assert.equal(result.cell, "mine-" + where);
    await assert.rejects(session.run("1", { cell: "mine-" + where }), fumehood.DuplicateError);
    await session.run("count = 0");
    const key = { idempotencyKey: "once " + where };
    const [one, two] = [await session.run("count += 1\ncount", key),
      await session.run("count += 1\ncount", key)];
    assert.deepEqual([one.result, two.result, one.cell], ["1", "1", two.cell]);
    await assert.rejects(session.run("other", key), { status: 422 });
    await assert.rejects(session.run("1", { cell: "no good id" }), fumehood.InvalidError);
    await assert.rejects(session.text("none"), fumehood.NotFoundError);
    assert.throws(() => session.startRun(42), fumehood.UsageError);
    assert.throws(() => session.startRun("1", { timeout: 0 }), fumehood.UsageError);
  });

  test(`over ${where}: the end`, () => session.close());
}

test("sessions with a name live on", async () => {
  const options = { daemon: daemon.socket, name: "js-named" };
  const first = await Session.start(options);
  assert.equal(first.created, true);
  await first.run("x = 1");
  await first.close();
  const second = await Session.start(options);
  assert.deepEqual([second.created, second.id, second.name], [false, first.id, "js-named"]);
  assert.equal((await second.run("x")).result, "1");
  await second.stop();
  await assert.rejects(second.status(), fumehood.GoneError);
  const opened = await Session.open("js-named", { daemon: daemon.socket });
  assert.equal((await opened.run("'new'")).result, "'new'");
  assert.ok((await cli("ls")).includes("js-named")); // it is one of all
  await opened.remove();
  await opened.close();
  await assert.rejects(Session.open("js-named", { daemon: daemon.socket }), (error) =>
    error instanceof fumehood.NotFoundError && error.type === "urn:fumehood:not_found"
    && error.status === 404);
  const kept = await Session.start({ daemon: daemon.socket, keep: true });
  await kept.close();
  const again = await Session.open(kept.id, { daemon: daemon.socket });
  await again.remove();
});

test("tokens, addresses, and what answers is no daemon", async () => {
  await assert.rejects(Session.start({ daemon: daemon.url, token: "wrong" }), (error) =>
    error instanceof fumehood.UnauthorizedError && /fumehood token create/.test(error.message));
  const own = await Session.start({ daemon: daemon.url }); // our own daemon's token is found
  assert.equal((await own.run("1")).result, "1");
  await own.close();
  const usual = await Session.start();
  await usual.close();
  for (const address of ["/no/such/api.sock", "http://127.0.0.1:3"])
    await assert.rejects(Session.start({ daemon: address }), (error) =>
      error instanceof fumehood.NotFoundError && /fumehood serve/.test(error.message));
  await assert.rejects(Session.start({ daemon: daemon.url, workspace: "/tmp" }),
    fumehood.DeniedError);
  await assert.rejects(Session.start({ daemon: daemon.socket, limits: { queue: -1 } }),
    fumehood.InvalidError);

  const token = (await cli("token", "create", "--scope", "read", "--json")).trim();
  const reader = { daemon: daemon.url, token: JSON.parse(token).token };
  assert.deepEqual(await fumehood.sessions(reader), []);
  await assert.rejects(Session.start(reader), fumehood.DeniedError);

  const folder = path.join(tmpdir(), `fumehood-js-${process.pid}.sock`);
  for (const answer of ["", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\n[]",
    "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone"]) {
    const server = createServer((peer) => {
      peer.on("error", () => undefined);
      peer.once("data", () => peer.end(answer));
    }).listen(folder);
    await once(server, "listening");
    await assert.rejects(fumehood.sessions({ daemon: folder, reconnect: 0 }),
      fumehood.FumehoodError);
    await assert.rejects(Session.start({ daemon: folder, reconnect: 0 }), fumehood.FumehoodError);
    server.close();
    await once(server, "close");
  }
});

test("a program that ends interrupts its cell", async () => {
  const session = await Session.start({ daemon: daemon.socket });
  const child = spawn(process.execPath, ["--input-type=module", "-e", `
    import { Session } from ${JSON.stringify(new URL("../dist/index.js", import.meta.url))};
    const session = await Session.open(${JSON.stringify(session.id)});
    await session.run("print('go', flush=True)\\nwhile True: pass",
      { cell: "left", onStdout: () => process.kill(process.pid, "SIGKILL") });`],
  { stdio: "inherit" });
  await within(once(child, "exit"), "the program's end");
  const ended = (async () => {
    for await (const event of session.events({ follow: true, cell: "left" }))
      if (event.type === "finished")
        return event.status;
    return null;
  })();
  assert.equal(await within(ended, "the cell's end"), "interrupted");
  await session.close();
});

test("nothing is left", async () => {
  assert.deepEqual(await fumehood.sessions({ daemon: daemon.socket }), []);
  await daemon.stop();
});
