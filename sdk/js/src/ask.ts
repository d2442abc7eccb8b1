/**
 * Ask: an instruction that a model writes programs for, under way (doc/ask.md).
 *
 *     const ask = session.startAsk("Which month had the highest revenue in sales.csv?");
 *     for await (const line of ask)
 *       if (line.type === "token")
 *         process.stdout.write(line.text);
 *     console.log((await ask.result()).stdout);
 *
 * The daemon runs `fumehood ask` and relays its lines. They are read as they come, whoever
 * iterates: the daemon cuts who takes nothing. Who goes away (an AbortSignal, `break`, a tab that
 * is closed) ends model and programs. An ask whose connection is lost is lost: what there was is in
 * the session's journal.
 */
import type { Daemon } from "./daemon.js";
import { AnswerError, CorruptError, FumehoodError, makeError, UsageError } from "./errors.js";
import { ConnectionLost, SILENCE_MS } from "./lost.js";
import { readFileChange } from "./result.js";
import type { FileChange } from "./result.js";
import { readObjects } from "./sse.js";

type Texts = string | RegExp | (string | RegExp)[];

export interface AskOptions {
  /** A model by its name; with `url` the name there. */
  model?: string;
  /** An OpenAI-compatible server, if the daemon allows that. */
  url?: string;
  /** A file of the daemon's machine with answers instead of a model; over the Unix socket only. */
  script?: string;
  /** At most 1, 3 or 5 programs. */
  effort?: "low" | "medium" | "high";
  /** Budgets: programs in all, tokens that the model may write, seconds of all and of a program. */
  programs?: number;
  tokens?: number;
  seconds?: number;
  runSeconds?: number;
  /** What the output must be. */
  expect?: Texts;
  /** Code that must hold after the program. */
  asserts?: Texts;
  /** What the programs read: input() and stdin. */
  input?: string;
  /** Another system prompt. */
  system?: string;
  temperature?: number;
  seed?: number;
  /** Whether the notebook keeps the attempts. */
  attempts?: "show" | "hide";
  /** A folder of the daemon's machine; for an ask that has no session. */
  workspace?: string;
  /** It goes on when this program goes away. */
  detach?: boolean;
  signal?: AbortSignal;
  onLine?: (line: AskLine) => unknown;
}

/** One line of an ask (doc/ask.md, "Lines"). */
export interface AskLine {
  type: "ask" | "attempt" | "token" | "code" | "output" | "verdict" | "result" | "error"
    | (string & {});
  /** Which program it is about, from 1. */
  attempt?: number;
  text?: string;
  code?: string;
  message?: string;
  [member: string]: unknown;
}

/** A program that was asked for, and what it did. */
export interface AskProgram {
  attempt: number;
  status: string;
  code?: string;
  response?: string;
  stdout?: string;
  stderr?: string;
  [member: string]: unknown;
}

/** What came of an ask. Without success the best program's output, and `message` says why. */
export class AskAnswer {
  readonly files: FileChange[];

  constructor(
    /** The whole line. */
    readonly raw: Record<string, unknown>) {
    this.files = this.list("files").map((item) => readFileChange(item as Record<string, unknown>));
  }

  get success(): boolean { return this.raw.success === true; }
  get stdout(): string { return this.word("stdout"); }
  get stderr(): string { return this.word("stderr"); }
  get code(): string { return this.word("code"); }
  /** The model's whole text of the chosen program. */
  get response(): string { return this.word("response"); }
  /** How many programs were asked for. */
  get attempts(): number { return Number(this.raw.attempts ?? 0); }
  /** How it is known: "checked", "agreed", "ran". */
  get confidence(): string | null { return this.word("confidence") || null; }
  get agreement(): { k: number; n: number } | null {
    return (this.raw.agreement as { k: number; n: number } | undefined) ?? null;
  }
  get suspicions(): string[] { return this.list("suspicions").map(String); }
  get message(): string { return this.word("message"); }
  get programs(): AskProgram[] { return this.list("programs") as AskProgram[]; }
  get session(): string | null { return this.word("session") || null; }
  /** The chosen program's cell in the session. */
  get cell(): string | null { return this.word("cell") || null; }
  get model(): string { return this.word("model"); }

  /** What to say: what the program printed; without success, what was wrong. */
  get text(): string {
    return this.success ? this.stdout : this.message || this.stderr;
  }

