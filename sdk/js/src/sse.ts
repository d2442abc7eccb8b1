/**
 * Streams of events from bytes: Server-Sent Events (WHATWG HTML, §9.2.6) and one JSON object a
 * line. Pure; pieces may be cut anywhere. Of SSE the fields `data` and `id` are read: an event's
 * type is in its data, and when to connect again is our own business.
 */
import { CorruptError, LimitError } from "./errors.js";
import { ConnectionLost } from "./lost.js";

/** Of one line, in UTF-16 units. An event that comes whole has at most 16 MiB of values. */
export const LINE_MAX = 64 << 20;

/** Pieces of text to lines, ended by LF, CR or CRLF. */
export class LineSplitter {
  private pieces: string[] = [];
  private size = 0;
  private afterCr = false;

  push(text: string): string[] {
    const lines: string[] = [];
    let at = 0;
    if (this.afterCr && text.startsWith("\n"))
      at = 1;
    if (text !== "")
      this.afterCr = false;
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = at;
    for (let found = ends.exec(text); found !== null; found = ends.exec(text)) {
      this.keep(text.slice(at, found.index));
      lines.push(this.pieces.join(""));
      this.pieces = [];
      this.size = 0;
      at = ends.lastIndex;
      this.afterCr = found[0] === "\r" && at === text.length;
    }
    this.keep(text.slice(at));
    return lines;
  }

  private keep(piece: string): void {
    this.size += piece.length;
    if (this.size > LINE_MAX)
      throw new LimitError(`the daemon sent a line of more than ${LINE_MAX} characters`, "limit");
    if (piece !== "")
      this.pieces.push(piece);
  }
}

/** Lines of SSE to the texts of its events. */
export class SseParser {
  private lines = new LineSplitter();
  private data: string[] = [];
  private first = true;

  push(text: string): string[] {
    const found: string[] = [];
    for (const line of this.lines.push(text)) {
      const clean = this.first && line.startsWith("\ufeff") ? line.slice(1) : line;
      this.first = false;
      if (clean === "") {
        if (this.data.length > 0)
          found.push(this.data.join("\n"));
        this.data = [];
      } else if (clean === "data" || clean.startsWith("data:")) {
        const value = clean.slice(5);
        this.data.push(value.startsWith(" ") ? value.slice(1) : value);
      }
    }
    return found;
  }
}

/** One JSON object of a stream. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new CorruptError("the daemon sent what is no JSON", "corrupt", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new CorruptError("the daemon sent what is no JSON object", "corrupt");
  return value as Record<string, unknown>;
}

/**
 * The objects of a body as they come. Nothing is read ahead of who iterates. Throws ConnectionLost,
 * also when nothing comes for `silenceMs` (the daemon sends a comment every 15 s).
 */
export async function* readObjects(body: ReadableStream<Uint8Array>, form: "sse" | "ndjson",
  silenceMs: number): AsyncGenerator<Record<string, unknown>> {
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const parser = form === "sse" ? new SseParser() : new LineSplitter();
  try {
    for (;;) {
      const { done, value } = await readPiece(reader, silenceMs);
      if (done)
        return;
      for (const text of parser.push(decoder.decode(value, { stream: true })))
        if (text !== "")
          yield parseObject(text);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** As reader.read(), but what the platform throws when a connection breaks is ConnectionLost. */
async function readPiece(reader: ReadableStreamDefaultReader<Uint8Array>, ms: number
): Promise<ReadableStreamReadResult<Uint8Array>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("it was silent for too long")), ms);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (cause) {
    throw new ConnectionLost(cause);
  } finally {
    clearTimeout(timer);
  }
}
