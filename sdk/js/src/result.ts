/**
 * What came of a cell: its outputs in order, its images, its error, what became of files.
 *
 * A Result is a fold over the cell's events. Outputs are what a notebook would show: adjacent text
 * of one stream is one output, `update_display` changes the display that it names, `clear` takes
 * away what was there. `text` is the text for a model, made by Fumehood itself; `stdout` and
 * `stderr` are all that was written, also what was cleared.
 */
import { CellError } from "./errors.js";
import { fromBase64, toBase64 } from "./events.js";
import type { CellStatus, Event, FinishedEvent, MimeBundle } from "./events.js";

/** Of several forms of one image, the first of these is taken. */
export const IMAGE_MIMES = [
  "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"] as const;

/** An image that was displayed. */
export class Image {
  constructor(readonly mime: string, readonly data: Uint8Array) {}

  get base64(): string {
    return toBase64(this.data);
  }

  /** For the `src` of an <img>. Shown so, an SVG runs no script. */
  get url(): string {
    return `data:${this.mime};base64,${this.base64}`;
  }
}

/** The exception that ended a cell. */
export interface CellFailure {
  name: string;
  value: string;
  traceback: string[];
}

/** What became of a file of the workspace while the cell ran. */
export interface FileChange {
  /** From the workspace. Of a name that is no UTF-8, with U+FFFD in it; `raw` has its bytes. */
  path: string;
  raw?: Uint8Array;
  change: "created" | "changed" | "deleted";
  bytes: number;
  mime: string;
  cell?: string;
  /** It happened before the cell began: threads that went on, uploads. */
  background: boolean;
}

export type OutputKind = "stdout" | "stderr" | "display" | "result" | "error";

/** One output of a cell. */
export class Output {
  text = "";
  data: MimeBundle = {};
  metadata: Record<string, unknown> = {};
  displayId: string | null = null;
  executionCount: number | null = null;
  error: CellFailure | null = null;

  constructor(readonly kind: OutputKind) {}

  /** Its image, if it has one. */
  get images(): Image[] {
    for (const mime of IMAGE_MIMES) {
      if (!Object.hasOwn(this.data, mime))
        continue;
      const found = readImage(mime, this.data[mime]);
      if (found)
        return [found];
    }
    return [];
  }
}

/** Text of a value; notebooks have lists of lines. */
export function joined(value: unknown): string {
  if (Array.isArray(value))
    return value.map(String).join("");
  return typeof value === "string" ? value : JSON.stringify(value ?? "");
}

function readImage(mime: string, value: unknown): Image | null {
  if (mime === "image/svg+xml")
    return new Image(mime, new TextEncoder().encode(joined(value)));
  const data = fromBase64(joined(value));
  return data && new Image(mime, data);
}

export function readFileChange(item: Record<string, unknown>): FileChange {
  const raw = typeof item.path_base64 === "string" ? fromBase64(item.path_base64) : null;
  return {
    path: raw ? new TextDecoder().decode(raw) : String(item.path),
    ...(raw ? { raw } : {}),
    change: item.change as FileChange["change"],
    bytes: Number(item.bytes ?? 0),
    mime: String(item.mime ?? ""),
    ...(typeof item.cell === "string" ? { cell: item.cell } : {}),
    background: item.origin === "background",
  };
}

const FAILURES: Readonly<Record<string, string>> = {
  interrupted: "KeyboardInterrupt", timeout: "TimeoutError", died: "Died", cancelled: "Cancelled",
};
const WHAT: Readonly<Record<string, string>> = {
  interrupted: "the cell was interrupted", timeout: "the cell ran longer than it may",
  died: "the interpreter died", cancelled: "the cell never ran",
};

/** A cell that has ended. */
export class Result {
  cell = "";
  status: CellStatus = "died";
  reason: string | null = null;
  /** Of the variables: kept, recovered, rolled_back, reset or gone. */
  state = "gone";
  /** The cell after which the variables are, if cells before are lost. */
  recoversTo: string | null = null;
  /** Cells that are lost with this one. */
  rolledBack: string[] = [];
  /** What did not come back. */
  lost: Record<string, unknown> = {};
  /** For a model. */
  text = "";
  outputs: Output[] = [];
  stdout = "";
  stderr = "";
  files: FileChange[] = [];
  executionCount: number | null = null;
  /** Seconds that it took, and seconds of processor time. */
  duration = 0;
  cpu = 0;
  /** Bytes. */
  memoryPeak = 0;
  /** The limit that was met. */
  limit: { name: string; value: number; unit: string } | null = null;
  /** Bytes of output beyond its limit. */
  dropped = 0;
  finished: FinishedEvent | null = null;

  get ok(): boolean {
    return this.status === "ok";
  }

  /** The last expression's value, with all its forms. */
  get value(): Output | null {
    return this.outputs.filter((output) => output.kind === "result").at(-1) ?? null;
  }

  /** The last expression's value as text, as its repr. */
  get result(): string | null {
    return this.value?.text ?? null;
  }

