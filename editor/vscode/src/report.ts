/**
 * What is written to the output channel: pure, from what the servers said.
 *
 * Outcome is the dict of the original (POST /execute). Transcript takes the lines of a live ask
 * (doc/ask.md): programs may be written at the same time, and are told one after the other, each
 * with what it printed when it ran.
 */
import type { AskAnswer, AskLine } from "fumehood";

/** What POST /execute answers; what is optional comes from Fumehood only. */
export interface Outcome {
  success: boolean;
  stdout: string;
  stderr: string;
  code: string;
  attempts: number;
  response: string;
  message?: string;
  confidence?: string;
  agreement?: { k: number; n: number };
  suspicions?: string[];
}

const RULE = "-".repeat(60);

function block(title: string, text: string): string {
  return `${title}\n${RULE}\n${text.replace(/\n$/, "")}\n${RULE}\n`;
}

/** The words of an answer whose status is 200; throws when it is none. */
export function readOutcome(text: string): Outcome {
  const value = JSON.parse(text) as Partial<Outcome> | null;
  if (typeof value !== "object" || value === null || typeof value.success !== "boolean")
    throw new Error("what answers there is no SLM Code Interpreter");
  return {
    ...value, success: value.success, stdout: String(value.stdout ?? ""),
    stderr: String(value.stderr ?? ""), code: String(value.code ?? ""),
    attempts: Number(value.attempts ?? 0), response: String(value.response ?? ""),
  };
}

/** How an answer is known, in words. */
export function known(confidence: string | null | undefined,
  agreement: { k: number; n: number } | null | undefined): string {
  if (confidence === "agreed" && agreement)
    return `${agreement.k} of ${agreement.n} programs agree`;
  const words: Record<string, string> = {
    checked: "every check holds", ran: "one program ran; nothing was checked" };
  return confidence ? words[confidence] ?? confidence : "";
}

export function started(instruction: string, now: Date): string {
  return `\n[${now.toLocaleTimeString()}] Instruction:\n${instruction.trimEnd()}\n\n`;
}

export function outcomeText(outcome: Outcome): string {
  if (!outcome.success) {
    const more = outcome.message ? `${outcome.message}\n` : "";
    return `Execution failed.\nDetails: ${outcome.stderr}\n${more}`;
  }
  let text = block("Generated code:", outcome.code);
  text += block("Output:", outcome.stdout === "" ? "(no output)" : outcome.stdout);
  if (outcome.stderr !== "")
    text += block("Warnings:", outcome.stderr);
  const how = known(outcome.confidence, outcome.agreement);
  if (how !== "")
    text += `Known by: ${how}\n`;
  for (const suspicion of outcome.suspicions ?? [])
    text += `Suspicious: ${suspicion}\n`;
  return text;
}

export function succeeded(attempts: number): string {
  return `Execution Succeeded in ${attempts} attempts!`;
}

/** An answer that is not 200. */
export function refused(status: number, text: string): string {
  let body = text;
  try {
    const value = JSON.parse(text) as { error?: unknown };
    body = typeof value?.error === "string" ? value.error : text;
  } catch {
    // as it is
  }
  return `The server answered with status ${status}: ${body.slice(0, 4000)}\n`;
}

const STATUSES: Record<string, string> = {
  ok: "ran", error: "raised", died: "died", timeout: "ran for too long",
  interrupted: "was interrupted", empty: "printed and wrote nothing", no_code: "holds no code",
  repeated: "is the same as one before", model: "was not written",
};

interface Told {
  text: string[];
  begun: boolean;
  printed: boolean;
  finished: boolean;
}

/** The lines of a live ask as text, in the order in which it can be read. */
export class Transcript {
  private readonly programs = new Map<number, Told>();
  private at = 0;

