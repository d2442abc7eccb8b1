/**
 * A daemon (`fumehood serve`): where it is, and how it is asked. Requests are those of doc/rest.md.
 *
 * A request that can be repeated without harm is, while the daemon is away; so is one that has
 * certainly not reached it. Of any other the caller is told that the connection was lost.
 */
import { readAddress, query, segment } from "./address.js";
import type { Address } from "./address.js";
import { CorruptError, fromProblem, UnauthorizedError } from "./errors.js";
import type { FumehoodError } from "./errors.js";
import { fromFetch, NoDaemon, Patience, RECONNECT_MS } from "./lost.js";
import { platform } from "./platform.js";
import type { Fetch, Platform, Socket, SocketHandlers } from "./platform.js";

export interface DaemonOptions {
  /** Its address (address.ts). Absent: this user's socket; in a page, where that came from. */
  daemon?: string;
  /** From `fumehood token create`. Absent: that of this user's own daemon, if it is the one. */
  token?: string;
  /** Milliseconds for which a daemon that is away is waited for. Default: 20,000. */
  reconnect?: number;
  /** Another fetch, such as one that goes through a proxy. */
  fetch?: Fetch;
}

/** A session, as the daemon lists it. */
export interface SessionInfo {
  id: string;
  name: string | null;
  running: boolean;
  state: string;
  tier?: string;
  cell?: string | null;
  queue?: number;
  last_seq?: number;
  created?: string;
  [member: string]: unknown;
}

export interface RequestOptions {
  /** JSON; `bytes` instead is sent as it is. */
  body?: Record<string, unknown>;
  bytes?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** It can be repeated: asked twice is as asked once. */
  safe?: boolean;
  /** Milliseconds for which a daemon that is away is waited for. */
  patience?: number;
}

interface Link {
  platform: Platform;
  address: Address;
  fetch: Fetch;
  token: string | null;
}

/** What a page has, and Node has not. */
function ownAddress(): string {
  return (globalThis as { location?: { origin?: string } }).location?.origin ?? "";
}

export class Daemon {
  readonly reconnectMs: number;
  private made: Promise<Link> | null = null;

  constructor(private readonly options: DaemonOptions = {}) {
    this.reconnectMs = options.reconnect ?? RECONNECT_MS;
  }

  private link(): Promise<Link> {
    this.made ??= this.makeLink();
    return this.made;
  }

  private async makeLink(): Promise<Link> {
    const here = await platform();
    const address = readAddress(this.options.daemon ?? ownAddress(), () => here.usualSocket());
    return {
      platform: here, address, fetch: this.options.fetch ?? here.fetchFor(address),
      token: this.options.token ?? await noteOf(here, address),
    };
  }

  /** Where it is, for messages. */
  private whereOf(link: Link): string {
    return link.address.socketPath ?? link.address.base;
  }

  /** A request; its answer, whose body is to be read. Throws what the daemon says is wrong. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const link = await this.link();
    const patience = new Patience(options.patience ?? 0);
    let renewed = false;
    for (;;) {
      let error: FumehoodError;
      try {
        return await this.once(link, method, path, options);
      } catch (caught) {
        if (options.signal?.aborted)
          throw options.signal.reason;
        error = fromFetch(caught, this.whereOf(link));
      }
      if (error instanceof UnauthorizedError && !renewed && await this.renewToken(link)) {
        renewed = true; // its own token ends with a daemon: the next one has left another
        continue;
      }
      const once = options.bytes instanceof ReadableStream;
      if (once || !(options.safe || error instanceof NoDaemon))
        throw error;
      await patience.next(error, options.signal);
    }
  }

  private async once(link: Link, method: string, path: string, options: RequestOptions
  ): Promise<Response> {
    const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
    const init: RequestInit & { duplex?: "half" } = { method, headers, signal: options.signal };
    if (link.token !== null)
      headers.Authorization = "Bearer " + link.token;
    if (options.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(options.body);
    } else if (options.bytes !== undefined) {
      headers["Content-Type"] = "application/octet-stream";
      init.body = options.bytes;
      init.duplex = "half";
    }
    const answer = await link.fetch(link.address.base + path, init);
    if (answer.ok)
      return answer;
    throw fromProblem(answer.status, await answer.text(), answer.headers.get("Retry-After"));
  }

  private async renewToken(link: Link): Promise<boolean> {
    if (this.options.token !== undefined)
      return false;
    const token = await noteOf(link.platform, link.address);
    const changed = token !== link.token;
    link.token = token;
    return changed;
  }

  /** A request whose answer is JSON, or nothing. */
  async ask<T = Record<string, unknown>>(method: string, path: string, options?: RequestOptions
  ): Promise<T> {
    const answer = await this.request(method, path, options);
    const text = await this.text(answer);
    if (text === "")
      return {} as T;
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new CorruptError("what answers there is no daemon of Fumehood's", "corrupt", { cause });
    }
  }

  /** The whole body as text. */
  async text(answer: Response): Promise<string> {
    try {
      return await answer.text();
    } catch (error) {
      throw fromFetch(error, this.whereOf(await this.link()));
    }
  }

  /** The whole body. */
  async bytes(answer: Response): Promise<Uint8Array> {
    try {
      return new Uint8Array(await answer.arrayBuffer());
    } catch (error) {
      throw fromFetch(error, this.whereOf(await this.link()));
    }
  }

  /** A WebSocket. */
  async connect(path: string, handlers: SocketHandlers): Promise<Socket> {
    const link = await this.link();
    await this.renewToken(link);
    return link.platform.connect(link.address, path, link.token, handlers);
  }

  /** All sessions that may be seen, newest first. */
  async sessions(): Promise<SessionInfo[]> {
    const answer = await this.ask<{ sessions?: SessionInfo[] }>("GET", "/v1/sessions");
    if (!Array.isArray(answer.sessions))
      throw new CorruptError("what answers there is no daemon of Fumehood's", "corrupt");
    return answer.sessions;
  }

  /** Stops a session; removes its record unless it is to be kept. */
  async end(session: string, keep = false): Promise<void> {
    await this.ask("DELETE", `/v1/sessions/${segment(session)}${query({ keep: keep || null })}`);
  }
}

function noteOf(here: Platform, address: Address): Promise<string | null> {
  return address.socketPath === null ? here.tokenFor(address.base) : Promise.resolve(null);
}
