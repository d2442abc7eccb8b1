/**
 * Replies of the session protocol as objects (doc/protocol.md, "Requests").
 */
type Fields = Record<string, unknown>;

/** What may stand at the cursor. `start` and `end`: what a match replaces, in characters. */
export interface Completion {
  matches: string[];
  start: number;
  end: number;
  types: Fields[];
  /** The answer was cut off after two seconds. */
  partial: boolean;
}

/** What the thing at the cursor is. */
export interface Inspection {
  found: boolean;
  data: Record<string, string>;
  text: string;
  partial: boolean;
}

export interface Variable {
  name: string;
  type: string;
  repr: string;
  module?: string;
  shape?: number[];
  length?: number;
  /** Bytes, an estimate. */
  size?: number;
}

/** Variables by name. `total`: how many there are; `partial`: time was over. */
export interface Variables extends Array<Variable> {
  total: number;
  partial: boolean;
}

/** An image that was displayed (`place` "session") or written ("workspace"). */
export interface ImageFile {
  cell: string;
  n?: number;
  path?: string;
  mime: string;
  bytes: number;
  section: string | null;
  place: "session" | "workspace";
}

/** How the session is. `raw` has all that the keeper told. */
export interface Status {
  state: string;
  cell: string | null;
  queue: string[];
  lastSeq: number;
  tier: string;
  raw: Fields;
}

export interface Limit {
  value: number | null;
  changes: "now" | "lower" | "restart";
  next?: number | null;
}

/** A state of the variables that is held. `name` null: one that was made by itself. */
export interface Checkpoint {
  number: number;
  name: string | null;
  /** The last cell that is in it. */
  cell: string | null;
  executionCount: number;
  raw: Fields;
}

/** Those that are held. `recoversTo`: the cell after which a death now would return to;
 * `protected`: whether that is the present state. */
export interface Checkpoints extends Array<Checkpoint> {
  recoversTo: string | null;
  protected: boolean;
}

/** What a return to another state has done. */
export interface Rollback {
  /** The last cell that is in the state now. */
  cell: string | null;
  /** Cells that no longer are. */
  rolledBack: string[];
  /** What does not come back. */
  lost: Fields;
  files: Fields;
}

/** A notebook, as nbformat 4.5 has it. */
export interface Notebook {
  nbformat: number;
  nbformat_minor: number;
  metadata: Fields;
  cells: ({ id: string; cell_type: string; source: string; metadata: Fields } & Fields)[];
}

export function completion(reply: Fields): Completion {
  const metadata = (reply.metadata ?? {}) as Fields;
  return {
    matches: reply.matches as string[], start: Number(reply.cursor_start),
    end: Number(reply.cursor_end), partial: Boolean(reply.partial),
    types: (metadata._jupyter_types_experimental ?? []) as Fields[],
  };
}

export function inspection(reply: Fields): Inspection {
  const data = (reply.data ?? {}) as Record<string, string>;
  return { found: Boolean(reply.found), data, text: data["text/plain"] ?? "",
    partial: Boolean(reply.partial) };
}

export function variables(reply: Fields): Variables {
  const found = reply.variables as Variable[];
  return Object.assign([...found], {
    total: Number(reply.total ?? found.length), partial: Boolean(reply.partial) });
}

export function status(reply: Fields): Status {
  return {
    state: String(reply.state), cell: (reply.cell ?? null) as string | null,
    queue: (reply.queue ?? []) as string[], lastSeq: Number(reply.last_seq),
    tier: String(reply.tier), raw: reply,
  };
}

export function checkpoint(item: Fields): Checkpoint {
  return {
    number: Number(item.number), name: (item.name ?? null) as string | null,
    cell: (item.cell ?? null) as string | null, executionCount: Number(item.execution_count ?? 0),
    raw: item,
  };
}

export function checkpoints(reply: Fields): Checkpoints {
  return Object.assign((reply.checkpoints as Fields[]).map(checkpoint), {
    recoversTo: (reply.recovers_to ?? null) as string | null,
    protected: Boolean(reply.protected) });
}

export function rollback(reply: Fields): Rollback {
  return {
    cell: (reply.cell ?? null) as string | null,
    rolledBack: (reply.rolled_back ?? []) as string[], lost: (reply.lost ?? {}) as Fields,
    files: (reply.files ?? {}) as Fields,
  };
}
