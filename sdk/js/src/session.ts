/**
 * Session: a sandboxed, stateful Python of a daemon that is used like an object.
 *
 *     const session = await Session.start();
 *     await session.run("x = 6");
 *     console.log((await session.run("x * 7")).result);     // 42
 *     await session.close();
 *
 * A session without a name lasts as long as this object: close() stops it and removes it (`keep`:
 * its record stays). One with a name lives on: it is made when there is none of that name, else
 * opened. Cells of one session run one after the other. A session does not end with its client: one
 * that nobody closes lives on, until the daemon's `--idle` stops it.
 */
import { query, segment } from "./address.js";
import { Ask } from "./ask.js";
import type { AskAnswer, AskOptions } from "./ask.js";
import { Channel } from "./channel.js";
import { channelEvents } from "./channel_events.js";
import { Daemon } from "./daemon.js";
import type { DaemonOptions, RequestOptions, SessionInfo } from "./daemon.js";
import { CorruptError, DuplicateError, fromRefusal, GoneError, NotFoundError } from "./errors.js";
import { fromBase64, blobsOf, withBlobs } from "./events.js";
import type { Event } from "./events.js";
import { Files } from "./files.js";
import { ConnectionLost, Patience, SILENCE_MS } from "./lost.js";
import * as reply from "./replies.js";
import { readFileChange } from "./result.js";
import type { FileChange, Result } from "./result.js";
import { Run } from "./run.js";
import type { RunOptions } from "./run.js";
import { readObjects } from "./sse.js";

type Fields = Record<string, unknown>;

/** How a session is started; what is absent is as the user's settings have it. */
export interface StartOptions extends DaemonOptions {
  name?: string;
  /** A folder of the daemon's machine; over the Unix socket only. */
  workspace?: string;
  workspaceMode?: "rw" | "ro" | "overlay";
  /** A Python, or an environment; over the Unix socket only. */
  python?: string;
  /** Seconds a cell may run. */
  timeout?: number;
  /** Bytes. */
  memory?: number;
  /** As in doc/protocol.md, "Limits of a session". */
  limits?: Record<string, number | null>;
  tier?: "full" | "degraded" | "none";
  tierFloor?: string;
  allowNet?: string[];
  env?: Record<string, string>;
  /** All of fumehood-policy(5); the options above go before it. */
  policy?: Fields;
  durability?: "process" | "power";
  notebookMetadata?: Fields;
  /** close() leaves the record of a session without a name. */
  keep?: boolean;
}

export interface EventsOptions {
  /** The events after this number. Default: 0, all. */
  since?: number;
  /** Also those to come, until the session stops. */
  follow?: boolean;
  /** Of one cell. */
  cell?: string;
  /** Skip what comes too fast, and be told `gap`. */
  lossy?: boolean;
  signal?: AbortSignal;
  /** How they come. Default: "sse". */
  via?: "sse" | "websocket";
}

// What POST /v1/sessions has as limits; the others are members of a policy there.
const LIMITS = ["output_bytes", "background_bytes", "queue", "record_bytes", "processes", "files",
  "file_bytes", "tmp_bytes"];
const TRIES = 3;
const PART_BYTES = 1 << 20;
const BLOB_BYTES_MAX = 1 << 30;

function startBody(options: StartOptions): Fields {
  const limits: Fields = {};
  const policy: Fields = { ...options.policy };
  const { wall_s: wall, ...others } = options.limits ?? {};
  for (const [name, value] of Object.entries(others))
    (LIMITS.includes(name) ? limits : policy)[name] = value;
  if (options.memory !== undefined)
    policy.memory_bytes = options.memory;
  if (options.tierFloor !== undefined)
    policy.tier_floor = options.tierFloor;
  if (options.allowNet !== undefined)
    policy.net = options.allowNet;
  if (options.env !== undefined)
    policy.env = options.env;
  const some = (fields: Fields): Fields | undefined =>
    Object.keys(fields).length > 0 ? fields : undefined;
  return {
    name: options.name, timeout: options.timeout ?? wall ?? undefined, limits: some(limits),
    policy: some(policy), durability: options.durability, python: options.python,
    tier: options.tier, workspace: options.workspace,
    workspace_mode: options.workspaceMode,
    notebook: options.notebookMetadata && some(options.notebookMetadata),
  };
}

