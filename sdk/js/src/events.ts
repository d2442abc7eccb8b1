/**
 * Events as the journal has them (doc/protocol.md, "Events"), for the compiler.
 *
 * Members that an event has always are named; all others are there, too. A reader meets types that
 * it does not know: `OtherEvent`.
 */

/** What every event has. */
export interface EventBase {
  /** Its number: 1, 2, 3 … without holes. */
  seq: number;
  /** UTC, with microseconds. */
  t: string;
  cell?: string;
  [member: string]: unknown;
}

/** Values by their MIME types: text as it is, images as base64, JSON as it is. */
export type MimeBundle = Record<string, unknown>;

export interface CellEvent extends EventBase { type: "cell"; cell: string; code: string }
export interface StartedEvent extends EventBase { type: "started"; cell: string }
export interface StreamEvent extends EventBase {
  type: "stream";
  name: "stdout" | "stderr";
  text: string;
}
export interface DisplayEvent extends EventBase {
  type: "display" | "update_display";
  data: MimeBundle;
  metadata: Record<string, unknown>;
  display_id?: string;
}
export interface ResultEvent extends EventBase {
  type: "result";
  data: MimeBundle;
  metadata: Record<string, unknown>;
  execution_count: number;
}
export interface ClearEvent extends EventBase { type: "clear"; wait: boolean }
export interface ErrorEvent extends EventBase {
  type: "error";
  ename: string;
  evalue: string;
  traceback: string[];
}
export interface InputRequestEvent extends EventBase {
  type: "input_request";
  prompt: string;
  password: boolean;
}
export interface TruncatedEvent extends EventBase {
  type: "truncated";
  name: string;
  bytes_dropped: number;
  limit: string;
}
export interface FinishedEvent extends EventBase {
  type: "finished";
  cell: string;
  status: CellStatus;
  state: string;
  reason?: string;
  text?: string;
}
/** Only to a lossy reader: the events `from` … `to` were skipped. */
export interface GapEvent { type: "gap"; from: number; to: number; [member: string]: unknown }
export interface StoppedEvent extends EventBase { type: "stopped"; reason: string }
export interface OtherEvent extends EventBase {
  type: "session" | "section" | "note" | "input" | "died" | "committed" | "checkpoint" | "rollback"
    | "forked" | "restarted" | "state" | "warning" | "network";
}

export type Event = CellEvent | StartedEvent | StreamEvent | DisplayEvent | ResultEvent | ClearEvent
  | ErrorEvent | InputRequestEvent | TruncatedEvent | FinishedEvent | StoppedEvent | GapEvent
  | OtherEvent;

export type CellStatus = "ok" | "error" | "interrupted" | "timeout" | "died" | "cancelled";

interface BlobLink { $blob: string; bytes?: number }

function isLink(value: unknown): value is BlobLink {
  return typeof value === "object" && value !== null
    && typeof (value as BlobLink).$blob === "string";
}

/** The hashes of values that were too large to come with their event. */
export function blobsOf(value: unknown, found = new Set<string>()): Set<string> {
  if (isLink(value))
    found.add(value.$blob);
  else if (typeof value === "object" && value !== null)
    for (const item of Object.values(value))
      blobsOf(item, found);
  return found;
}

/** The value with what was fetched in the places of links. What is no UTF-8 becomes base64. */
export function withBlobs(value: unknown, blobs: Map<string, Uint8Array>, mime = ""): unknown {
  if (isLink(value))
    return blobValue(blobs.get(value.$blob)!, mime);
  if (Array.isArray(value))
    return value.map((item) => withBlobs(item, blobs, mime));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, withBlobs(item, blobs, key)]));
  return value;
}

function blobValue(data: Uint8Array, mime: string): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return toBase64(data);
  }
  if (mime === "application/json" || mime.endsWith("+json")) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

const PIECE = 0x6000; // a multiple of 3, and fewer arguments than an engine takes

export function toBase64(data: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < data.length; at += PIECE)
    pieces.push(btoa(String.fromCharCode(...data.subarray(at, at + PIECE))));
  return pieces.join("");
}

/** Bytes of base64 text, in which white space may stand; null when it is none. */
export function fromBase64(text: string): Uint8Array | null {
  try {
    const raw = atob(text.replace(/\s+/g, ""));
    const data = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at++)
      data[at] = raw.charCodeAt(at);
    return data;
  } catch {
    return null;
  }
}
