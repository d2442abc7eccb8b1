/**
 * The files of a session's workspace, from outside.
 *
 * Paths are relative to the workspace; `/workspace/…` as the session sees it will do, too. A name
 * that is no UTF-8 is given, and told, as its bytes. No symlink is followed, whoever put it there.
 * A file that is written gets its name at once and whole.
 */
import { query } from "./address.js";
import { UsageError } from "./errors.js";
import { fromBase64 } from "./events.js";
import type { Session } from "./session.js";

/** A path in the workspace: text, or its bytes. */
export type Path = string | Uint8Array;

/** What is in a folder of the workspace. */
export interface Entry {
  name: string;
  /** Its bytes, when the name is no UTF-8. */
  raw?: Uint8Array;
  type: "file" | "folder" | "link" | "other";
  bytes: number;
  mode: number;
  modified: string;
}

export interface ReadOptions {
  /** Bytes to begin at, and how many: all when absent. */
  offset?: number;
  length?: number;
  signal?: AbortSignal;
}

export type Source = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

/** Names of bytes as parts of a URL; "" for the workspace itself. */
export function encodePath(path: Path): string {
  const bytes = typeof path === "string" ? new TextEncoder().encode(path) : path;
  let text = "";
  for (const byte of bytes)
    text += /[A-Za-z0-9._~/-]/.test(String.fromCharCode(byte))
      ? String.fromCharCode(byte) : "%" + byte.toString(16).toUpperCase().padStart(2, "0");
  text = text.replace(/^(\.\/+)+/, "").replace(/^\/(workspace|mnt\/data)(\/+|$)/, "")
    .replace(/\/+$/, "");
  if (text === "." || text === "")
    return "";
  // A URL takes these away before anyone sees them; and the daemon refuses what is left.
  if (text.split("/").some((name) => name === "" || name === "." || name === ".."))
    throw new UsageError(`a path of the workspace has no empty name, no "." and no "..": ${text}`);
  return text;
}

function named(path: Path): string {
  const text = encodePath(path);
  if (text === "")
    throw new UsageError("that is no path of a file in the workspace");
  return "/files/" + text;
}

function readEntry(item: Record<string, unknown>): Entry {
  const raw = typeof item.name_base64 === "string" ? fromBase64(item.name_base64) : null;
  return {
    name: raw ? new TextDecoder().decode(raw) : String(item.name),
    ...(raw ? { raw } : {}),
    type: item.type as Entry["type"], bytes: Number(item.bytes ?? 0), mode: Number(item.mode ?? 0),
    modified: String(item.modified ?? ""),
  };
}

/** session.files */
export class Files {
  constructor(private readonly session: Session) {}

  /** What is in a folder, by name. */
  async list(path: Path = ""): Promise<Entry[]> {
    const folder = encodePath(path);
    const found: Entry[] = [];
    for (;;) {
      const last = found.at(-1);
      const after = last && (last.raw ? encodePath(last.raw) : encodeURIComponent(last.name));
      const answer = await this.session.getJson<{ entries: Record<string, unknown>[];
        more?: boolean }>(`/files${folder && `/${folder}/`}?max=1000`
        + (after === undefined ? "" : "&after=" + after));
      found.push(...answer.entries.map(readEntry));
      if (!answer.more || answer.entries.length === 0)
        return found;
    }
  }

  /** The content of a file, or a part of it. */
  async get(path: Path, options?: ReadOptions): Promise<Uint8Array> {
    return this.session.daemon.bytes(await this.open(path, options));
  }

  /** The content of a file as text. */
  async text(path: Path): Promise<string> {
    return new TextDecoder().decode(await this.get(path));
  }

  /** The content of a file as it comes: `body` of the Response. */
  open(path: Path, options: ReadOptions = {}): Promise<Response> {
    const { offset = 0, length, signal } = options;
    const part = offset > 0 || length !== undefined;
    if (length !== undefined && !(length > 0))
      throw new UsageError("length is more than 0 bytes");
    const end = length === undefined ? "" : String(offset + length - 1);
    return this.session.get(named(path), {
      signal, headers: { Accept: "*/*", ...(part ? { Range: `bytes=${offset}-${end}` } : {}) },
    });
  }

  /**
   * Writes a file, whole or not at all; folders above it must be there. `mode`: as of chmod.
   * Browsers send no ReadableStream over HTTP/1.1; a Blob or File is read from the disk as it goes.
   */
  async put(path: Path, data: Source, options: { mode?: number; signal?: AbortSignal } = {}
  ): Promise<void> {
    const { mode, signal } = options;
    await this.session.daemon.ask("PUT", this.session.path(named(path))
      + query({ mode }), {
      bytes: data as BodyInit, signal, safe: true, patience: this.session.daemon.reconnectMs,
    });
  }

  /** A folder as a ZIP archive. */
  async zip(path: Path = ""): Promise<Uint8Array> {
    const folder = encodePath(path);
    return this.session.daemon.bytes(await this.session.get(
      `/files${folder && `/${folder}/`}?format=zip`, { headers: { Accept: "*/*" } }));
  }

  /** Removes a file, or a folder: an empty one, or `whole`. */
  async remove(path: Path, options: { whole?: boolean } = {}): Promise<void> {
    await this.session.send("DELETE", named(path) + query({ whole: options.whole || null }));
  }

  /** Makes a folder, and those above it. */
  async makeFolder(path: Path): Promise<void> {
    await this.session.send("POST", named(path).replace("/files/", "/folders/"), {}, true);
  }
}
