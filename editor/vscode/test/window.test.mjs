/**
 * The compiled extension, command by command, in the stand-in for the editor; the servers are the
 * real ones. What answers as the model is a server of OpenAI's interface, with answers of our own.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import * as path from "node:path";

import { cli, Daemon, within } from "../../../sdk/js/test/kit.mjs";
import { fenced, folder, freePort, FUMEHOOD, Model, Service, test, vscode, Window }
  from "./kit.mjs";

test("the original's commands: an instruction of the box, and a selection that is no ASCII",
  async () => {
    const service = await Service.start("print('größer 数')");
    const window = new Window({ endpoint: service.url, maxRetries: 1 });
    await window.run("executeInstruction", "Print it");
    for (const part of ["Instruction:\nPrint it", "Generated code:\n", "print('größer 数')",
      "Output:\n", "\ngrößer 数\n"])
      assert.ok(window.output.includes(part), window.output);
    assert.deepEqual(window.messages("info"), ["Execution Succeeded in 1 attempts!"]);
    window.select(await folder(), "数を出力して 😀");
    await window.run("executeSelection");
    assert.ok(window.output.includes("Instruction:\n数を出力して 😀"));
    assert.equal(window.messages("info").length, 2);
    assert.equal(vscode.told.context.get("slm-code-interpreter.busy"), false);
    window.close();
    await service.close();
  });

test("the original's failure has its words, and what was wrong", async () => {
  const service = await Service.start("1 / 0");
  const window = new Window({ endpoint: service.url + "/", maxRetries: 1 });
  await window.run("executeInstruction", "Divide");
  assert.match(window.output, /Details: Max correction loops reached\.\n.+/);
  assert.equal(window.messages("error").length, 1);
  window.close();
  await service.close();
});

test("without an editor, a selection, or an instruction nothing is asked", async () => {
  const window = new Window();
  await window.run("executeSelection");
  window.select("/tmp", "x");
  vscode.edit(vscode.fileUri("/tmp/a.py"), "x", [0, 0]);
  await window.run("executeSelection");
  await window.run("runSelection");
  await window.run("executeInstruction", undefined);
  await window.run("ask", "  ");
  assert.equal(window.messages("warning").length, 3);
  assert.equal(window.output, "");
  window.close();
});

test("no server: a hint, and with consent the server is started", async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const window = new Window({ endpoint });
  await window.run("executeInstruction", "x");
  assert.match(window.output, /Connection error: nothing listens on .+\nStart the server/);
  window.set({ endpoint, startServer: "ask" });
  vscode.answers.presses = false;
  await window.run("executeInstruction", "x");
  assert.match(window.messages("warning")[0], /is not running. Start it/);
  assert.equal(window.output.match(/Connection error/g).length, 2);
  vscode.answers.presses = true;
  await window.run("executeInstruction", "x"); // it has no model: the service says so
  assert.match(window.output, /The server answered with status 500: Failed to load/);
  window.set({ endpoint, startServer: "always", program: "/no/such/fumehood" });
  await window.run("executeInstruction", "x"); // it runs already
  window.close(); // and ends with the window
  const late = new Window({ endpoint, startServer: "always", program: "/no/such/fumehood" });
  await within((async () => {
    while (!late.output.includes("was not found"))
      await late.run("executeInstruction", "x");
  })(), "the server's end");
  late.close();
});

test("an instruction is cancelled", async () => {
  const model = await Model.start({ hold: "thinking" });
  const daemon = await Daemon.start();
  const window = new Window({ endpoint: "", url: model.url });
  vscode.state.onProgress = (cancel) => { window.stop ??= cancel; };
  const running = window.run("executeInstruction", "x"); // no endpoint: the daemon is asked
  await within((async () => {
    while (!window.output.includes("thinking"))
      await new Promise((resolve) => { setImmediate(resolve); });
  })(), "tokens");
  assert.match(vscode.told.status, /spin.*program \d: the model writes/);
  window.stop();
  await running;
  await within(model.left, "the model's client to go");
  assert.match(window.output, /Cancelled\./);
  assert.deepEqual(window.messages("error"), []);
  const again = window.run("ask", "y");
  await within((async () => {
    while (model.requests.length < 2)
      await new Promise((resolve) => { setImmediate(resolve); });
  })(), "the second ask");
  await window.run("cancel");
  await again;
  assert.equal(window.output.match(/Cancelled\./g).length, 2);
  window.close();
  model.close();
  await cleared(daemon);
});

/** The end of a daemon and of the sessions that it has. */
async function cleared(daemon) {
  await cli("stop", "--all").catch(() => undefined);
  await daemon.stop();
}

