/**
 * Events over a WebSocket of their own.
 *
 * A browser's WebSocket cannot be told to wait. So when who iterates is slower than what comes, the
 * connection is closed at a bound, and made again, from where the iteration is, when all that came
 * has been taken: nothing is missed, and memory is bounded.
 */
import type { Channel } from "./channel.js";
import { Patience } from "./lost.js";
import type { Event } from "./events.js";
import { blobsOf } from "./events.js";
import type { EventsOptions, Session } from "./session.js";

/** Events that wait for who iterates. One may have 16 MiB of values. */
const WAITING_MAX = 4096;
const WAITING_CHARS_MAX = 32 << 20;

class Feed {
  readonly events: Event[] = [];
  ended = false;
  failure: unknown = null;
  private chars = 0;
  private wake: (() => void) | null = null;

  constructor(private readonly channel: Channel) {
    channel.onEvent = (event) => this.take(event as unknown as Event);
    channel.onLost = (error) => this.end(error);
  }

  private take(event: Event): void {
    this.events.push(event);
    this.chars += typeof event.text === "string" ? event.text.length : 256;
    if (this.events.length >= WAITING_MAX || this.chars > WAITING_CHARS_MAX) {
      this.channel.onEvent = null;
      this.channel.close();
      this.end(null);
    }
    this.wake?.();
  }

  end(failure: unknown): void {
    this.failure ??= failure;
    this.ended = true;
    this.wake?.();
  }

  async next(): Promise<Event | null> {
    while (this.events.length === 0) {
      if (this.ended)
        return null;
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
    return this.events.shift()!;
  }
}

/** One connection's worth of events; whether that was all of them. */
async function* fromOne(session: Session, options: EventsOptions, since: number
): AsyncGenerator<Event, boolean, undefined> {
  const { follow = false, cell, lossy, signal } = options;
  signal?.throwIfAborted();
  const channel = await session.channel();
  const feed = new Feed(channel);
  const leave = (): void => { channel.close(); feed.end(signal?.reason); };
  signal?.addEventListener("abort", leave, { once: true });
  if (signal?.aborted)
    leave();
  let whole = false;
  try {
    await channel.call("events", { since, follow, cell, lossy: lossy || undefined });
    if (!follow) // its answer comes behind the last event
      channel.call("status").then(() => { whole = true; feed.end(null); },
        (error: unknown) => feed.end(channel.closed ? null : error));
    for (let event = await feed.next(); event !== null; event = await feed.next())
      yield event;
    if (feed.failure !== null)
      throw feed.failure;
    return whole;
  } finally {
    signal?.removeEventListener("abort", leave);
    channel.onEvent = channel.onLost = null;
    channel.close();
  }
}

export async function* channelEvents(session: Session, options: EventsOptions
): AsyncGenerator<Event, void, undefined> {
  const patience = new Patience(session.daemon.reconnectMs);
  for (let since = options.since ?? 0; ;) {
    const part = fromOne(session, options, since);
    try {
      let step = await part.next();
      for (; !step.done; step = await part.next()) {
        const event = step.value;
        if (event.type !== "gap" && event.seq <= since)
          continue;
        since = event.type === "gap" ? event.to : event.seq;
        patience.reset();
        yield blobsOf(event).size > 0 ? await session.withBlobs(event) : event;
        if (options.follow && event.type === "stopped")
          return;
      }
      if (step.value)
        return;
    } catch (error) {
      await patience.next(error, options.signal);
    } finally {
      await part.return(false);
    }
  }
}