  /** Throws AnswerError without success; returns itself. */
  throwForError(): this {
    if (this.success)
      return this;
    throw new AnswerError(this.message || "no program succeeded", this);
  }

  private word(key: string): string {
    const value = this.raw[key];
    return typeof value === "string" ? value : "";
  }

  private list(key: string): unknown[] {
    const value = this.raw[key];
    return Array.isArray(value) ? value : [];
  }
}

function texts(given: Texts | undefined): string | string[] | undefined {
  const one = (item: string | RegExp): string => {
    if (!(item instanceof RegExp))
      return item;
    if (item.dotAll || item.sticky)
      throw new UsageError("of an expression's flags s and y cannot be had: leave them away");
    return `/${item.source}/${item.ignoreCase ? "i" : ""}`;
  };
  return Array.isArray(given) ? given.map(one) : given === undefined ? undefined : one(given);
}

/** The body of POST /v1/ask. */
export function askBody(instruction: string, options: AskOptions, session: string | null
): Record<string, unknown> {
  if (typeof instruction !== "string" || instruction.trim() === "")
    throw new UsageError("the instruction is empty: say what is to be done");
  return {
    instruction, session: session ?? undefined, model: options.model, url: options.url,
    script: options.script, effort: options.effort, programs: options.programs,
    tokens: options.tokens,
    seconds: options.seconds, run_seconds: options.runSeconds, expect: texts(options.expect),
    assert: texts(options.asserts), input: options.input, system: options.system,
    temperature: options.temperature, seed: options.seed, attempts: options.attempts,
    workspace: options.workspace, detach: options.detach || undefined,
  };
}

/** An ask under way. Made by Session.startAsk() and startAsk(). */
export class Ask implements AsyncIterable<AskLine> {
  private readonly abort = new AbortController();
  private readonly ended: Promise<AskAnswer>;
  private queue: AskLine[] = [];
  private over = false;
  private wake: (() => void) | null = null;

  constructor(private readonly daemon: Daemon, instruction: string,
    private readonly options: AskOptions, session: string | null = null) {
    this.ended = this.pump(askBody(instruction, options, session));
    this.ended.catch(() => undefined); // who never asks is not told
  }

  /** Whether it has ended. */
  get done(): boolean {
    return this.over;
  }

  /** Waits for the end. Rejects when there was no answer: no model, no server, cancelled. */
  result(): Promise<AskAnswer> {
    return this.ended;
  }

  /** The lines as they come, to the last. Leaving early ends the ask. */
  async *[Symbol.asyncIterator](): AsyncGenerator<AskLine, void, undefined> {
    try {
      for (;;) {
        while (this.queue.length > 0)
          yield this.queue.shift()!;
        if (this.over)
          break;
        await new Promise<void>((resolve) => { this.wake = resolve; });
      }
      await this.ended;
    } finally {
      this.close();
    }
  }

  /** Ends model and programs, if it has not ended, unless it was begun with `detach`. */
  close(reason: unknown = new DOMException("the ask was closed", "AbortError")): void {
    if (!this.over)
      this.abort.abort(reason);
  }

  private async pump(body: Record<string, unknown>): Promise<AskAnswer> {
    const { signal, onLine } = this.options;
    const leave = (): void => this.close(signal?.reason);
    signal?.addEventListener("abort", leave, { once: true });
    if (signal?.aborted)
      leave();
    let answer: AskAnswer | null = null;
    let failure: FumehoodError | null = null;
    try {
      const response = await this.daemon.request("POST", "/v1/ask", {
        body, signal: this.abort.signal, headers: { Accept: "text/event-stream" } });
      if (response.body === null)
        throw new CorruptError("the daemon's answer is empty", "corrupt");
      for await (const item of readObjects(response.body, "sse", SILENCE_MS)) {
        const line = item as AskLine;
        if (line.type === "result")
          answer = new AskAnswer(item);
        else if (line.type === "error")
          failure = makeError(String(line.code ?? "internal"), line.message ?? "the ask failed");
        this.queue.push(line);
        this.wake?.();
        await onLine?.(line);
      }
      if (answer === null)
        throw failure ?? new ConnectionLost(new Error("the ask ended without a result"));
      return answer;
    } catch (error) {
      const left = this.abort.signal.aborted;
      this.close(error); // of a callback, too
      throw left ? this.abort.signal.reason : error;
    } finally {
      this.over = true;
      signal?.removeEventListener("abort", leave);
      this.wake?.();
    }
  }
}
