/**
 * The settings, read when they are needed, and the token, which is in the editor's secret storage
 * and in no file. What names a server or a program has the scope `machine` (package.json): the
 * settings of a folder that somebody else has made cannot choose what is started or asked.
 */
import * as vscode from "vscode";

export const SECTION = "slm-code-interpreter";
const TOKEN = "daemon-token";

export interface Settings {
  /** The base URL of the original's service, without a slash at its end; "": none. */
  endpoint: string;
  /** The daemon's address; undefined: the usual socket. */
  daemon: string | undefined;
  program: string;
  startServer: "ask" | "always" | "never";
  maxRetries: number;
  model: string | undefined;
  url: string | undefined;
  effort: "low" | "medium" | "high";
  runTimeout: number;
  workspace: "rw" | "ro" | "overlay" | "none";
}

export function settings(scope?: vscode.Uri): Settings {
  const found = vscode.workspace.getConfiguration(SECTION, scope);
  const text = (key: string): string => String(found.get(key) ?? "").trim();
  return {
    endpoint: text("endpoint").replace(/\/+$/, ""),
    daemon: text("daemon") || undefined,
    program: text("program") || "fumehood",
    startServer: found.get("startServer", "ask"),
    maxRetries: found.get("maxRetries", 3),
    model: text("model") || undefined,
    url: text("url") || undefined,
    effort: found.get("effort", "medium"),
    runTimeout: found.get("runTimeout", 300),
    workspace: found.get("workspace", "rw"),
  };
}

/** The daemon's token. */
export class Token {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  async get(): Promise<string | undefined> {
    return await this.secrets.get(TOKEN) || undefined;
  }

  /** Asks for it; an empty text forgets it. */
  async set(): Promise<void> {
    const text = await vscode.window.showInputBox({
      title: "SLM Code Interpreter", password: true, ignoreFocusOut: true,
      prompt: "The daemon's token (`fumehood token create`). Empty: forget it.",
    });
    if (text === undefined)
      return;
    if (text.trim() === "")
      await this.secrets.delete(TOKEN);
    else
      await this.secrets.store(TOKEN, text.trim());
    void vscode.window.showInformationMessage(
      text.trim() === "" ? "The daemon's token is forgotten." : "The daemon's token is kept.");
  }
}