export class Session {
  readonly files: Files;
  private ends: "nothing" | "stop" | "remove";

  private constructor(
    /** The daemon that has it. */
    readonly daemon: Daemon,
    /** What the daemon said when it was started or opened. */
    readonly info: SessionInfo,
    /** Whether it was made now, and not opened. */
    readonly created: boolean, ends: "nothing" | "stop" | "remove") {
    if (typeof info?.id !== "string")
      throw new CorruptError("what answers there is no daemon of Fumehood's", "corrupt");
    this.files = new Files(this);
    this.ends = ends;
  }

  /** A new session; with a name the one of this name, if it is there. */
  static async start(options: StartOptions = {}): Promise<Session> {
    const daemon = new Daemon(options);
    const body = startBody(options);
    if (options.name === undefined) {
      const made = await daemon.ask<SessionInfo>("POST", "/v1/sessions", { body });
      return new Session(daemon, made, true, options.keep ? "stop" : "remove");
    }
    let failure: unknown;
    for (let tries = 0; tries < TRIES; tries++) {
      try {
        return await Session.opened(daemon, options.name);
      } catch (error) {
        if (!(error instanceof NotFoundError) || error.status === undefined)
          throw error;
      }
      try {
        const made = await daemon.ask<SessionInfo>("POST", "/v1/sessions", { body });
        return new Session(daemon, made, true, "nothing");
      } catch (error) {
        if (!(error instanceof DuplicateError))
          throw error;
        failure = error;
      }
    }
    throw failure;
  }

  /** The session with this name, id, or unique beginning of an id. One that has stopped is opened
   * again: its journal and notebook go on, its interpreter is new. close() leaves it. */
  static open(session: string, options: DaemonOptions = {}): Promise<Session> {
    return Session.opened(new Daemon(options), session);
  }

  private static async opened(daemon: Daemon, session: string): Promise<Session> {
    const info = await daemon.ask<SessionInfo>("POST", `/v1/sessions/${segment(session)}/open`,
      { body: {}, safe: true });
    return new Session(daemon, info, false, "nothing");
  }

  get id(): string {
    return this.info.id;
  }

  get name(): string | null {
    return this.info.name;
  }

  // ---- asking

  /** A route of this session. */
  path(rest: string): string {
    return `/v1/sessions/${segment(this.id)}${rest}`;
  }

  /** A GET; the answer, whose body is to be read. Repeated while the daemon is away. */
  get(rest: string, options: RequestOptions = {}): Promise<Response> {
    return this.daemon.request("GET", this.path(rest),
      { safe: true, patience: this.daemon.reconnectMs, ...options });
  }

  /** A GET whose answer is JSON. */
  getJson<T = Fields>(rest: string): Promise<T> {
    return this.daemon.ask<T>("GET", this.path(rest),
      { safe: true, patience: this.daemon.reconnectMs });
  }

  /** Another request; `safe`: asked twice is as asked once, so it can be repeated. */
  send<T = Fields>(method: string, rest: string, body?: Fields, safe = false): Promise<T> {
    return this.daemon.ask<T>(method, this.path(rest),
      { body, safe, patience: this.daemon.reconnectMs });
  }

  // ---- running code

  /** Sends a cell and does not wait: the Run is waited for, or iterated. */
  startRun(code: string, options: RunOptions = {}): Run {
    return new Run(this, code, options);
  }

  /** Runs code as one cell and waits for its end. What the code does wrong is in the result. */
  run(code: string, options: RunOptions = {}): Promise<Result> {
    return this.startRun(code, options).result();
  }

  /** Runs code; iterate over the events as they come: `for await (const event of …)`. */
  stream(code: string, options: RunOptions = {}): Run {
    return this.startRun(code, options);
  }

