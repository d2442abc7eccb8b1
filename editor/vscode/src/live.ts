/**
 * An ask with its attempts live: tokens as the model writes them, programs as they run, in the
 * session of the folder, whose variables and files they see.
 */
import * as vscode from "vscode";
import { FumehoodError } from "fumehood";
import type { AskAnswer, Session } from "fumehood";

import { Cancelled } from "./activity";
import type { Context } from "./context";
import { picturesOf } from "./images";
import type { Picture } from "./images";
import * as report from "./report";
import { settings } from "./settings";

/** Has a model write programs for the instruction, and shows it. */
export async function ask(context: Context, instruction: string, uri?: vscode.Uri): Promise<void> {
  const { channel } = context;
  channel.show(true);
  channel.append(report.started(instruction, new Date()));
  try {
    const answer = await context.activities.run("SLM Code Interpreter: asking", (signal, tell) =>
      context.folders.use(uri, signal, async (session) => {
        const found = await follow(context, session, instruction, signal, tell);
        context.images.show("Images of the answer", await pictures(session, found));
        return found;
      }));
    channel.append(report.answerText(answer));
    if (answer.success)
      void vscode.window.showInformationMessage(report.succeeded(answer.attempts));
    else
      void vscode.window.showErrorMessage(`Execution failed: ${answer.text}`.slice(0, 300));
  } catch (error) {
    told(context, error);
  }
}

async function follow({ channel }: Context, session: Session, instruction: string,
  signal: AbortSignal, tell: (text: string) => void): Promise<AskAnswer> {
  const { model, url, effort, maxRetries } = settings();
  const transcript = new report.Transcript();
  const under = session.startAsk(instruction, {
    model, url, effort, programs: maxRetries, signal });
  for await (const line of under) {
    const text = transcript.take(line);
    if (text !== "")
      channel.append(text);
    const progress = report.progress(line);
    if (progress !== null)
      tell(progress);
  }
  return under.result();
}

/** The images that the chosen program has shown in the session. */
async function pictures(session: Session, answer: AskAnswer): Promise<Picture[]> {
  const found: Picture[] = [];
  if (answer.cell !== null)
    for await (const event of session.events({ cell: answer.cell }))
      found.push(...picturesOf(event));
  return found;
}

/** Tells of what kept a command from its end. */
export function told({ channel }: Context, error: unknown): void {
  if (error instanceof Cancelled) {
    channel.appendLine("\nCancelled.");
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof FumehoodError ? ` [${error.code}]` : "";
  channel.appendLine(`\nError${code}: ${text}`);
  void vscode.window.showErrorMessage(`SLM Code Interpreter: ${text}`);
}
