/** A daemon that is killed and comes back: cells go on, and nothing of them is missed. */
import assert from "node:assert/strict";

import * as fumehood from "../dist/index.js";
import { Daemon, test, within } from "./kit.mjs";

const { Session } = fumehood;
const SLOW = "import time\nfor i in range(40):\n    print(i, flush=True); time.sleep(0.05)\n'end'";
const SLOW_OUT = Array.from({ length: 40 }, (_, at) => at + "\n").join("");

test("20 streaming runs, and the daemon is killed with -9", async () => {
  let daemon = await Daemon.start();
  const where = { daemon: daemon.socket };
  const sessions = await Promise.all(Array.from({ length: 4 }, () => Session.start(where)));
  const runs = sessions.flatMap((session) => Array.from({ length: 5 }, (_, at) =>
    session.startRun(at === 0 ? SLOW : `print(${at})`)));
  await within(Promise.all(runs.map((run) => run.cell)), "the cells");
  const iterator = runs[0][Symbol.asyncIterator]();
  const seen = [];
  while (seen.filter((event) => event.type === "stream").length < 3)
    seen.push((await within(iterator.next(), "output")).value);
  await daemon.kill();
  daemon = await Daemon.start();
  for (let step = await iterator.next(); !step.done; step = await iterator.next())
    seen.push(step.value);
  const results = await within(Promise.all(runs.map((run) => run.result())), "the results");
  results.forEach((result, at) => {
    assert.deepEqual([result.status, result.stdout],
      ["ok", at % 5 === 0 ? SLOW_OUT : `${at % 5}\n`]);
  });
  const numbers = seen.map((event) => event.seq);
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b));
  await Promise.all(sessions.map((session) => session.close()));
  await daemon.stop();
});

test("a run that is sent while there is no daemon", async () => {
  let daemon = await Daemon.start();
  const where = { daemon: daemon.socket };
  const session = await Session.start(where);
  await session.run("kept = 1");
  await daemon.kill();
  const early = session.run("kept + 1");
  const status = session.status();
  const hopeless = new fumehood.Daemon({ ...where, reconnect: 0 });
  await assert.rejects(hopeless.sessions(), fumehood.NotFoundError);
  daemon = await Daemon.start();
  assert.equal((await early).result, "2");
  assert.equal((await status).tier, session.info.tier);
  await session.close();
  await daemon.stop();
});

test("prompts, followers and channels over a kill", async () => {
  let daemon = await Daemon.start();
  const session = await Session.start({ daemon: daemon.socket });
  const channel = await session.channel();
  const lost = new Promise((resolve) => { channel.onLost = resolve; });
  const asked = session.run("input('? ') + input('! ')", { input: async (prompt) => {
    if (prompt === "? ") { // the answer meets a daemon that is gone
      await daemon.kill();
      Daemon.start().then((made) => { daemon = made; });
    }
    return prompt;
  } });
  const follow = async (via) => {
    const numbers = [];
    for await (const event of session.events({ follow: true, via })) {
      numbers.push(event.seq);
      if (event.type === "note")
        return numbers;
    }
    return null;
  };
  const followed = [follow("sse"), follow("websocket")];
  assert.equal((await within(asked, "the answers")).result, "'? ! '");
  assert.ok(await within(lost, "the loss") instanceof fumehood.GoneError);
  assert.equal((await channel.call("status")).type, "reply"); // it connects again
  await session.note("the last");
  for (const numbers of await within(Promise.all(followed), "the followers"))
    assert.deepEqual(numbers, numbers.map((_, at) => at + 1));
  channel.close();
  await session.close();
  await daemon.stop();
});

test("leaving after the daemon was killed interrupts, too", async () => {
  let daemon = await Daemon.start();
  const session = await Session.start({ daemon: daemon.socket });
  const run = session.startRun("print('go', flush=True)\nwhile True: pass");
  const cell = await run.cell;
  await daemon.kill();
  daemon = await Daemon.start();
  const events = run[Symbol.asyncIterator]();
  while ((await within(events.next(), "output")).value.type !== "stream");
  await session.status();
  await events.return();
  const ended = (async () => {
    for await (const event of session.events({ follow: true, cell }))
      if (event.type === "finished")
        return event.status;
    return null;
  })();
  assert.equal(await within(ended, "the cell's end"), "interrupted");
  await session.close();
  await daemon.stop();
});

test("a daemon that stays away is said", async () => {
  const daemon = await Daemon.start();
  const session = await Session.start({ daemon: daemon.socket, reconnect: 300 });
  const run = session.startRun("import time; time.sleep(2)");
  await run.cell;
  await daemon.kill();
  await assert.rejects(within(run.result(), "the refusal"), (error) =>
    error instanceof fumehood.NotFoundError && /fumehood serve/.test(error.message));
  const next = await Daemon.start();
  const again = await Session.open(session.id, { daemon: next.socket });
  await again.remove();
  await next.stop();
});
