/**
 * Where a daemon is: "http://HOST:PORT", "https://…", "unix:/path/to/api.sock" or that path; "" is
 * the usual socket of this user. In a browser only URLs, and "" is where the page came from.
 */
import { UsageError } from "./errors.js";

export interface Address {
  /** Without a slash at the end. Of a Unix socket "http://localhost". */
  base: string;
  /** The path of a Unix socket. */
  socketPath: string | null;
}

/** Reads an address; `usualSocket` is asked for when it is that of this user. Pure. */
export function readAddress(text: string, usualSocket: () => string): Address {
  if (text === "" || text === "unix:")
    return { base: "http://localhost", socketPath: usualSocket() };
  if (text.startsWith("unix:") || text.startsWith("/"))
    return { base: "http://localhost", socketPath: text.replace(/^unix:/, "") };
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw wrong(text);
  }
  if (url.username !== "" || url.password !== "")
    throw new UsageError("give the token as `token`, not in the address");
  if (!["http:", "https:"].includes(url.protocol) || !/^\/*$/.test(url.pathname)
    || url.search !== "" || url.hash !== "")
    throw wrong(text);
  return { base: url.origin, socketPath: null };
}

function wrong(text: string): UsageError {
  return new UsageError("a daemon's address is http://HOST:PORT, https://HOST:PORT or the path of "
    + `its socket, not ${text}`);
}

/** A session's name or id, a cell or the like as a part of a URL. */
export function segment(text: string): string {
  if (text === "" || text === "." || text === "..")
    throw new UsageError(`${JSON.stringify(text)} names nothing`);
  return encodeURIComponent(text);
}

/** A query of those parameters that have a value; with "?" before it. */
export function query(params: Record<string, string | number | boolean | null | undefined>
): string {
  const words = Object.entries(params)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return words.length > 0 ? "?" + words.join("&") : "";
}