  /** What is to be written now. */
  take(line: AskLine): string {
    const attempt = typeof line.attempt === "number" ? line.attempt : 0;
    if (line.type === "verdict" || line.type === "result" || line.type === "error")
      return this.rest();
    if (attempt === 0)
      return "";
    const told = this.programs.get(attempt)
      ?? { text: [], begun: false, printed: false, finished: false };
    this.programs.set(attempt, told);
    told.text.push(this.words(line, attempt, told));
    told.finished ||= line.type === "attempt" && line.state === "finished";
    this.at ||= attempt;
    return this.ready();
  }

  private words(line: AskLine, attempt: number, told: Told): string {
    switch (line.type) {
      case "attempt": {
        if (line.state === "started") {
          const of = line.kind === "repair" ? `, a repair of ${String(line.of)}` : "";
          return `\n--- program ${attempt}${of} ---\n`;
        }
        const status = String(line.status);
        const error = line.error as { ename?: string; evalue?: string } | undefined;
        const why = error ? ` (${error.ename}: ${error.evalue})`
          : typeof line.message === "string" ? ` (${line.message})` : "";
        return `\n--- program ${attempt} ${STATUSES[status] ?? status}${why} ---\n`;
      }
      case "token":
        return line.reasoning === true ? "" : line.text ?? "";
      case "output": {
        const head = told.printed ? "" : "\n--- prints ---\n";
        told.printed = true;
        return head + (line.text ?? "");
      }
      default:
        return "";
    }
  }

  /** Of the program that is being told all that is there; then of the next, if that has ended. */
  private ready(): string {
    let text = "";
    for (;;) {
      const told = this.programs.get(this.at);
      if (told === undefined)
        return text;
      text += told.text.join("");
      told.text = [];
      if (!told.finished)
        return text;
      const others = [...this.programs].filter(([, one]) => !one.finished || one.text.length > 0);
      if (others.length === 0)
        return text;
      this.at = Math.min(...others.map(([number]) => number));
    }
  }

  private rest(): string {
    let text = "";
    for (const number of [...this.programs.keys()].sort((one, other) => one - other)) {
      const told = this.programs.get(number)!;
      text += told.text.join("");
      told.text = [];
    }
    return text;
  }
}

/** What is shown beside the progress of a live ask. */
export function progress(line: AskLine): string | null {
  const attempt = line.attempt ?? 0;
  if (line.type === "attempt" && line.state === "started")
    return `program ${attempt}: the model writes`;
  if (line.type === "code")
    return `program ${attempt}: runs`;
  if (line.type === "attempt" && line.state === "finished")
    return `program ${attempt} ${STATUSES[String(line.status)] ?? String(line.status)}`;
  return null;
}

/** The end of a live ask. */
export function answerText(answer: AskAnswer): string {
  return "\n" + outcomeText({
    success: answer.success, stdout: answer.stdout,
    stderr: answer.success ? answer.stderr : answer.stderr || "(none)", code: answer.code,
    attempts: answer.attempts, response: answer.response,
    message: answer.message || undefined, confidence: answer.confidence ?? undefined,
    agreement: answer.agreement ?? undefined, suspicions: answer.suspicions,
  });
}

/** Lines of code without the indentation that they have in common. */
export function dedent(code: string): string {
  const lines = code.replace(/\r\n?/g, "\n").split("\n");
  const full = lines.filter((line) => line.trim() !== "");
  // A selection that begins within its first line: the others tell.
  const margins = (full.length > 1 && !/^\s/.test(full[0]!) ? full.slice(1) : full)
    .map((line) => /^[ \t]*/.exec(line)![0]);
  let common = margins[0] ?? "";
  for (const margin of margins)
    while (!margin.startsWith(common))
      common = common.slice(0, -1);
  if (full.length > 1 && !/^\s/.test(full[0]!) && /:\s*(#.*)?$/.test(full[0]!))
    return lines.join("\n"); // it opens a block: the indentation is meant
  return lines.map((line) => line.startsWith(common) ? line.slice(common.length) : line.trimStart())
    .join("\n");
}