  // ---- a model

  /** Begins an ask and does not wait: its lines are iterated, or its result is waited for. */
  startAsk(instruction: string, options: AskOptions = {}): Ask {
    return new Ask(this.daemon, instruction, options, this.id);
  }

  /** Has a model write programs for the instruction, runs them, and answers with one whose outcome
   * holds. They see the session's variables and files; the chosen one is then run in it. */
  ask(instruction: string, options: AskOptions = {}): Promise<AskAnswer> {
    return this.startAsk(instruction, options).result();
  }

  // ---- what runs

  /** Interrupts the cell, or whatever runs; whether something was running. */
  async interrupt(cell?: string): Promise<boolean> {
    const answer = await this.send("POST", "/interrupt", { cell }, cell !== undefined);
    return Boolean(answer.interrupted);
  }

  /** Answers the prompt that waits; null: the end of the file. */
  async input(text: string | null): Promise<void> {
    await this.send("POST", "/input", text === null ? { eof: true } : { text });
  }

  /** What may stand at the cursor (in characters, as Python counts; absent: at the end). */
  async complete(code: string, cursor?: number): Promise<reply.Completion> {
    return reply.completion(
      await this.send("POST", "/complete", { code, cursor_pos: cursor }, true));
  }

  /** What the thing at the cursor is; `source`: with its source. */
  async inspect(code: string, cursor?: number, options: { source?: boolean } = {}
  ): Promise<reply.Inspection> {
    return reply.inspection(await this.send("POST", "/inspect",
      { code, cursor_pos: cursor, detail_level: options.source ? 1 : 0 }, true));
  }

  /** The variables, by name; the pattern has the wildcards *, ? and […]. */
  async variables(pattern?: string, options: { limit?: number } = {}): Promise<reply.Variables> {
    return reply.variables(
      await this.getJson(`/variables${query({ pattern, max: options.limit ?? 200 })}`));
  }

  /** The text of a cell for a model. */
  async text(cell: string, options: { maxChars?: number; marks?: boolean } = {}): Promise<string> {
    const answer = await this.getJson<{ text: string }>(`/cells/${segment(cell)}/text`
      + query({ max_chars: options.maxChars, marks: options.marks }));
    return answer.text;
  }

  /** The texts of a section's cells (absent: of all) by the cells' ids, in order. */
  async outputs(section?: string, options: { maxChars?: number; marks?: boolean } = {}
  ): Promise<Map<string, string>> {
    const answer = await this.getJson<{ cells: { cell: string; text: string }[] }>(
      `/outputs${query({ section, max_chars: options.maxChars, marks: options.marks })}`);
    return new Map(answer.cells.map((item) => [item.cell, item.text]));
  }

  /** Images that were displayed or written since an event; `lastSeq` is the next `since`. */
  async images(since = 0, options: { section?: string } = {}
  ): Promise<{ images: reply.ImageFile[]; lastSeq: number }> {
    const answer = await this.getJson<{ images: reply.ImageFile[]; last_seq: number }>(
      `/images${query({ since, section: options.section })}`);
    return { images: answer.images, lastSeq: answer.last_seq };
  }

  /** What is different in the workspace since an event; `lastSeq` is the next `since`. */
  async changes(since = 0, options: { cell?: string } = {}
  ): Promise<{ files: FileChange[]; lastSeq: number }> {
    const answer = await this.getJson<{ files: Fields[]; last_seq: number }>("/changes"
      + query(options.cell === undefined ? { since } : { cell: options.cell }));
    return { files: answer.files.map(readFileChange), lastSeq: answer.last_seq };
  }

  async status(): Promise<reply.Status> {
    return reply.status(await this.getJson("/status"));
  }

