/**
 * Real pages in Chromium, with the SDK as it was built: what they may, and what pages of another
 * origin, or of a name that was bound to the daemon's address afterwards, may not.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import * as net from "node:net";

import * as fumehood from "../dist/index.js";
import { Browser, cli, Daemon, Pages, test, within } from "./kit.mjs";

const { Session } = fumehood;
const pages = await Pages.start();

function address(origin, fields) {
  return `${origin}/page.html#${new URLSearchParams(fields)}`;
}

async function withBrowser(url, options, body) {
  const browser = await Browser.open(url, ...options);
  try {
    await body(browser);
  } finally {
    await browser.close();
  }
}

test("a page runs, streams, interrupts, answers, and has files and a channel", async () => {
  const daemon = await Daemon.start("--origin", pages.origin);
  const url = address(pages.origin, { step: "run", daemon: daemon.url, token: daemon.token });
  await withBrowser(url, [], async () => {
    const told = await pages.next("run");
    assert.deepEqual([told.stdout, told.result, told.interrupted, told.asked, told.file],
      ["out\n", "42", "interrupted", "'from the page'", "of a page"]);
    assert.ok(told.width > 100, "the image was shown");
    assert.deepEqual([told.seen[0], told.seen.at(-1), told.state], ["cell", "finished", "idle"]);
    assert.ok(told.events[0] >= told.events[1] && told.events[1] > 20);
    assert.deepEqual(told.refused, [true, "invalid", 400]);
  });
  assert.deepEqual(await fumehood.sessions({ daemon: daemon.socket }), []);
  await daemon.stop();
});

test("a page goes on where it was when the daemon was killed with -9", async () => {
  const token = JSON.parse(await cli("token", "create", "--scope", "all", "--json")).token;
  let daemon = await Daemon.start("--origin", pages.origin);
  const { port } = daemon;
  const url = address(pages.origin, { step: "reconnect", daemon: daemon.url, token });
  await withBrowser(url, [], async () => {
    await pages.next("streaming");
    await daemon.kill();
    daemon = await Daemon.start("--origin", pages.origin, "--listen", `127.0.0.1:${port}`);
    const told = await pages.next("reconnected");
    const stdout = Array.from({ length: 40 }, (_, at) => at + "\n").join("");
    assert.deepEqual([told.status, told.stdout], ["ok", stdout]);
    assert.deepEqual(told.seqs, [...new Set(told.seqs)].sort((a, b) => a - b));
    assert.deepEqual(told.followed, told.followed.map((_, at) => at + 1));
    await pages.next("removed");
  });
  await daemon.stop();
});

test("a page that is closed interrupts its cell", async () => {
  const daemon = await Daemon.start("--origin", pages.origin);
  const session = await Session.start({ daemon: daemon.socket });
  const url = address(pages.origin,
    { step: "left", daemon: daemon.url, token: daemon.token, session: session.id });
  await withBrowser(url, [], () => pages.next("running"));
  const ended = (async () => {
    for await (const event of session.events({ follow: true, cell: "left" }))
      if (event.type === "finished")
        return event.status;
    return null;
  })();
  assert.equal(await within(ended, "the cell's end"), "interrupted");
  await session.close();
  await daemon.stop();
});

test("a page of another origin is refused, whatever it knows", async () => {
  const daemon = await Daemon.start("--origin", "http://127.0.0.1:9999");
  const session = await Session.start({ daemon: daemon.socket });
  const url = address(pages.origin,
    { step: "attack", daemon: daemon.url, token: daemon.token, session: session.id });
  await withBrowser(url, [], async () => {
    const told = await pages.next("attacked");
    for (const way of ["start", "list", "simple", "post", "socket"])
      assert.equal(told[way].ok, false, way + ": " + JSON.stringify(told[way]));
    assert.ok(!told.noCors.value?.[0]); // it was sent; and refused, as we see below
  });
  assert.deepEqual((await fumehood.sessions({ daemon: daemon.socket })).map((one) => one.id),
    [session.id]);
  await session.close();
  await daemon.stop();
});

/** What listens at evil.example: first the server of pages, then the daemon. */
class Rebound {
  constructor(pagesPort) {
    this.to = pagesPort;
    this.peers = new Set();
    this.server = net.createServer((peer) => this.join(peer));
  }

  async listen() {
    this.server.listen(0, "127.0.0.1");
    await once(this.server, "listening");
    return this.server.address().port;
  }

  join(peer) {
    const other = net.connect(this.to, "127.0.0.1");
    for (const [from, to] of [[peer, other], [other, peer]]) {
      this.peers.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => this.peers.delete(from));
    }
  }

  /** From now on the name leads there; connections that are kept alive would not. */
  rebind(port) {
    this.to = port;
    for (const peer of this.peers)
      peer.destroy();
  }

  async stop() {
    for (const peer of this.peers)
      peer.destroy();
    this.server.close();
    await once(this.server, "close");
  }
}

test("a name that is bound to the daemon's address afterwards opens nothing", async () => {
  const daemon = await Daemon.start();
  const session = await Session.start({ daemon: daemon.socket });
  const rebound = new Rebound(pages.port);
  const port = await rebound.listen();
  const origin = `http://evil.example:${port}`;
  const url = address(origin, { step: "attack", wait: "yes", session: session.id,
    token: daemon.token, told: pages.origin });
  const rules = ["--host-resolver-rules=MAP evil.example 127.0.0.1"];
  await withBrowser(url, rules, async () => {
    await pages.next("loaded");
    rebound.rebind(daemon.port);
    const told = await pages.next("attacked");
    for (const way of ["list", "simple", "post", "noCors"])
      assert.deepEqual([way, told[way].value?.[0]], [way, 421]); // the page sees it: same origin
    assert.match(told.list.value[1], /urn:fumehood:misdirected/);
    assert.deepEqual([told.start.ok, told.start.status, told.socket.ok], [false, 421, false]);
  });
  assert.deepEqual((await fumehood.sessions({ daemon: daemon.socket })).map((one) => one.id),
    [session.id]);
  await session.close();
  await rebound.stop();
  await daemon.stop();
});
