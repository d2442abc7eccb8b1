/**
 * One request with JSON, and its answer, over node:http.
 *
 * The length is that of the bytes, not of the characters. There is a limit of time for the
 * connection and none for the answer: models and programs take as long as they take, and who waits
 * can cancel.
 */
import * as http from "node:http";
import * as https from "node:https";

const CONNECT_MS = 10_000;
const ANSWER_BYTES_MAX = 256 << 20;

export interface Answer {
  status: number;
  text: string;
}

/** Nothing listens there. */
export class NoServer extends Error {}

export interface Options {
  body?: unknown;
  signal?: AbortSignal;
  /** Milliseconds for the whole answer; absent: no limit. */
  timeout?: number;
}

export function request(method: string, address: string, options: Options = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const url = new URL(address);
    if (url.protocol !== "http:" && url.protocol !== "https:")
      throw new Error(`the endpoint ${address} is no http:// or https:// address`);
    const data = options.body === undefined ? undefined : Buffer.from(JSON.stringify(options.body));
    const headers: http.OutgoingHttpHeaders = { Accept: "application/json" };
    if (data !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["Content-Length"] = data.byteLength;
    }
    const sent = (url.protocol === "https:" ? https : http).request(url, {
      method, headers, agent: false, signal: options.signal });
    const late = (what: string) => () => sent.destroy(new Error(`${url.origin} ${what}`));
    let timer = setTimeout(late("accepts no connection"), CONNECT_MS);
    sent.on("socket", (socket) => socket.once(
      url.protocol === "https:" ? "secureConnect" : "connect", () => {
        clearTimeout(timer);
        if (options.timeout !== undefined)
          timer = setTimeout(late("gave no answer"), options.timeout);
      }));
    const fail = (error: NodeJS.ErrnoException): void => {
      if (options.signal?.aborted)
        reject(options.signal.reason);
      else if (error.code === "ECONNREFUSED" || error.code === "ENOENT")
        reject(new NoServer(`nothing listens on ${url.origin}`, { cause: error }));
      else
        reject(error);
    };
    sent.on("error", fail);
    sent.on("close", () => clearTimeout(timer));
    sent.on("response", (answer) => {
      const pieces: Buffer[] = [];
      let size = 0;
      answer.on("data", (piece: Buffer) => {
        size += piece.length;
        if (size > ANSWER_BYTES_MAX)
          sent.destroy(new Error(`${url.origin} gave an answer without end`));
        else
          pieces.push(piece);
      });
      answer.on("error", fail);
      answer.on("end", () => resolve({
        status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString("utf-8") }));
    });
    sent.end(data);
  });
}
