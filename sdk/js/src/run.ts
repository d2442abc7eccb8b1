/**
 * Run: a cell that was sent, and is waited for.
 *
 * It is an iterator over the cell's events as they come, and `result()` waits for the end. Events
 * are read as they come, whoever iterates: the daemon cuts who takes nothing for 30 s, and that
 * would interrupt the cell. What they take is bounded by the session's `output_bytes`. Callbacks
 * and answers to prompts are called one after the other, beside the reading, and may take time.
 *
 * Who goes away interrupts the cell (a tab that is closed, an AbortSignal, `break`), unless it was
 * sent with `detach`. When the connection is lost, the cell's events are asked for from where they
 * were. The cell's id is chosen here, so that a run whose answer was lost can be sent again: it is
 * run once.
 */
import { query } from "./address.js";
import { DuplicateError, fromRefusal, NotFoundError, UsageError } from "./errors.js";
import { blobsOf } from "./events.js";
import type { Event, InputRequestEvent } from "./events.js";
import { ConnectionLost, isLost, Patience, SILENCE_MS } from "./lost.js";
import { Collector, Output } from "./result.js";
import type { Result } from "./result.js";
import type { Session } from "./session.js";
import { readObjects } from "./sse.js";

/** What answers prompts; null ends the input (`input()` raises EOFError). */
export type Answer = string | null;
/** A function, or the answers themselves, in order; text is lines. */
export type Input = string | Iterable<Answer>
  | ((prompt: string, password: boolean) => Answer | Promise<Answer>);

export interface RunOptions {
  /** Seconds it may run, at most those of the session; then it is interrupted. */
  timeout?: number;
  /** Length of Result.text; 0: no text is made. Default: 8000. */
  maxChars?: number;
  /** That text in the marked form ([stdout], [execute_result_text], …). */
  marks?: boolean;
  /** What answers input(). Absent: input() raises EOFError. */
  input?: Input;
  /** The cell's id, unique in the session. */
  cell?: string;
  /** The same code with the same key is run once, whoever asks. Not with `cell`. */
  idempotencyKey?: string;
  /** The cell goes on when this program goes away. */
  detach?: boolean;
  /** For the notebook's cell. */
  metadata?: Record<string, unknown>;
  /** The script that the code is from, and its arguments. */
  file?: string;
  argv?: string[];
  /** A cell that does not end well is undone. */
  atomic?: boolean;
  /** Every cell is undone when it has ended. */
  tryOnly?: boolean;
  /** `atomic` and `tryOnly`: with files of the workspace. */
  restoreFiles?: boolean;
  /** Interrupts the cell; the run is rejected with its reason. */
  signal?: AbortSignal;
  onEvent?: (event: Event) => unknown;
  onStdout?: (text: string) => unknown;
  onStderr?: (text: string) => unknown;
  onOutput?: (output: Output) => unknown;
}

const TEXT_CHARS = 8000;
const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** An id that no other has. It need not be secret. */
export function randomId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto)
    globalThis.crypto.getRandomValues(bytes);
  else // Node 18
    bytes.forEach((_, at) => { bytes[at] = Math.random() * 256; });
  return "j" + [...bytes].map((byte) => ALPHABET[byte & 31]).join("");
}

function answers(given: Input): (prompt: string, password: boolean) => Answer | Promise<Answer> {
  if (typeof given === "function")
    return given;
  const lines = (typeof given === "string" ? given.split("\n") : given)[Symbol.iterator]();
  return () => {
    const next = lines.next();
    return next.done ? null : next.value;
  };
}

