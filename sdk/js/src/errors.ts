/**
 * The exceptions: one class for each code that Fumehood gives.
 *
 * A code is a word of the session protocol ("busy", "no_space"; doc/protocol.md) or one that HTTP
 * adds ("unauthorized", "rate"; doc/rest.md, "Refusals"). Every exception is a FumehoodError with
 * that word in `code` and a sentence that says what to do; the one of a problem document (RFC 9457)
 * has its `status` and `type`, too. What the code in a cell does wrong is no exception here: it is
 * the status of a Result, and CellError only for who asks for one (Result.throwForError).
 */
import type { AskAnswer } from "./ask.js";
import type { Result } from "./result.js";

export interface ErrorDetails {
  /** The status of HTTP, when a daemon's answer was the reason. */
  status?: number;
  /** The `type` of the problem document: "urn:fumehood:…". */
  type?: string;
  /** Seconds after which it can be tried again, when the daemon said so. */
  retryAfter?: number;
  cause?: unknown;
}

/** Fumehood could not do what it was asked for. `code` says what kind of failure it is. */
export class FumehoodError extends Error {
  readonly code: string;
  readonly status: number | undefined;
  readonly type: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(message: string, code = "internal", details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.status = details.status;
    this.type = details.type;
    this.retryAfter = details.retryAfter;
  }
}

/** A parameter makes no sense. */
export class UsageError extends FumehoodError {
  constructor(message: string, code = "usage", details?: ErrorDetails) {
    super(message, code, details);
  }
}

/** A request, a file or a value is not of the right form. */
export class InvalidError extends FumehoodError {}

/** The id or the name is taken, or a session of this name exists with other options. */
export class DuplicateError extends FumehoodError {}

/** There is no such session, cell or file, or no daemon. */
export class NotFoundError extends FumehoodError {}

/** Someone else owns it now, a cell is running, or the queue is full. */
export class BusyError extends FumehoodError {}

/** Rights are missing, or the policy forbids it. */
export class DeniedError extends FumehoodError {}

/** The token is missing, wrong, or has ended. */
export class UnauthorizedError extends DeniedError {}

/** This version, engine or kernel cannot do it. */
export class UnsupportedError extends FumehoodError {}

/** A named limit was met. */
export class LimitError extends FumehoodError {}

/** The disk is full. */
export class NoSpaceError extends FumehoodError {}

/** It took too long. */
export class TimedOutError extends FumehoodError {}

/** A file or a message of Fumehood's is damaged. */
export class CorruptError extends FumehoodError {}

/** The session has stopped, its keeper has died, or the connection was lost. */
export class GoneError extends FumehoodError {}

/** The sandbox could not be built as the policy demands. `fumehood doctor` says why. */
export class SandboxError extends FumehoodError {}

/** The interpreter could not be started. */
export class EngineError extends FumehoodError {}

/** A system call failed: most often the disk. */
export class DiskError extends FumehoodError {}

/** A bug of Fumehood's. */
export class InternalError extends FumehoodError {}

/** A cell did not end well. Thrown by Result.throwForError() alone; `result` is that result. */
export class CellError extends FumehoodError {
  readonly result: Result;

  constructor(message: string, result: Result) {
    super(message, "cell");
    this.result = result;
  }
}

/** An ask had no success. Thrown by AskAnswer.throwForError() alone; `answer` is that answer. */
export class AnswerError extends FumehoodError {
  readonly answer: AskAnswer;

  constructor(message: string, answer: AskAnswer) {
    super(message, "answer");
    this.answer = answer;
  }
}

type Kind = new (message: string, code?: string, details?: ErrorDetails) => FumehoodError;

const KINDS: Readonly<Record<string, Kind>> = {
  usage: UsageError,
  invalid: InvalidError,
  duplicate: DuplicateError,
  not_found: NotFoundError,
  busy: BusyError,
  denied: DeniedError,
  unsupported: UnsupportedError,
  limit: LimitError,
  no_space: NoSpaceError,
  timeout: TimedOutError,
  corrupt: CorruptError,
  gone: GoneError,
  sandbox: SandboxError,
  engine: EngineError,
  io: DiskError,
  internal: InternalError,
  // What HTTP adds.
  unauthorized: UnauthorizedError,
  misdirected: DeniedError,
  not_acceptable: InvalidError,
  media_type: InvalidError,
  method_not_allowed: InvalidError,
  range: InvalidError,
  upgrade_required: UnsupportedError,
  rate: LimitError,
};

// For an answer that is no problem document, as a proxy before the daemon gives it.
const STATUSES: Readonly<Record<number, string>> = {
  401: "unauthorized", 403: "denied", 404: "not_found", 408: "timeout", 409: "duplicate",
  410: "gone", 413: "limit", 429: "rate", 502: "gone", 503: "busy", 504: "timeout", 507: "no_space",
};

/** The exception for a code; of one that is not known, a FumehoodError with it. */
export function makeError(code: string, message: string, details?: ErrorDetails): FumehoodError {
  const Made = Object.hasOwn(KINDS, code) ? KINDS[code]! : FumehoodError;
  return new Made(message, code, details);
}

/** The exception for a line `refused` of the session protocol. */
export function fromRefusal(answer: Record<string, unknown>): FumehoodError {
  return makeError(String(answer.code ?? "internal"), String(answer.message ?? "refused"));
}

/** The exception for an answer with a status of 400 or more, by its problem document. */
export function fromProblem(status: number, text: string, retryAfter: string | null
): FumehoodError {
  const wait = Number(retryAfter ?? NaN);
  const details: ErrorDetails = { status, retryAfter: Number.isFinite(wait) ? wait : undefined };
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  const problem = (typeof body === "object" && body !== null ? body : {}) as
    Record<string, unknown>;
  if (typeof problem.code !== "string" || typeof problem.detail !== "string")
    return makeError(STATUSES[status] ?? "internal",
      `the daemon answered with status ${status}`, details);
  details.type = typeof problem.type === "string" ? problem.type : undefined;
  const hint = status === 401 ? " (give a token: `fumehood token create`)" : "";
  return makeError(problem.code, problem.detail + hint, details);
}
