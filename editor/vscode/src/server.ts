/**
 * Servers on this machine: the original's service (`fumehood slm`) and the daemon (`fumehood
 * serve`), started when they are needed and not there. What was started here ends with the window;
 * the sessions of a daemon live on.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import * as net from "node:net";
import * as vscode from "vscode";

import { settings } from "./settings";

const READY_MS = 60_000;
const POLL_MS = 100;
const SAID_MAX = 2000;
const LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"];

export interface Wanted {
  /** "the service on …", for messages. */
  what: string;
  /** The arguments of `fumehood`; null: it cannot be started from here. */
  words: string[] | null;
  /** Whether it answers. */
  ready: (signal: AbortSignal) => Promise<boolean>;
}

/** What would start the service at this address. */
export function serviceWords(endpoint: string): string[] | null {
  try {
    const url = new URL(endpoint);
    return url.protocol === "http:" && LOOPBACK.includes(url.hostname)
      ? ["slm", "--port", url.port || "80"] : null;
  } catch {
    return null;
  }
}

/** What would start the daemon at this address; undefined: the usual socket. */
export function daemonWords(address: string | undefined): string[] | null {
  if (address === undefined)
    return ["serve"];
  if (address.startsWith("/") || address.startsWith("unix:"))
    return null; // its place was chosen by who has started it
  const url = URL.canParse(address) ? new URL(address) : null;
  return url?.protocol === "http:" && LOOPBACK.includes(url.hostname)
    ? ["serve", "--listen", `${url.hostname}:${url.port || "80"}`] : null;
}

/** Whether something accepts connections. */
export function listens(where: net.NetConnectOpts): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(where);
    const end = (found: boolean) => () => {
      socket.destroy();
      resolve(found);
    };
    socket.setTimeout(2000, end(false));
    socket.once("connect", end(true)).once("error", end(false));
  });
}

export class Servers implements vscode.Disposable {
  private readonly children = new Set<ChildProcess>();

  constructor(private readonly channel: vscode.OutputChannel) {}

  /** Starts it, if that is wanted; whether it runs now. */
  async offer(wanted: Wanted, signal: AbortSignal): Promise<boolean> {
    const { startServer, program } = settings();
    if (wanted.words === null || startServer === "never")
      return false;
    if (startServer === "ask") {
      const choice = await vscode.window.showWarningMessage(
        `${wanted.what} is not running. Start it (${program} ${wanted.words.join(" ")})?`, "Start");
      if (choice !== "Start" || signal.aborted)
        return false;
    }
    await this.start(program, wanted, signal);
    return true;
  }

  /** Starts it, and waits until it answers. Rejects with what it said when it does not. */
  async start(program: string, wanted: Wanted, signal: AbortSignal): Promise<void> {
    if (wanted.words === null)
      throw new Error(`${wanted.what} cannot be started from here`);
    this.channel.appendLine(`Starting ${program} ${wanted.words.join(" ")}`);
    const child = spawn(program, wanted.words, { stdio: ["ignore", "pipe", "pipe"] });
    this.children.add(child);
    let said = "";
    let ended: string | null = null;
    const hear = (data: Buffer): void => {
      said = (said + data.toString("utf-8")).slice(-SAID_MAX);
      this.channel.append(data.toString("utf-8"));
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("error", (error: NodeJS.ErrnoException) => {
      ended = error.code === "ENOENT"
        ? `the program ${program} was not found: set slm-code-interpreter.program to its path`
        : error.message;
      this.children.delete(child);
    });
    child.on("close", (status, sig) => {
      ended ??= `it ended with ${sig ?? `status ${status}`}: ${said.trim()}`;
      this.children.delete(child);
    });
    const until = Date.now() + READY_MS;
    while (!await wanted.ready(signal)) {
      if (ended !== null)
        throw new Error(`${wanted.what} did not start: ${ended as string}`);
      if (signal.aborted || Date.now() > until) {
        child.kill();
        throw signal.aborted ? signal.reason
          : new Error(`${wanted.what} did not answer within ${READY_MS / 1000} s`);
      }
      await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
    }
  }

  dispose(): void {
    for (const child of this.children)
      child.kill();
  }
}