function bodyOf(code: string, options: RunOptions, cell: string | null): Record<string, unknown> {
  if (typeof code !== "string")
    throw new UsageError("code is text");
  if (options.cell !== undefined && options.idempotencyKey !== undefined)
    throw new UsageError("give `cell` or `idempotencyKey`, not both");
  if (options.timeout !== undefined && !(options.timeout > 0))
    throw new UsageError("timeout is more than 0 seconds");
  const maxChars = options.maxChars ?? (options.marks ? undefined : TEXT_CHARS);
  return {
    code, id: cell ?? undefined, timeout: options.timeout, max_chars: maxChars || undefined,
    marks: options.marks || undefined, metadata: options.metadata, file: options.file,
    argv: options.argv, atomic: options.atomic || undefined, try: options.tryOnly || undefined,
    files: options.restoreFiles, detach: options.detach || undefined,
    allow_stdin: options.input !== undefined || undefined,
  };
}

interface Promised<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
}

function promised<T>(): Promised<T> {
  let made!: Omit<Promised<T>, "promise">;
  const promise = new Promise<T>((resolve, reject) => { made = { resolve, reject }; });
  promise.catch(() => undefined); // who never asks is not told
  return { promise, ...made };
}

/** A cell under way. Made by Session.startRun() and Session.stream(). */
export class Run implements AsyncIterable<Event> {
  private readonly body: Record<string, unknown>;
  private readonly collector = new Collector();
  private readonly abort = new AbortController();
  private readonly known = promised<string>();
  private readonly ended = promised<Result>();
  private readonly left = promised<never>();
  private readonly begun = promised<void>();
  private readonly input: ReturnType<typeof answers> | null;
  private id: string | null;
  private over = false;
  private overHttp = true; // whether the daemon interrupts the cell when our request ends
  private queue: Event[] = [];
  private wake: (() => void) | null = null;
  private calls: Promise<void> = Promise.resolve();

  constructor(private readonly session: Session, code: string,
    private readonly options: RunOptions) {
    this.id = options.cell ?? (options.idempotencyKey === undefined ? randomId() : null);
    this.body = bodyOf(code, options, this.id);
    this.input = options.input === undefined ? null : answers(options.input);
    void this.pump();
  }

  // ---- what it is

  /** The cell's id, when the run has been accepted; rejects with what it was refused with. */
  get cell(): Promise<string> {
    return this.known.promise;
  }

  /** Whether it has ended. */
  get done(): boolean {
    return this.over;
  }

  /** Interrupts the cell, when it has begun (others may be before it); false when it has ended. */
  async interrupt(): Promise<boolean> {
    const cell = await this.cell;
    await this.begun.promise;
    return this.over ? false : this.session.interrupt(cell);
  }

  /** Waits for the end. Rejects when the run was refused, or with what a callback threw. */
  result(): Promise<Result> {
    return this.ended.promise;
  }

  /** The events as they come, to the last. Leaving early interrupts the cell. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    try {
      for (;;) {
        while (this.queue.length > 0)
          yield this.queue.shift()!;
        if (this.over)
          break;
        await new Promise<void>((resolve) => { this.wake = resolve; });
      }
      await this.ended.promise;
    } finally {
      this.close();
    }
  }

  /** Leaves: interrupts the cell if it has not ended, unless it was sent with `detach`. */
  close(reason: unknown = new DOMException("the run was closed", "AbortError")): void {
    if (this.over || this.abort.signal.aborted)
      return;
    this.abort.abort(reason);
    this.left.reject(reason);
    if (!this.overHttp && !this.options.detach && this.id !== null)
      this.session.interrupt(this.id).catch(() => undefined); // else the daemon does
  }

  // ---- reading

  private async pump(): Promise<void> {
    const { signal } = this.options;
    const leave = (): void => this.close(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted)
      leave();
    try {
      for await (const event of this.source())
        await this.take(event);
      await Promise.race([this.calls, this.left.promise]);
      this.ended.resolve(this.collector.result);
    } catch (error) {
      const why = this.abort.signal.aborted ? this.abort.signal.reason : error;
      this.known.reject(why);
      this.ended.reject(why);
    } finally {
      this.over = true;
      this.begun.resolve();
      signal?.removeEventListener("abort", leave);
      this.wake?.();
    }
  }

