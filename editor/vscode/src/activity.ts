/**
 * What is under way: each has a notification that can be cancelled, the status bar shows the
 * newest, and the command Cancel ends them all.
 */
import * as vscode from "vscode";

import { SECTION } from "./settings";

const IDLE = "$(beaker) SLM";

/** It was cancelled, by whom it was begun for. */
export class Cancelled extends Error {
  constructor() {
    super("cancelled");
  }
}

export class Activities implements vscode.Disposable {
  private readonly running = new Map<AbortController, string>();
  private readonly item: vscode.StatusBarItem;

  constructor() {
    this.item = vscode.window.createStatusBarItem(
      "slm-code-interpreter", vscode.StatusBarAlignment.Right, 100);
    this.item.name = "SLM Code Interpreter";
    this.draw();
    this.item.show();
  }

  /** Does something, and shows that it is done. Rejects with Cancelled when it was cancelled. */
  async run<T>(title: string,
    work: (signal: AbortSignal, tell: (text: string) => void) => Promise<T>): Promise<T> {
    const control = new AbortController();
    return vscode.window.withProgress({
      location: vscode.ProgressLocation.Notification, title, cancellable: true,
    }, async (progress, token) => {
      const stop = (): void => control.abort(new Cancelled());
      const heard = token.onCancellationRequested(stop);
      if (token.isCancellationRequested)
        stop();
      this.running.set(control, title);
      this.draw();
      try {
        return await work(control.signal, (text) => {
          progress.report({ message: text });
          this.running.set(control, text);
          this.draw();
        });
      } finally {
        heard.dispose();
        this.running.delete(control);
        this.draw();
      }
    });
  }

  cancel(): void {
    for (const control of this.running.keys())
      control.abort(new Cancelled());
  }

  private draw(): void {
    const newest = [...this.running.values()].pop();
    this.item.text = newest === undefined ? IDLE : `$(sync~spin) SLM: ${newest}`;
    this.item.tooltip = newest === undefined ? "SLM Code Interpreter: show the output"
      : "SLM Code Interpreter: cancel";
    this.item.command = newest === undefined ? SECTION + ".showOutput" : SECTION + ".cancel";
    void vscode.commands.executeCommand("setContext", SECTION + ".busy", newest !== undefined);
  }

  dispose(): void {
    this.cancel();
    this.item.dispose();
  }
}
