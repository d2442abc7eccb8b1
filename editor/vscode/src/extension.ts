/**
 * SLM Code Interpreter for VS Code: the original's two commands against its local service, and live
 * asks and code of one's own in a sandboxed session of Fumehood's daemon. It speaks HTTP only;
 * nothing is executed in the editor.
 */
import * as vscode from "vscode";

import { Activities } from "./activity";
import { resetSession, runSelection } from "./code";
import type { Context } from "./context";
import { daemonWanted, Folders } from "./folders";
import { ImagePanel } from "./images";
import { ask, told } from "./live";
import { execute, selected, service } from "./original";
import { Servers } from "./server";
import type { Wanted } from "./server";
import { SECTION, settings, Token } from "./settings";

async function instruction(title: string): Promise<string | undefined> {
  const text = await vscode.window.showInputBox({
    title, ignoreFocusOut: true, prompt: "What should be written and run?",
    placeHolder: "Which month had the highest revenue in sales.csv?",
  });
  return text?.trim() ? text : undefined;
}

async function startServer(context: Context): Promise<void> {
  const { endpoint, daemon, program } = settings();
  const wanted: Wanted[] = [daemonWanted(daemon)];
  if (endpoint !== "")
    wanted.unshift(service(endpoint));
  for (const one of wanted) {
    try {
      await context.activities.run(`SLM Code Interpreter: starting ${one.what}`, async (signal) => {
        if (await one.ready(signal))
          context.channel.appendLine(`${one.what} runs already.`);
        else
          await context.servers.start(program, one, signal);
      });
    } catch (error) {
      told(context, error);
    }
  }
}

function commands(context: Context, token: Token): Record<string, () => unknown> {
  return {
    executeSelection: async () => {
      const found = selected();
      if (found !== undefined)
        await execute(context, found.text);
    },
    executeInstruction: async () => {
      const text = await instruction("Ask Agent to Write & Run");
      if (text !== undefined)
        await execute(context, text);
    },
    ask: async () => {
      const text = await instruction("Ask with live attempts");
      if (text !== undefined)
        await ask(context, text, vscode.window.activeTextEditor?.document.uri);
    },
    runSelection: () => runSelection(context),
    resetSession: () => resetSession(context),
    cancel: () => context.activities.cancel(),
    showImages: () => context.images.again(),
    showOutput: () => context.channel.show(true),
    startServer: () => startServer(context),
    setToken: async () => {
      await token.set();
      context.folders.forget();
    },
  };
}

export function activate(extension: vscode.ExtensionContext): void {
  const channel = vscode.window.createOutputChannel("SLM Code Interpreter");
  const servers = new Servers(channel);
  const token = new Token(extension.secrets);
  const context: Context = {
    channel, servers, activities: new Activities(), images: new ImagePanel(),
    folders: new Folders(servers, token),
  };
  extension.subscriptions.push(context.activities, servers, context.images, channel,
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(SECTION))
        context.folders.forget();
    }));
  for (const [name, run] of Object.entries(commands(context, token)))
    extension.subscriptions.push(vscode.commands.registerCommand(`${SECTION}.${name}`, run));
}

export function deactivate(): void {
  // what runs ends with the subscriptions
}
