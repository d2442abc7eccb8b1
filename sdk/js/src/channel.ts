/**
 * Channel: the session protocol over a WebSocket (doc/protocol.md), for who asks often: a request
 * costs no head of HTTP, and any op of the protocol can be sent.
 *
 * One connection, made at the first use and again when it was lost. Answers are found by their id.
 * A request whose answer was lost is rejected (GoneError): whether it was done is not known; the
 * next one connects again. Events go to `onEvent`; Session.events({ via: "websocket" }) is the way
 * to have all of them.
 */
import { fromProblem, fromRefusal, GoneError, UsageError } from "./errors.js";
import type { FumehoodError } from "./errors.js";
import { ConnectionLost, Patience } from "./lost.js";
import type { Socket } from "./platform.js";
import type { Session } from "./session.js";
import { randomId } from "./run.js";
import { parseObject } from "./sse.js";

export type Reply = Record<string, unknown>;

interface Waiting {
  resolve: (reply: Reply) => void;
  reject: (error: unknown) => void;
}

export class Channel {
  /** The keeper's first message on the present connection. */
  hello: Reply = {};
  /** Hears each event, when `events` was asked for. */
  onEvent: ((event: Reply) => void) | null = null;
  /** Hears when the connection is lost. */
  onLost: ((error: FumehoodError) => void) | null = null;

  private socket: Socket | null = null;
  private connecting: Promise<Socket> | null = null;
  private readonly waiting = new Map<string, Waiting>();
  private over = false;

  private constructor(private readonly session: Session) {}

  /** A channel that is connected. */
  static async open(session: Session): Promise<Channel> {
    const channel = new Channel(session);
    await channel.connected();
    return channel;
  }

  /** Sends a request and waits for its reply; rejects with what it was refused with. */
  async call(op: string, fields: Record<string, unknown> = {}): Promise<Reply> {
    const socket = await this.connected();
    // The id of a run or a note is that of the cell.
    const id = typeof fields.id === "string" ? fields.id : randomId();
    if (this.waiting.has(id))
      throw new UsageError(`the answer to a request with the id ${id} is still awaited`);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ ...fields, op, id }));
    });
  }

  get closed(): boolean {
    return this.over;
  }

  close(): void {
    this.over = true;
    this.socket?.close();
    this.lost(new GoneError("the channel was closed", "gone"));
  }

  // ---- the connection

  private connected(): Promise<Socket> {
    if (this.over)
      return Promise.reject(new GoneError("the channel was closed", "gone"));
    if (this.socket)
      return Promise.resolve(this.socket);
    this.connecting ??= this.connect().finally(() => { this.connecting = null; });
    return this.connecting;
  }

  private async connect(): Promise<Socket> {
    const patience = new Patience(this.session.daemon.reconnectMs);
    for (;;) {
      try {
        return await this.connectOnce();
      } catch (error) {
        await patience.next(await this.explain(error));
      }
    }
  }

  /** A page is not told why a WebSocket was refused; a request with the same right is. */
  private async explain(error: unknown): Promise<unknown> {
    if (!(error instanceof ConnectionLost))
      return error;
    try {
      await this.session.get("/status", { patience: 0 });
      return error;
    } catch (told) {
      return told;
    }
  }

  private connectOnce(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      let socket: Socket | null = null;
      let ready = false;
      const handlers = {
        open: () => undefined,
        message: (text: string) => {
          if (ready) {
            this.take(text);
          } else if (socket) {
            ready = true;
            this.hello = parseObject(text);
            this.socket = socket;
            if (this.over)
              socket.close();
            resolve(socket);
          }
        },
        close: (reason: string, refused?: { status: number; text: string }) => {
          const error = refused ? fromProblem(refused.status, refused.text, null)
            : new ConnectionLost(new Error(reason));
          reject(error);
          if (ready && this.socket === socket)
            this.lost(error);
        },
      };
      this.session.daemon.connect(this.session.path("/channel"), handlers).then(
        (made) => { socket = made; }, reject);
    });
  }

  private lost(error: FumehoodError): void {
    const waiting = [...this.waiting.values()];
    this.socket = null;
    this.waiting.clear();
    for (const one of waiting)
      one.reject(error);
    if (!this.over)
      this.onLost?.(error);
  }

  private take(text: string): void {
    const message = parseObject(text);
    if (message.type !== "reply" && message.type !== "refused") {
      this.onEvent?.(message);
      return;
    }
    const id = String(message.id);
    const one = this.waiting.get(id);
    this.waiting.delete(id);
    if (message.type === "refused")
      one?.reject(fromRefusal(message));
    else
      one?.resolve(message);
  }
}
