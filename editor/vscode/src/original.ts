/**
 * The original's two commands: an instruction goes to the local service (POST /execute), and what
 * came of it to the output channel. With no service, or none that can be started, the daemon is
 * asked.
 */
import * as vscode from "vscode";

import { Cancelled } from "./activity";
import type { Context } from "./context";
import { ask } from "./live";
import { NoServer, request } from "./http";
import type { Answer } from "./http";
import * as report from "./report";
import { serviceWords } from "./server";
import { settings } from "./settings";

const STATUS_MS = 5000;

/** The text of all selections; undefined: there is none, which was told. */
export function selected(): { text: string; editor: vscode.TextEditor } | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    void vscode.window.showWarningMessage("No active editor found.");
    return undefined;
  }
  const text = editor.selections.filter((selection) => !selection.isEmpty)
    .map((selection) => editor.document.getText(selection)).join("\n");
  if (text.trim() === "") {
    void vscode.window.showWarningMessage("No text is selected.");
    return undefined;
  }
  return { text, editor };
}

/** Whether the service answers. */
export async function answers(endpoint: string, signal?: AbortSignal): Promise<boolean> {
  try {
    const answer = await request("GET", endpoint + "/status", { timeout: STATUS_MS, signal });
    return answer.status === 200;
  } catch {
    return false;
  }
}

export function service(endpoint: string): import("./server").Wanted {
  return { what: `The service on ${endpoint}`, words: serviceWords(endpoint),
    ready: (signal) => answers(endpoint, signal) };
}

async function post(context: Context, endpoint: string, instruction: string, signal: AbortSignal
): Promise<Answer> {
  const body = { instruction, max_retries: settings().maxRetries, details: true };
  try {
    return await request("POST", endpoint + "/execute", { body, signal });
  } catch (error) {
    if (!(error instanceof NoServer) || !await context.servers.offer(service(endpoint), signal))
      throw error;
    return request("POST", endpoint + "/execute", { body, signal });
  }
}

/** Has a program written and run for the instruction. */
export async function execute(context: Context, instruction: string): Promise<void> {
  const { endpoint } = settings();
  if (endpoint === "") {
    await ask(context, instruction);
    return;
  }
  const { channel } = context;
  channel.show(true);
  channel.append(report.started(instruction, new Date()));
  try {
    const answer = await context.activities.run("SLM Code Interpreter: writing and running code",
      (signal) => post(context, endpoint, instruction, signal));
    finish(context, answer);
  } catch (error) {
    failed(context, endpoint, error);
  }
}

function finish({ channel }: Context, answer: Answer): void {
  if (answer.status !== 200) {
    channel.append(report.refused(answer.status, answer.text));
    void vscode.window.showErrorMessage(report.refused(answer.status, answer.text).trim());
    return;
  }
  const outcome = report.readOutcome(answer.text);
  channel.append(report.outcomeText(outcome));
  if (outcome.success)
    void vscode.window.showInformationMessage(report.succeeded(outcome.attempts));
  else
    void vscode.window.showErrorMessage(
      `Execution failed: ${outcome.message ?? outcome.stderr}`.slice(0, 300));
}

function failed({ channel }: Context, endpoint: string, error: unknown): void {
  if (error instanceof Cancelled) {
    channel.appendLine("Cancelled.");
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  channel.appendLine(`Connection error: ${text}`);
  if (error instanceof NoServer)
    channel.appendLine(`Start the server: fumehood slm (or the command "Start the Server"). `
      + `Looked for at ${endpoint}.`);
  void vscode.window.showErrorMessage(`SLM Code Interpreter: ${text}`);
}
