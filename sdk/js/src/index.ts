/**
 * fumehood: sandboxed, stateful Python sessions for agents, by a daemon (`fumehood serve`). For
 * Node 18 or later and for browsers; fetch and streams, no dependencies.
 */
export { Ask, AskAnswer } from "./ask.js";
export type { AskLine, AskOptions, AskProgram } from "./ask.js";
export { Channel } from "./channel.js";
export type { Reply } from "./channel.js";
export { Daemon } from "./daemon.js";
export type { DaemonOptions, RequestOptions, SessionInfo } from "./daemon.js";
export * from "./errors.js";
export type * from "./events.js";
export { Files } from "./files.js";
export type { Entry, Path, ReadOptions, Source } from "./files.js";
export type { Fetch } from "./platform.js";
export type * from "./replies.js";
export { Image, IMAGE_MIMES, Output, Result } from "./result.js";
export type { CellFailure, FileChange, OutputKind } from "./result.js";
export { Run } from "./run.js";
export type { Answer, Input, RunOptions } from "./run.js";
export { ask, Session, sessions, startAsk } from "./session.js";
export type { EventsOptions, StartOptions } from "./session.js";
