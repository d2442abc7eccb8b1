/**
 * One session for each folder of the workspace, with a daemon: its variables stay from selection to
 * selection, also when the window is loaded anew. Its name is made of the folder's path, so the
 * command line sees it too: `fumehood log vscode-…`.
 */
import { createHash } from "node:crypto";
import * as path from "node:path";
import * as vscode from "vscode";
import { NotFoundError, Session } from "fumehood";

import { daemonWords, listens } from "./server";
import type { Servers, Wanted } from "./server";
import { settings } from "./settings";
import type { Token } from "./settings";

/** The name of a folder's session. */
export function nameOf(folder: string): string {
  const base = path.basename(folder).replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 40);
  const hash = createHash("sha256").update(folder).digest("hex").slice(0, 8);
  return `vscode-${base ? base + "-" : ""}${hash}`;
}

/** The daemon that these settings mean. */
export function daemonWanted(address: string | undefined): Wanted {
  const url = address !== undefined && URL.canParse(address) ? new URL(address) : null;
  const runtime = process.env.XDG_RUNTIME_DIR ? path.join(process.env.XDG_RUNTIME_DIR, "fumehood")
    : `/tmp/fumehood-${process.getuid?.() ?? 0}`;
  const where = url?.protocol.startsWith("http")
    ? { host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port) || (url.protocol === "https:" ? 443 : 80) }
    : { path: address?.replace(/^unix:/, "") || path.join(runtime, "api.sock") };
  return { what: address === undefined ? "The daemon" : `The daemon ${address}`,
    words: daemonWords(address), ready: () => listens(where) };
}

export class Folders {
  private readonly sessions = new Map<string, Promise<Session>>();

  constructor(private readonly servers: Servers, private readonly token: Token) {}

  /** A daemon that is away is started, if that is wanted. */
  private async here(signal: AbortSignal): Promise<void> {
    const wanted = daemonWanted(settings().daemon);
    if (!await wanted.ready(signal))
      await this.servers.offer(wanted, signal);
  }

  /** The session of a file's folder, or of the window. */
  private session(uri: vscode.Uri | undefined): Promise<Session> {
    const folder = (uri && vscode.workspace.getWorkspaceFolder(uri))
      ?? vscode.workspace.workspaceFolders?.[0];
    const place = folder?.uri.scheme === "file" ? folder.uri.fsPath : undefined;
    const key = place ?? "";
    const known = this.sessions.get(key);
    if (known !== undefined)
      return known;
    const made = this.open(place, folder?.uri);
    this.sessions.set(key, made);
    made.catch(() => this.sessions.delete(key));
    return made;
  }

  private async open(place: string | undefined, scope: vscode.Uri | undefined): Promise<Session> {
    const { workspace, runTimeout, daemon } = settings(scope);
    // A daemon elsewhere has not this folder, and one on a port is told no path of this machine.
    const shown = place !== undefined && workspace !== "none" && vscode.workspace.isTrusted
      && !/^https?:/.test(daemon ?? "");
    return Session.start({
      daemon, token: await this.token.get(), name: nameOf(place ?? "window"), timeout: runTimeout,
      ...(shown ? { workspace: place, workspaceMode: workspace as "rw" | "ro" | "overlay" } : {}),
    });
  }

  /** Does something with a folder's session. One that has been removed is made again; what was
   * begun in one that answers is never begun twice. */
  async use<T>(uri: vscode.Uri | undefined, signal: AbortSignal,
    work: (session: Session) => Promise<T>): Promise<T> {
    await this.here(signal);
    const session = await this.session(uri);
    try {
      return await work(session);
    } catch (error) {
      if (!(error instanceof NotFoundError && error.status === 404) || signal.aborted)
        throw error;
      this.sessions.clear();
      return work(await this.session(uri));
    }
  }

  /** Other settings: sessions are looked for anew. */
  forget(): void {
    this.sessions.clear();
  }
}