  /** The journal: everything that happened, from any place. */
  async *events(options: EventsOptions = {}): AsyncGenerator<Event, void, undefined> {
    if (options.via === "websocket") {
      yield* channelEvents(this, options);
      return;
    }
    const { follow = false, cell, signal } = options;
    const patience = new Patience(this.daemon.reconnectMs);
    const form = follow ? "sse" : "ndjson";
    for (let since = options.since ?? 0; ;) {
      let failure: unknown = new ConnectionLost(new Error("the stream ended"));
      try {
        const answer = await this.get("/events"
          + query({ since, follow, cell, lossy: options.lossy }), {
          signal, patience: 0,
          headers: { Accept: follow ? "text/event-stream" : "application/x-ndjson",
            ...(since > 0 ? { "Last-Event-ID": String(since) } : {}) },
        });
        for await (const line of readObjects(answer.body!, form, SILENCE_MS)) {
          if (line.type === "refused")
            throw fromRefusal(line);
          patience.reset();
          const event = line as unknown as Event;
          if (event.type !== "gap" && event.seq <= since)
            continue;
          since = event.type === "gap" ? event.to : event.seq;
          yield blobsOf(event).size > 0 ? await this.withBlobs(event) : event;
          if (follow && event.type === "stopped")
            return;
        }
        if (!follow)
          return;
      } catch (error) {
        failure = error;
      }
      await patience.next(failure, signal);
    }
  }

  // ---- the record

  /** Begins a section: a heading in the notebook, to which the cells behind it belong. */
  async section(title: string, options: { level?: number } = {}): Promise<void> {
    await this.send("POST", "/section", { title, level: options.level ?? 2 });
  }

  /** Puts a cell that is not run into the notebook; its id. */
  async note(text: string, options: { cellType?: "markdown" | "raw" | "code"; metadata?: Fields }
  = {}): Promise<string> {
    const answer = await this.send<{ note: string }>("POST", "/note",
      { text, cell_type: options.cellType ?? "markdown", metadata: options.metadata });
    return answer.note;
  }

  /** The notebook, as nbformat reads it; cells that were rolled back: "omit" or "keep". */
  notebook(options: { rolledBack?: "omit" | "keep" } = {}): Promise<reply.Notebook> {
    const path = this.path(`/notebook${query({ rolled_back: options.rolledBack })}`);
    return this.daemon.ask("GET", path, {
      safe: true, patience: this.daemon.reconnectMs, headers: { Accept: "*/*" } });
  }

  /** Waits until the notebook is saved; its path in the session's directory. */
  async save(): Promise<string> {
    return (await this.send<{ path: string }>("POST", "/save", {}, true)).path;
  }

  // ---- the session

  /** The limits; those that are named are changed. */
  async limits(values?: Record<string, number | null>): Promise<Record<string, reply.Limit>> {
    const answer = await (values
      ? this.send<{ limits: Record<string, reply.Limit> }>("POST", "/limits", { set: values }, true)
      : this.getJson<{ limits: Record<string, reply.Limit> }>("/limits"));
    return answer.limits;
  }

  /** The policy in force; over the Unix socket, `policy({ net: […] })` allows other hosts. */
  async policy(values?: Fields): Promise<Fields> {
    const answer = await (values
      ? this.send<{ policy: Fields }>("POST", "/policy", { set: values }, true)
      : this.getJson<{ policy: Fields }>("/policy"));
    return answer.policy;
  }

  /** Keeps the variables as they are now, under this name; `files`: those of the workspace, too. */
  async checkpoint(name: string, options: { files?: boolean } = {}): Promise<reply.Checkpoint> {
    const answer = await this.send<{ checkpoint: Fields }>("POST", "/checkpoint",
      { name, files: options.files });
    return reply.checkpoint(answer.checkpoint);
  }

  /** The states that are held: named ones, and those after the last cells. */
  async checkpoints(): Promise<reply.Checkpoints> {
    return reply.checkpoints(await this.getJson("/checkpoints"));
  }

  /** Lets a named checkpoint go. */
  async dropCheckpoint(name: string): Promise<void> {
    await this.send("DELETE", "/checkpoints/" + segment(name));
  }

