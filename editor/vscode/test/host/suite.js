/**
 * Runs in the extension host of a real VS Code (host.py), beside the extension as it was packaged.
 * Each step tells what it has found, one JSON object a line, to the socket in FUMEHOOD_VSCODE_TOLD.
 */
const net = require("node:net");
const vscode = require("vscode");

const PREFIX = "slm-code-interpreter.";
const WAIT_MS = 120_000;

/** The output channel's text; it is a document while it is shown. */
function output() {
  const found = vscode.workspace.textDocuments.find((one) => one.uri.scheme === "output"
    && one.uri.path.includes("SLM Code Interpreter"));
  return found === undefined ? "" : found.getText();
}

/** Waits for changes of documents until the output has this. */
async function until(text) {
  const end = Date.now() + WAIT_MS;
  while (!output().includes(text)) {
    if (Date.now() > end)
      throw new Error(`waited in vain for ${text}; there is ${output()}`);
    await new Promise((resolve) => {
      const heard = vscode.workspace.onDidChangeTextDocument(done);
      const timer = setTimeout(done, 1000);
      function done() {
        clearTimeout(timer);
        heard.dispose();
        resolve();
      }
    });
  }
}

async function select(name, text) {
  const folder = vscode.workspace.workspaceFolders[0].uri;
  const uri = vscode.Uri.joinPath(folder, name);
  await vscode.workspace.fs.writeFile(uri, Buffer.from(text));
  const editor = await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri));
  const end = editor.document.positionAt(text.length);
  editor.selection = new vscode.Selection(new vscode.Position(0, 0), end);
}

const STEPS = {
  async commands() {
    const extension = vscode.extensions.getExtension("fumehood.slm-code-interpreter-vscode");
    await extension.activate();
    const all = await vscode.commands.getCommands(true);
    return { version: vscode.version, trusted: vscode.workspace.isTrusted,
      commands: all.filter((name) => name.startsWith(PREFIX)).sort() };
  },

  async selection() {
    await select("a.py", "x = 20\nopen('made.txt', 'w').write('of the code')\nprint('ran', x + 22)\n");
    await vscode.commands.executeCommand(PREFIX + "runSelection");
    await until("ran 42");
    await select("b.py", "import matplotlib.pyplot as plt\nplt.plot([x, 1])\nplt.show()\n");
    await vscode.commands.executeCommand(PREFIX + "runSelection");
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    return { panels: tabs.filter((tab) => tab.input instanceof vscode.TabInputWebview)
      .map((tab) => tab.label) };
  },

  async original() {
    await select("c.txt", "数を出力して");
    await vscode.commands.executeCommand(PREFIX + "executeSelection");
    await until("of the service");
    return { output: output() };
  },
};

exports.run = async () => {
  const socket = net.connect(process.env.FUMEHOOD_VSCODE_TOLD);
  const tell = (told) => socket.write(JSON.stringify(told) + "\n");
  for (const [step, run] of Object.entries(STEPS)) {
    try {
      tell({ step, ...await run() });
    } catch (error) {
      tell({ step, error: String(error.stack) });
    }
  }
  await new Promise((resolve) => { socket.end(resolve); });
};
