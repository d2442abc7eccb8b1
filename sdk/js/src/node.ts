/**
 * Node: Unix sockets, the token of this user's own daemon, and a WebSocket.
 *
 * Node's fetch reaches no Unix socket without a package, so over one node:http asks, and what comes
 * back is a Response as from fetch; its body is read as fast as who reads it. Node before 22 has no
 * WebSocket, and none of its own ever reaches a Unix socket or sets Authorization: the handshake
 * goes through node:http, the frames are frames.ts.
 */
import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { Duplex } from "node:stream";

import { encodeFrame, FrameReader } from "./frames.js";
import type { Address } from "./address.js";
import type { Platform, Socket, SocketHandlers } from "./platform.js";

const CONNECT_MS = 120_000; // a first session waits for its pool
const REFUSAL_BYTES_MAX = 64 << 10;
const ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // RFC 6455 §1.3

function runtime(): string {
  const place = process.env.XDG_RUNTIME_DIR;
  return place ? join(place, "fumehood") : `/tmp/fumehood-${process.getuid?.() ?? 0}`;
}

/** Waits until the stream takes more, or has ended. */
function drained(request: http.ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    request.once("drain", resolve).once("close", resolve);
  });
}

async function sendBody(request: http.ClientRequest, body: unknown): Promise<void> {
  if (body instanceof ReadableStream || body instanceof Blob) {
    const stream = body instanceof Blob ? body.stream() : body;
    for await (const piece of stream as unknown as AsyncIterable<Uint8Array>) {
      if (request.destroyed)
        return;
      if (!request.write(piece))
        await drained(request);
    }
    request.end();
  } else if (body instanceof ArrayBuffer) {
    request.end(new Uint8Array(body));
  } else {
    request.end(body ?? undefined);
  }
}

function toResponse(answer: http.IncomingMessage): Response {
  const headers = new Headers();
  for (let at = 0; at + 1 < answer.rawHeaders.length; at += 2)
    headers.append(answer.rawHeaders[at]!, answer.rawHeaders[at + 1]!);
  const status = answer.statusCode ?? 502;
  const empty = status === 204 || status === 205 || status === 304;
  if (empty)
    answer.resume();
  const body = empty ? null : Readable.toWeb(answer) as unknown as ReadableStream<Uint8Array>;
  return new Response(body, { status, headers });
}

/** As fetch, over a Unix socket. */
function unixFetch(socketPath: string, url: string, init: RequestInit): Promise<Response> {
  const { pathname, search } = new URL(url);
  const signal = init.signal ?? undefined;
  return new Promise((resolve, reject) => {
    const headers = { ...(init.headers as Record<string, string>), Host: "localhost" };
    const request = http.request({
      socketPath, path: pathname + search, method: init.method ?? "GET", headers, signal,
      agent: false,
    });
    request.on("response", (answer) => {
      // An abort ends the body, too; who reads it is told what the signal says.
      answer.on("error", () => undefined);
      resolve(toResponse(answer));
    });
    request.on("error", (error) => reject(signal?.aborted ? signal.reason : error));
    sendBody(request, init.body).catch((error: Error) => request.destroy(error));
  });
}

/** A WebSocket over an upgraded connection. */
class NodeSocket implements Socket {
  private duplex: Duplex | null = null;
  private closed = false;
  private readonly frames = new FrameReader();

  constructor(private readonly handlers: SocketHandlers) {}

  start(address: Address, path: string, token: string | null): void {
    const key = randomBytes(16).toString("base64");
    const url = new URL(address.base + path);
    const options: http.RequestOptions = {
      method: "GET", path: url.pathname + url.search, agent: false, timeout: CONNECT_MS,
      headers: {
        Host: url.host, Upgrade: "websocket", Connection: "Upgrade", "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "fumehood.v1",
        ...(token === null ? {} : { Authorization: "Bearer " + token }),
      },
    };
    if (address.socketPath !== null)
      options.socketPath = address.socketPath;
    else
      Object.assign(options, { hostname: url.hostname.replace(/^\[|\]$/g, ""), port: url.port });
    const request = (url.protocol === "https:" ? https : http).request(options);
    request.on("upgrade", (answer, duplex, head) => this.upgraded(key, answer, duplex, head));
    request.on("response", (answer) => this.refused(answer));
    request.on("timeout", () => request.destroy(new Error("the daemon gave no answer")));
    request.on("error", (error) => this.end(error.message));
    request.end();
  }

  send(text: string): void {
    this.duplex?.write(encodeFrame(1, Buffer.from(text)));
  }

  close(): void {
    if (this.duplex && !this.closed)
      this.duplex.end(encodeFrame(8, Buffer.from([0x03, 0xe8])));
    this.end("the connection was closed");
  }

  private upgraded(key: string, answer: http.IncomingMessage, duplex: Duplex, head: Buffer): void {
    const proof = createHash("sha1").update(key + ACCEPT).digest("base64");
    duplex.on("error", (error) => this.end(error.message));
    if (answer.headers["sec-websocket-accept"] !== proof) {
      duplex.destroy();
      this.end("what answers there speaks no WebSocket");
    } else if (this.closed) {
      duplex.destroy();
    } else {
      this.duplex = duplex;
      (duplex as { setTimeout?: (ms: number) => void }).setTimeout?.(0);
      this.handlers.open();
      duplex.on("data", (data: Buffer) => this.received(data));
      duplex.on("close", () => this.end("the daemon closed the connection"));
      this.received(head);
    }
  }

  private refused(answer: http.IncomingMessage): void {
    let text = "";
    answer.setEncoding("utf-8").on("data", (piece: string) => {
      text += text.length < REFUSAL_BYTES_MAX ? piece : "";
    }).on("close", () => this.end("the daemon refused the connection",
      { status: answer.statusCode ?? 0, text }));
  }

  private received(data: Uint8Array): void {
    try {
      for (const frame of this.frames.push(data)) {
        if (this.closed)
          return;
        if (frame.opcode === 1)
          this.handlers.message(frame.text);
        else if (frame.opcode === 9)
          this.duplex?.write(encodeFrame(10, frame.payload));
        else if (frame.opcode === 8)
          this.end(frame.text || "the daemon closed the connection");
      }
    } catch (error) {
      this.end((error as Error).message);
    }
  }

  private end(reason: string, refused?: { status: number; text: string }): void {
    if (this.closed)
      return;
    this.closed = true;
    if (this.duplex && !this.duplex.writableEnded)
      this.duplex.destroy();
    this.handlers.close(reason, refused);
  }
}

export const nodePlatform: Platform = {
  usualSocket: () => join(runtime(), "api.sock"),

  async tokenFor(base) {
    try {
      const note = JSON.parse(await readFile(join(runtime(), "api.json"), "utf-8")) as
        { url: string; token: string };
      return new URL(note.url).origin === base ? String(note.token) : null;
    } catch {
      return null;
    }
  },

  fetchFor(address) {
    const path = address.socketPath;
    if (path === null)
      return (url, init) => globalThis.fetch(url, { redirect: "error", ...init });
    return (url, init) => unixFetch(path, url, init);
  },

  connect(address, path, token, handlers) {
    const socket = new NodeSocket(handlers);
    socket.start(address, path, token);
    return socket;
  },
};