  private async take(event: Event): Promise<void> {
    const whole = blobsOf(event).size > 0 ? await this.session.withBlobs(event) : event;
    if (!this.collector.take(whole))
      return;
    const last = this.collector.result.outputs.at(-1);
    this.calls = this.calls.then(() => this.tell(whole, last));
    this.calls.catch((error: unknown) => this.close(error));
    if (whole.type === "started")
      this.begun.resolve();
    this.queue.push(whole);
    this.wake?.();
  }

  /** The lines of the run, from connection to connection, each event once. */
  private async *source(): AsyncGenerator<Event> {
    const patience = new Patience(this.session.daemon.reconnectMs);
    let seq = 0;
    for (let tries = 0; ; tries++) {
      let failure: unknown;
      try {
        const answer = await this.connect(seq, tries);
        for await (const line of readObjects(answer.body!, "sse", SILENCE_MS)) {
          if (line.type === "refused")
            throw fromRefusal(line);
          patience.reset();
          const event = line as unknown as Event;
          if (event.type === "gap" || event.seq <= seq)
            continue;
          seq = event.seq;
          if (event.type === "cell")
            this.identify(event.cell as string);
          yield event;
          if (event.type === "finished")
            return;
        }
        failure = new ConnectionLost(new Error("the stream ended before the cell"));
      } catch (error) {
        failure = error;
      }
      if (isLost(failure) && this.id !== null && (tries > 0 || seq > 0))
        this.overHttp = false;
      await patience.next(failure, this.abort.signal);
    }
  }

  private identify(cell: string): void {
    this.id = cell;
    this.known.resolve(cell);
  }

  /** The run itself, or when it is known to be there, its events from where they were. */
  private async connect(seq: number, tries: number): Promise<Response> {
    if (seq === 0) {
      try {
        const answer = await this.post();
        if (this.id !== null)
          this.identify(this.id);
        return answer;
      } catch (error) {
        // The answer to the try before was lost: the cell is there.
        if (!(error instanceof DuplicateError) || tries === 0 || this.id === null)
          throw error;
        this.identify(this.id);
      }
    }
    this.overHttp = false;
    return this.session.get(`/events${query({ cell: this.id, since: seq, follow: true })}`, {
      headers: { Accept: "text/event-stream", "Last-Event-ID": String(seq) },
      signal: this.abort.signal, patience: 0,
    });
  }

  private post(): Promise<Response> {
    const { idempotencyKey } = this.options;
    return this.session.daemon.request("POST", this.session.path("/run"), {
      body: this.body, signal: this.abort.signal,
      headers: {
        Accept: "text/event-stream",
        ...(idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey }),
      },
    });
  }

  // ---- telling

  private async tell(event: Event, last: Output | undefined): Promise<void> {
    const { onEvent, onStdout, onStderr, onOutput } = this.options;
    if (this.abort.signal.aborted)
      return;
    if (event.type === "stream") {
      await (event.name === "stderr" ? onStderr : onStdout)?.(event.text);
      const output = new Output(event.name);
      output.text = event.text;
      await onOutput?.(output);
    } else if (last && ["display", "result", "error"].includes(event.type)) {
      await onOutput?.(last);
    }
    await onEvent?.(event);
    if (event.type === "input_request" && this.input !== null)
      await this.answer(event, this.input);
  }

  /** Answers a prompt, once: when the connection is lost on the way, the journal says whether the
   * answer has arrived. */
  private async answer(event: InputRequestEvent, ask: ReturnType<typeof answers>): Promise<void> {
    const patience = new Patience(this.session.daemon.reconnectMs);
    const text = await ask(event.prompt, event.password);
    for (;;) {
      try {
        return await this.session.input(text);
      } catch (error) {
        if (error instanceof NotFoundError && !isLost(error))
          return; // the cell was interrupted meanwhile: nobody waits any more
        await patience.next(error, this.abort.signal);
      }
      for await (const later of this.session.events({ since: event.seq, cell: event.cell }))
        if (later.type === "input" || later.type === "finished")
          return;
    }
  }
}
