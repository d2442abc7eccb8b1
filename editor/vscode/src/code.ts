/** A selection as code, in the session of its folder. */
import * as vscode from "vscode";
import type { Output, Result } from "fumehood";

import type { Context } from "./context";
import { told } from "./live";
import { selected } from "./original";
import * as report from "./report";

/** What of an output is not written as it comes. */
function later(output: Output): string {
  return output.kind === "stdout" || output.kind === "stderr" ? ""
    : output.images.length > 0 ? `[image: ${output.images[0]!.mime}]\n` : output.text + "\n";
}

function answer(prompt: string, password: boolean): Promise<string | null> {
  return Promise.resolve(vscode.window.showInputBox({
    title: "The program asks", prompt: prompt || "input()", password, ignoreFocusOut: true,
  })).then((text) => text ?? null);
}

/** Runs the selection; its output is written as it comes. */
export async function runSelection(context: Context): Promise<void> {
  const found = selected();
  if (found === undefined)
    return;
  const { channel } = context;
  const code = report.dedent(found.text);
  const uri = found.editor.document.uri;
  channel.show(true);
  channel.append(`\n>>> ${code.trimEnd().split("\n").join("\n... ")}\n`);
  try {
    const result = await context.activities.run("SLM Code Interpreter: running the selection",
      (signal) => context.folders.use(uri, signal, (session) => session.run(code, {
        signal, input: answer, maxChars: 0,
        onStdout: (text) => channel.append(text), onStderr: (text) => channel.append(text),
        onOutput: (output) => channel.append(later(output)),
      })));
    finish(context, result);
  } catch (error) {
    told(context, error);
  }
}

function finish({ channel, images }: Context, result: Result): void {
  if (!result.ok && result.status !== "error")
    channel.appendLine(`The code ended as ${result.status}${
      result.reason ? ` (${result.reason})` : ""}.`);
  if (!result.ok) {
    const error = result.error;
    void vscode.window.showErrorMessage(error ? `${error.name}: ${error.value}`.slice(0, 300)
      : `The code ended as ${result.status}.`);
  }
  for (const file of result.files)
    channel.appendLine(`${file.change} ${file.path}`);
  images.show("Images of the selection", result.images);
}

/** Lets the variables of the folder's session go. */
export async function resetSession(context: Context): Promise<void> {
  try {
    await context.activities.run("SLM Code Interpreter: emptying the session", (signal) =>
      context.folders.use(vscode.window.activeTextEditor?.document.uri, signal,
        (session) => session.reset()));
    context.channel.appendLine("The session is empty: its variables are gone.");
  } catch (error) {
    told(context, error);
  }
}
