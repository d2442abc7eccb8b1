/**
 * What the tests share: the compiled extension in the stand-in for the editor, the original's
 * service, a model's server, and the daemon of the SDK's tests.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, writeFile } from "node:fs/promises";
import * as http from "node:http";
import Module, { createRequire } from "node:module";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import * as node from "node:test";

import { within } from "../../../sdk/js/test/kit.mjs";

/** For a broken product: a command has to wait for a session, a model and programs. */
const COMMAND_MS = 90_000;

const require = createRequire(import.meta.url);
export const FUMEHOOD = process.env.FUMEHOOD ?? "fumehood";
export const vscode = require("../dist/test/stand_in.cjs");

const load = Module._load;
Module._load = function loadOrStandIn(request, ...rest) {
  return request === "vscode" ? vscode.api : load.call(this, request, ...rest);
};
const extension = require("../dist/extension.js");

const DEFAULTS = Object.fromEntries(
  Object.entries(require("../package.json").contributes.configuration.properties)
    .map(([key, item]) => [key.replace("slm-code-interpreter.", ""), item.default]));

const open = new Set();

/** A test, at whose end windows and servers end, however it ends. */
export function test(name, body) {
  return node.test(name, { timeout: 3 * COMMAND_MS }, async () => {
    try {
      await body();
    } finally {
      for (const one of [...open])
        await one.close();
    }
  });
}

/** The extension, active with these settings. */
export class Window {
  constructor(settings = {}) {
    this.set(settings);
    Object.assign(vscode.told, { output: "", messages: [], progress: [], panels: [], status: "" });
    Object.assign(vscode.answers, { inputs: [], prompts: [], presses: true });
    Object.assign(vscode.state, { editor: undefined, folders: undefined, trusted: true,
      onProgress: undefined });
    open.add(this);
    this.context = vscode.extensionContext();
    extension.activate(this.context);
  }

  set(settings) {
    vscode.change({ ...DEFAULTS, program: FUMEHOOD, startServer: "never", ...settings });
  }

  get output() {
    return vscode.told.output;
  }

  messages(kind) {
    return vscode.told.messages.filter((one) => one.kind === kind).map((one) => one.text);
  }

  /** A command, to its end. */
  run(name, ...inputs) {
    vscode.answers.inputs = inputs;
    return within(Promise.resolve(vscode.state.commands.get("slm-code-interpreter." + name)()),
      name, COMMAND_MS);
  }

  /** An editor on a file of a folder, with all of its text selected. */
  select(folder, text) {
    vscode.state.folders = [{ uri: vscode.fileUri(folder), name: "f", index: 0 }];
    vscode.edit(vscode.fileUri(path.join(folder, "a.py")), text, [0, text.length]);
  }

  close() {
    open.delete(this);
    for (const one of this.context.subscriptions)
      one.dispose();
    extension.deactivate();
  }
}

export function folder() {
  return mkdtemp(path.join(process.env.FUMEHOOD_TEST_FOLDER ?? os.tmpdir(), "vscode-"));
}

export function fenced(code) {
  return "```python\n" + code + "\n```\n";
}

/** A `fumehood slm` whose model's answers come from a file. */
export class Service {
  static async start(...answers) {
    const service = new Service();
    open.add(service);
    const file = path.join(await folder(), "answers.ndjson");
    await writeFile(file, answers.map((code) => JSON.stringify({ text: fenced(code) }) + "\n")
      .join(""));
    service.process = spawn(FUMEHOOD, ["slm", "--port", "0", "--script", file],
      { stdio: ["ignore", "pipe", "inherit"] });
    service.ended = once(service.process, "close");
    let said = "";
    service.process.stdout.on("data", (data) => { said += data; });
    await within((async () => {
      while (!said.includes("\n"))
        await Promise.race([once(service.process.stdout, "data"), service.ended]);
    })(), "the service");
    service.url = /http:\S+/.exec(said)[0];
    return service;
  }

  async close() {
    open.delete(this);
    this.process.kill();
    await within(this.ended, "the service's end");
  }
}

/**
 * A server as OpenAI's, with an answer for each request in turn. `hold`: it begins to answer and
 * never ends; `left` resolves when its client goes.
 */
export class Model {
  static async start(...answers) {
    const model = new Model();
    open.add(model);
    model.requests = [];
    model.left = new Promise((resolve) => { model.leave = resolve; });
    model.server = http.createServer((request, answer) => model.serve(request, answer, answers));
    model.server.listen(0, "127.0.0.1");
    await once(model.server, "listening");
    model.url = `http://127.0.0.1:${model.server.address().port}/v1`;
    return model;
  }

  async serve(request, answer, answers) {
    let text = "";
    for await (const piece of request)
      text += piece;
    if (!request.url.endsWith("/chat/completions")) {
      answer.statusCode = request.url.endsWith("/models") ? 200 : 404;
      answer.end(JSON.stringify({ object: "list", data: [{ id: "any", object: "model" }] }));
      return;
    }
    this.requests.push(JSON.parse(text));
    const next = answers.length > 1 ? answers.shift() : answers[0];
    answer.on("close", () => this.leave());
    answer.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (delta, finish = null) => answer.write("data: " + JSON.stringify({
      choices: [{ index: 0, delta, finish_reason: finish }] }) + "\n\n");
    for (const piece of (next.hold ?? next).match(/[^]{1,7}/g))
      send({ content: piece });
    if (next.hold !== undefined)
      return;
    send({}, "stop");
    answer.end("data: [DONE]\n\n");
  }

  close() {
    open.delete(this);
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** A port on which nobody listens. */
export async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
