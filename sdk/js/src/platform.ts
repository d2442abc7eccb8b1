/**
 * What differs between Node and browsers, as an interface: who fetches, who makes a WebSocket, and
 * what is known of the daemon of this user. Node's part is node.ts, loaded only there.
 */
import { UnsupportedError } from "./errors.js";
import type { Address } from "./address.js";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A connection of WebSocket as the channel uses it. */
export interface Socket {
  send(text: string): void;
  close(): void;
}

export interface SocketHandlers {
  open(): void;
  message(text: string): void;
  /** Once, also when it never was open. `refused`: the daemon's answer instead of a connection. */
  close(reason: string, refused?: { status: number; text: string }): void;
}

export interface Platform {
  /** The path of the Unix socket of this user's daemon. */
  usualSocket(): string;
  /** The token that this user's own daemon has left for its clients, if it is the one at `base`. */
  tokenFor(base: string): Promise<string | null>;
  /** A fetch that goes to the address. */
  fetchFor(address: Address): Fetch;
  connect(address: Address, path: string, token: string | null, handlers: SocketHandlers): Socket;
}

interface ProcessLike { versions?: { node?: string } }

/** The platform that this runs on. */
export async function platform(): Promise<Platform> {
  const found = (globalThis as { process?: ProcessLike }).process?.versions?.node;
  return found ? (await import("./node.js")).nodePlatform : BROWSER;
}

function noSocket(): never {
  throw new UnsupportedError("a browser has no Unix sockets: give the daemon's URL", "unsupported");
}

/** A page can set no field of a WebSocket but its protocols: the token goes there. */
export function protocols(token: string | null): string[] {
  return token === null ? ["fumehood.v1"] : ["fumehood.v1", "fumehood.token." + token];
}

const BROWSER: Platform = {
  usualSocket: noSocket,
  tokenFor: () => Promise.resolve(null),

  fetchFor(address) {
    if (address.socketPath !== null)
      noSocket();
    // Called as a method of anything but the global object, a browser's fetch throws. A page's
    // cookies are none of the daemon's business.
    return (url, init) => globalThis.fetch(url, {
      cache: "no-store", credentials: "omit", redirect: "error", ...init });
  },

  connect(address, path, token, handlers) {
    const socket = new WebSocket(address.base.replace(/^http/, "ws") + path, protocols(token));
    socket.onopen = () => handlers.open();
    socket.onmessage = (event) => handlers.message(String(event.data));
    socket.onclose = (event) => handlers.close(
      event.reason || `the connection was closed (${event.code})`);
    return { send: (text) => socket.send(text), close: () => socket.close() };
  },
};