  /** The exception that ended it. Of a death or a time-out without one, what is known. */
  get error(): CellFailure | null {
    const found = this.outputs.filter((output) => output.error !== null).at(-1);
    if (found)
      return found.error;
    if (this.ok)
      return null;
    return { name: FAILURES[this.status] ?? this.status, value: this.explain(), traceback: [] };
  }

  get images(): Image[] {
    return this.outputs.flatMap((output) => output.images);
  }

  /** Throws CellError unless the status is ok; returns itself. */
  throwForError(): this {
    const error = this.error;
    if (this.ok || error === null)
      return this;
    throw new CellError(`the cell ${this.cell} ended as ${this.status}: `
      + (error.value ? `${error.name}: ${error.value}` : error.name), this);
  }

  /** How it ended, in words. */
  explain(): string {
    const what = (WHAT[this.status] ?? this.status) + (this.reason ? ` (${this.reason})` : "");
    if (this.status === "cancelled" || this.state === "kept")
      return what;
    if (this.state === "reset")
      return what + "; all variables are gone";
    if (this.state === "gone")
      return what + "; the session has ended";
    return what + (this.recoversTo
      ? `; the variables are those after the cell ${this.recoversTo}`
      : "; the variables are those before this cell");
  }

  toString(): string {
    return this.text;
  }
}

/** The fold. */
export class Collector {
  readonly result = new Result();
  private out: string[] = [];
  private err: string[] = [];
  private run: string[] = []; // of the stream that was written to last
  private clear = false;
  private seq = 0;

  /** Takes an event; false when it was taken before. */
  take(event: Event): boolean {
    if (event.type === "gap")
      return true;
    if (event.seq <= this.seq)
      return false;
    this.seq = event.seq;
    this.fold(event);
    return true;
  }

  private fold(event: Event): void {
    switch (event.type) {
      case "stream":
        this.takeStream(event.name, event.text);
        break;
      case "display":
        this.add(bundle("display", event));
        break;
      case "result":
        this.add(bundle("result", event));
        break;
      case "update_display":
        this.update(bundle("display", event));
        break;
      case "clear":
        this.closeRun();
        if (event.wait)
          this.clear = true;
        else
          this.result.outputs.length = 0;
        break;
      case "error": {
        const output = new Output("error");
        output.error = { name: event.ename ?? "", value: event.evalue ?? "",
          traceback: (event.traceback ?? []).map(String) };
        output.text = output.error.traceback.join("\n") || `${event.ename}: ${event.evalue}`;
        this.add(output);
        break;
      }
      case "truncated":
        this.result.dropped += event.bytes_dropped ?? 0;
        break;
      case "finished":
        this.finish(event);
        break;
      default:
        break;
    }
  }

  private add(output: Output): void {
    this.closeRun();
    if (this.clear)
      this.result.outputs.length = 0;
    this.clear = false;
    this.result.outputs.push(output);
  }

  private closeRun(): void {
    const last = this.result.outputs.at(-1);
    if (this.run.length > 0 && last)
      last.text = this.run.join("");
    this.run = [];
  }

  private takeStream(name: "stdout" | "stderr", text: string): void {
    (name === "stderr" ? this.err : this.out).push(text);
    if (this.run.length === 0 || this.result.outputs.at(-1)?.kind !== name || this.clear)
      this.add(new Output(name));
    this.run.push(text);
  }

  private update(made: Output): void {
    for (const output of this.result.outputs)
      if (output.displayId !== null && output.displayId === made.displayId)
        Object.assign(output, { text: made.text, data: made.data, metadata: made.metadata });
  }

  private finish(event: FinishedEvent): void {
    const usage = (event.usage ?? {}) as Record<string, number>;
    this.closeRun();
    Object.assign(this.result, {
      cell: event.cell, status: event.status, reason: event.reason ?? null,
      state: event.state ?? "kept", recoversTo: event.recovers_to ?? null,
      rolledBack: event.rolled_back ?? [], lost: event.lost ?? {}, text: event.text ?? "",
      stdout: this.out.join(""), stderr: this.err.join(""),
      executionCount: event.execution_count ?? null,
      duration: Number(event.duration_us ?? 0) / 1e6, cpu: Number(usage.cpu_us ?? 0) / 1e6,
      memoryPeak: usage.rss_peak ?? 0, limit: event.limit ?? null,
      files: ((event.files ?? []) as Record<string, unknown>[]).map(readFileChange),
      finished: event,
    });
  }
}

function bundle(kind: OutputKind, event: Event): Output {
  const output = new Output(kind);
  output.data = (event.data ?? {}) as MimeBundle;
  output.text = joined(output.data["text/plain"] ?? "");
  output.metadata = (event.metadata ?? {}) as Record<string, unknown>;
  output.displayId = (event.display_id as string | undefined) ?? null;
  output.executionCount = (event.execution_count as number | undefined) ?? null;
  return output;
}