test("a selection runs as code, and the folder's session keeps its variables", async () => {
  const daemon = await Daemon.start();
  const place = await folder();
  const window = new Window();
  window.select(place, "    x = 20\n    print('one', flush=True)\n    x + 1");
  await window.run("runSelection");
  assert.ok(window.output.includes(
    ">>> x = 20\n... print('one', flush=True)\n... x + 1\none\n21\n"), window.output);
  const second = new Window(); // as after the window was loaded anew
  second.select(place, "open('made.txt', 'w').write(str(x * 2))\nprint(input('Who? '))");
  await second.run("runSelection", "Ada");
  assert.ok(second.output.includes("Ada\n") && second.output.includes("created made.txt"),
    second.output);
  assert.deepEqual(vscode.answers.prompts, ["Who? "]);
  assert.equal(await readFile(path.join(place, "made.txt"), "utf-8"), "40");
  second.select(place, "print('kept')\n1 / 0");
  await second.run("runSelection");
  assert.ok(second.output.includes("kept\n") && second.output.includes("ZeroDivisionError"));
  assert.deepEqual(second.messages("error"), ["ZeroDivisionError: division by zero"]);
  await second.run("resetSession");
  second.select(place, "print('x' in globals())");
  await second.run("runSelection");
  assert.ok(second.output.endsWith("False\n"), second.output);
  window.close();
  second.close();
  await cleared(daemon);
});

test("images are shown in a page without scripts", async () => {
  const daemon = await Daemon.start();
  const window = new Window();
  await window.run("showImages");
  assert.equal(window.messages("info").length, 1);
  window.select(await folder(), "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()");
  await window.run("runSelection");
  assert.equal(vscode.told.panels.length, 1);
  const { html, options } = vscode.told.panels[0];
  assert.match(html, /<img alt="" src="data:image\/png;base64,iVBOR/);
  assert.equal(options.enableScripts, false);
  assert.match(window.output, /\[image: image\/png\]/);
  await window.run("showImages");
  window.close();
  await cleared(daemon);
});

test("a live ask: tokens, attempts, output; in the folder's session, whose variables it sees",
  async () => {
    const model = await Model.start(fenced("print(undefined_name)"),
      fenced("print('sum', base + 2)"));
    const daemon = await Daemon.start();
    const place = await folder();
    const window = new Window({ url: model.url, effort: "low", maxRetries: 2, model: "any" });
    window.select(place, "base = 40");
    await window.run("runSelection");
    await window.run("ask", "Add 2 to base");
    for (const part of ["--- program 1 ---", "print(undefined_name)", "raised (NameError",
      "--- program 2", "print('sum', base + 2)", "--- prints ---\nsum 42", "Output:\n",
      "Known by: one program ran"])
      assert.ok(window.output.includes(part), window.output);
    assert.deepEqual(window.messages("info"), ["Execution Succeeded in 2 attempts!"]);
    assert.ok(vscode.told.progress.some((text) => /program 2: runs/.test(text)));
    assert.equal(model.requests[0].model, "any");
    assert.ok(JSON.stringify(model.requests[0].messages).includes("Add 2 to base"));
    window.close();
    model.close();
    await cleared(daemon);
  });

test("a folder that is not trusted is not shown to code", async () => {
  const daemon = await Daemon.start();
  const place = await folder();
  const window = new Window();
  window.select(place, "open('made.txt', 'w').write('1')\nimport os; print(os.listdir('.'))");
  vscode.state.trusted = false;
  await window.run("runSelection");
  assert.ok(window.output.includes("['made.txt']"), window.output);
  await assert.rejects(readFile(path.join(place, "made.txt")));
  window.close();
  await cleared(daemon);
});

test("the daemon's token is in the secret storage, and is used", async () => {
  const daemon = await Daemon.start();
  const window = new Window({ daemon: daemon.url });
  await window.run("setToken", "no such token");
  window.select(await folder(), "print('there')");
  await window.run("runSelection");
  assert.match(window.output, /Error \[unauthorized\]/);
  await window.run("setToken", daemon.token);
  assert.equal(window.context.secrets && vscode.state.secrets.size, 1);
  await window.run("runSelection");
  assert.ok(window.output.includes("\nthere\n"), window.output);
  await window.run("setToken", "");
  assert.equal(vscode.state.secrets.size, 0);
  window.close();
  await cleared(daemon);
});

test("the daemon is started when it is not there; one elsewhere is not", async () => {
  const window = new Window({ startServer: "always", program: FUMEHOOD });
  window.select(await folder(), "print('started')");
  await window.run("runSelection");
  assert.ok(window.output.includes("Starting ") && window.output.includes("\nstarted\n"),
    window.output);
  await cli("stop", "--all").catch(() => undefined);
  window.set({ startServer: "always", daemon: "http://192.0.2.1:9" });
  window.close();
});
