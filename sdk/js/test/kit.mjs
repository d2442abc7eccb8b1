/**
 * What the tests share: a real daemon, a server for pages, a browser, and waiting with a deadline.
 *
 * $FUMEHOOD names the program; the directories are those of the environment (test_sdk_js.py makes
 * a house for them).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import * as http from "node:http";
import * as os from "node:os";
import * as path from "node:path";
import * as node from "node:test";
import { fileURLToPath } from "node:url";

export const WAIT_MS = 30_000;
const END_MS = 2_000;
const FUMEHOOD = process.env.FUMEHOOD ?? "fumehood";
const HERE = path.dirname(fileURLToPath(import.meta.url));

const daemons = new Set();
process.on("exit", () => daemons.forEach((daemon) => daemon.process.kill("SIGKILL")));
/** What a test that failed has left open (a session, a stream) must not keep Node from its end. */
node.after(() => { setTimeout(() => process.exit(), END_MS).unref(); });

/** A test that ends, also of a broken product; its daemons end with it. */
export function test(name, body) {
  return node.test(name, { timeout: 2 * WAIT_MS }, async () => {
    const before = new Set(daemons);
    try {
      await body();
    } finally {
      await Promise.all([...daemons].filter((one) => !before.has(one)).map((one) => one.kill()));
    }
  });
}

/** Waits for a promise; a broken product must not hang the tests. */
export async function within(promise, what, ms = WAIT_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("waited in vain for " + what)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A `fumehood serve`. */
export class Daemon {
  static async start(...options) {
    const daemon = new Daemon();
    const listen = options.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
    daemon.process = spawn(FUMEHOOD, ["serve", ...listen, ...options],
      { stdio: ["ignore", "ignore", "pipe"] });
    daemons.add(daemon);
    daemon.ended = once(daemon.process, "exit").then(() => daemons.delete(daemon));
    daemon.said = "";
    await within(new Promise((resolve, reject) => {
      daemon.process.stderr.on("data", (data) => {
        daemon.said += data;
        if (daemon.said.includes("api.json"))
          resolve();
      });
      daemon.ended.then(() => reject(new Error("the daemon ended: " + daemon.said)));
    }), "the daemon");
    const folder = path.join(process.env.XDG_RUNTIME_DIR, "fumehood");
    const note = JSON.parse(await readFile(path.join(folder, "api.json"), "utf-8"));
    daemon.socket = path.join(folder, "api.sock");
    daemon.url = note.url.replace(/\/$/, "");
    daemon.token = note.token;
    daemon.port = Number(new URL(note.url).port);
    return daemon;
  }

  async kill(signal = "SIGKILL") {
    if (this.process.exitCode === null && this.process.signalCode === null)
      this.process.kill(signal);
    await within(this.ended, "the daemon's end");
  }

  stop() {
    return this.kill("SIGTERM");
  }
}

/** `fumehood ARGS`, to its end; what it printed. */
export async function cli(...args) {
  const child = spawn(FUMEHOOD, args, { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (data) => { out += data; });
  const [status] = await within(once(child, "close"), "fumehood " + args.join(" "));
  if (status !== 0)
    throw new Error(`fumehood ${args.join(" ")} ended with ${status}`);
  return out;
}

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript" };

/** A web server with the test page and the built SDK; a page POSTs what it has found to /told. */
export class Pages {
  static async start(host = "127.0.0.1", port = 0) {
    const pages = new Pages();
    pages.told = [];
    pages.wake = () => undefined;
    pages.server = http.createServer((request, answer) => pages.serve(request, answer));
    pages.server.listen(port, host);
    await once(pages.server, "listening");
    pages.server.unref(); // it ends with the tests
    pages.port = pages.server.address().port;
    pages.origin = `http://${host}:${pages.port}`;
    return pages;
  }

  async serve(request, answer) {
    const { pathname } = new URL(request.url, "http://x");
    if (pathname === "/told") {
      let text = "";
      for await (const piece of request)
        text += piece;
      this.told.push(JSON.parse(text));
      this.wake();
      answer.end();
      return;
    }
    const file = pathname.startsWith("/dist/") ? path.join(HERE, "..", pathname)
      : path.join(HERE, path.basename(pathname));
    try {
      const data = await readFile(file);
      answer.setHeader("Content-Type", TYPES[path.extname(file)] ?? "text/plain");
      answer.end(data);
    } catch {
      answer.statusCode = 404;
      answer.end();
    }
  }

  /** The next thing that a page tells, which must be `kind`. */
  async next(kind) {
    while (this.told.length === 0)
      await within(new Promise((resolve) => { this.wake = resolve; }), kind);
    const told = this.told.shift();
    if (told.kind !== kind)
      throw new Error(`the page told ${JSON.stringify(told)} and not ${kind}`);
    return told;
  }
}

/** Debian's Chromium without a window, on one page. */
export class Browser {
  static async open(url, ...options) {
    const browser = new Browser();
    browser.profile = await mkdtemp(path.join(os.tmpdir(), "fumehood-page-"));
    browser.process = spawn(process.env.CHROMIUM ?? "chromium", [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--disable-extensions", "--remote-debugging-port=0", "--user-data-dir=" + browser.profile,
      ...options, url,
    ], { stdio: ["ignore", "ignore", "pipe"], detached: true,
      env: { ...process.env, HOME: browser.profile, XDG_CONFIG_HOME: browser.profile,
        XDG_CACHE_HOME: browser.profile } });
    browser.ended = once(browser.process, "close");
    browser.process.stderr.on("data", () => undefined);
    return browser;
  }

  async close() {
    try {
      process.kill(-this.process.pid, "SIGKILL"); // its group: it has children of its own
    } catch {
      // it has ended
    }
    await within(this.ended, "the browser's end");
    await rm(this.profile, { recursive: true, force: true, maxRetries: 20 });
  }
}