  /** Returns to a checkpoint, by its name, or to before a cell; absent: before the last one. */
  async rollback(to?: string, options: { files?: boolean } = {}): Promise<reply.Rollback> {
    return reply.rollback(await this.send("POST", "/rollback", { to, files: options.files }));
  }

  /** An empty session: no variables, the same record. */
  async reset(): Promise<reply.Rollback> {
    return reply.rollback(await this.send("POST", "/reset", {}));
  }

  /** Another session that goes on from here, or from where rollback(at) would return to. close()
   * stops it, and removes it unless it has a name. */
  async fork(options: { name?: string; at?: string } = {}): Promise<Session> {
    const made = await this.send<{ session: string; name: string | null }>("POST", "/fork",
      { name: options.name, from: options.at });
    const info = await this.daemon.ask<SessionInfo>("GET", "/v1/sessions/" + segment(made.session),
      { safe: true });
    return new Session(this.daemon, info, true, options.name === undefined ? "remove" : "nothing");
  }

  /** A new interpreter: queued cells are cancelled, variables are gone. */
  async restart(): Promise<void> {
    await this.send("POST", "/restart", {});
  }

  /** Ends the session, now or after the cells that wait. It can be opened again. */
  async stop(options: { drain?: boolean } = {}): Promise<void> {
    await this.send("POST", "/stop", { mode: options.drain ? "drain" : "now" });
  }

  /** Stops the session and removes its record. */
  async remove(): Promise<void> {
    this.ends = "remove";
    await this.close();
  }

  /** Ends what began with this object: see the head of this file. May be called twice. */
  async close(): Promise<void> {
    const ends = this.ends;
    this.ends = "nothing";
    if (ends === "nothing")
      return;
    try {
      await this.daemon.end(this.id, ends === "stop");
    } catch (error) {
      const gone = (error instanceof NotFoundError || error instanceof GoneError)
        && error.status !== undefined;
      if (!gone)
        this.ends = ends; // it can be tried again
      if (!gone)
        throw error;
    }
  }

  /** A WebSocket with the session protocol. */
  channel(): Promise<Channel> {
    return Channel.open(this);
  }

  // ---- large values

  /** The event, with the values that were too large to come with it. */
  async withBlobs(event: Event): Promise<Event> {
    const blobs = new Map<string, Uint8Array>();
    for (const sha256 of blobsOf(event))
      blobs.set(sha256, await this.blob(sha256));
    return withBlobs(event, blobs) as Event;
  }

  private async blob(sha256: string): Promise<Uint8Array> {
    let whole = new Uint8Array(0);
    for (let at = 0; ;) {
      const answer = await this.getJson<{ data: string; total: number }>(
        `/blobs/${segment(sha256)}${query({ offset: at, length: PART_BYTES })}`);
      const part = fromBase64(answer.data);
      if (part === null || answer.total > BLOB_BYTES_MAX)
        throw new CorruptError("the daemon's answer holds no data", "corrupt");
      if (at === 0)
        whole = new Uint8Array(answer.total);
      whole.set(part.subarray(0, whole.length - at), at);
      at += part.length;
      if (at >= whole.length || part.length === 0)
        return whole;
    }
  }
}

/** All sessions of a daemon that may be seen, newest first. */
export function sessions(options: DaemonOptions = {}): Promise<SessionInfo[]> {
  return new Daemon(options).sessions();
}

/** Begins an ask in a session of its own. */
export function startAsk(instruction: string, options: AskOptions & DaemonOptions = {}): Ask {
  return new Ask(new Daemon(options), instruction, options);
}

/** Has a model write programs for the instruction, and runs them in a session of their own. */
export function ask(instruction: string, options: AskOptions & DaemonOptions = {}
): Promise<AskAnswer> {
  return startAsk(instruction, options).result();
}

// `await using session = await Session.start()`, where the language has it.
const disposal = (Symbol as { asyncDispose?: symbol }).asyncDispose;
if (disposal)
  Object.defineProperty(Session.prototype, disposal, {
    value(this: Session) { return this.close(); }, configurable: true, writable: true });
