/**
 * When a connection is lost: how that is told from an answer, and how one waits for the next.
 *
 * A daemon that is restarted, or killed, takes no session with it. So who has something under way
 * connects again, for as long as `reconnect` says, and goes on where it was.
 */
import { BusyError, DeniedError, FumehoodError, GoneError, NotFoundError } from "./errors.js";

export const RECONNECT_MS = 20_000;
/** Nothing for so long on a stream that has a comment every 15 s: the other side is gone. */
export const SILENCE_MS = 45_000;
const WAIT_MIN_MS = 20;
const WAIT_MAX_MS = 1_000;

/** The connection broke, or there never was one and it cannot be told why (in browsers). */
export class ConnectionLost extends GoneError {
  constructor(cause: unknown, where = "the daemon") {
    const why = cause instanceof Error ? ` (${reasonOf(cause)})` : "";
    super(`the connection to ${where} was lost, or it refuses this page${why}`, "gone", { cause });
    this.name = "GoneError";
  }
}

/** Nothing listens there: what was asked for has certainly not been done. */
export class NoDaemon extends NotFoundError {
  constructor(where: string, cause: unknown) {
    super(`no daemon listens on ${where}: start one by \`fumehood serve\``, "not_found", { cause });
    this.name = "NotFoundError";
  }
}

function reasonOf(error: Error): string {
  const inner = (error as { cause?: unknown }).cause;
  return inner instanceof Error && inner.message ? inner.message : error.message;
}

const UNSENT = ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT"];

function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  return String(code ?? cause?.code ?? "");
}

/** What a fetch threw, as an exception of ours. */
export function fromFetch(error: unknown, where: string): FumehoodError {
  if (error instanceof FumehoodError)
    return error;
  const code = codeOf(error);
  if (UNSENT.includes(code))
    return new NoDaemon(where, error);
  if (code === "EACCES" || code === "EPERM")
    return new DeniedError(`the daemon ${where} is another user's`, "denied", { cause: error });
  return new ConnectionLost(error, where);
}

/** Whether to connect again: the daemon is away (a proxy before it says so with 502). */
export function isLost(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof NoDaemon
    || (error instanceof GoneError && error.status !== undefined && error.status >= 502);
}

/** Waits; rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted)
      stop();
    else
      signal?.addEventListener("abort", stop, { once: true });
  });
}

/** How long one has been without a connection, and waits before the next try. */
export class Patience {
  private since: number | null = null;
  private wait = WAIT_MIN_MS;

  constructor(private readonly forMs: number) {}

  /** Something came: all is well. */
  reset(): void {
    this.since = null;
    this.wait = WAIT_MIN_MS;
  }

  /** Waits before another try; throws the error when it is no loss, or the time is over. */
  async next(error: unknown, signal?: AbortSignal): Promise<void> {
    // One that has only just come back may still be busy; else that is an answer.
    const again = isLost(error) || (this.since !== null && error instanceof BusyError);
    this.since ??= Date.now();
    if (signal?.aborted)
      throw signal.reason;
    if (!again || Date.now() - this.since + this.wait > this.forMs)
      throw error;
    await sleep(this.wait, signal);
    this.wait = Math.min(2 * this.wait, WAIT_MAX_MS);
  }
}
