/**
 * A stand-in for the module `vscode`, for tests without an editor: as much of it as the extension
 * uses, checked by the compiler against @types/vscode. It shows nothing; what it is told is in
 * `told`, and what a person would answer is in `answers`.
 *
 * The real editor is tested in host.py, which needs minutes and a download.
 */
import { EventEmitter } from "node:events";
import type * as vscode from "vscode";

type Call = (...args: never[]) => unknown;

/** What the extension has told, in order. */
export const told = {
  output: "",
  messages: [] as { kind: "info" | "warning" | "error"; text: string }[],
  progress: [] as string[],
  panels: [] as { title: string; html: string; options: unknown }[],
  context: new Map<string, unknown>(),
  status: "",
};

/** What the person does. */
export const answers = {
  /** Of the boxes that ask for text, in order. */
  inputs: [] as (string | undefined)[],
  prompts: [] as string[],
  /** Whether the button of a message is pressed. */
  presses: true,
};

export const state = {
  settings: {} as Record<string, unknown>,
  editor: undefined as vscode.TextEditor | undefined,
  folders: undefined as vscode.WorkspaceFolder[] | undefined,
  trusted: true,
  secrets: new Map<string, string>(),
  commands: new Map<string, Call>(),
  /** Called when a notification with progress begins; what it returns cancels it. */
  onProgress: undefined as ((cancel: () => void) => void) | undefined,
};

const changes = new EventEmitter();
changes.setMaxListeners(0);

export function change(settings: Record<string, unknown>): void {
  state.settings = settings;
  changes.emit("configuration");
}

function disposable(dispose: () => void = () => undefined): vscode.Disposable {
  return { dispose } as vscode.Disposable;
}

function message(kind: "info" | "warning" | "error") {
  return (text: string, ...items: unknown[]): Promise<string | undefined> => {
    told.messages.push({ kind, text });
    const button = items.find((item): item is string => typeof item === "string");
    return Promise.resolve(answers.presses ? button : undefined);
  };
}

/** An editor with this text, of which [from, to] is selected. */
export function edit(uri: vscode.Uri, text: string, ...selected: [number, number][]): void {
  const selections = selected.map(([from, to]) => ({ from, to, isEmpty: from === to }));
  state.editor = {
    document: {
      uri,
      getText: (range?: unknown) => {
        const { from, to } = (range ?? {}) as { from?: number; to?: number };
        return text.slice(from, to);
      },
    },
    selections,
  } as unknown as vscode.TextEditor;
}

export function fileUri(path: string): vscode.Uri {
  return { scheme: "file", fsPath: path, toString: () => "file://" + path } as vscode.Uri;
}

const channel = {
  name: "SLM Code Interpreter",
  append: (text: string) => { told.output += text; },
  appendLine: (text: string) => { told.output += text + "\n"; },
  show: () => undefined, dispose: () => undefined,
} as unknown as vscode.OutputChannel;

const item = {
  set text(value: string) { told.status = value; },
  show: () => undefined, dispose: () => undefined,
} as unknown as vscode.StatusBarItem;

function panel(title: string, options: unknown): vscode.WebviewPanel {
  const made = { title, html: "", options };
  told.panels.push(made);
  return {
    set title(value: string) { made.title = value; },
    webview: { set html(value: string) { made.html = value; } },
    reveal: () => undefined, dispose: () => undefined, onDidDispose: () => disposable(),
  } as unknown as vscode.WebviewPanel;
}

const windowOf = {
  get activeTextEditor() { return state.editor; },
  createOutputChannel: () => channel,
  createStatusBarItem: () => item,
  createWebviewPanel: (_type: string, title: string, _show: unknown, options: unknown) =>
    panel(title, options),
  showInformationMessage: message("info"),
  showWarningMessage: message("warning"),
  showErrorMessage: message("error"),
  showInputBox: (options?: vscode.InputBoxOptions) => {
    answers.prompts.push(options?.prompt ?? "");
    return Promise.resolve(answers.inputs.shift());
  },
  withProgress: async (_options: vscode.ProgressOptions, work: (
    progress: vscode.Progress<{ message?: string }>, token: vscode.CancellationToken
  ) => Thenable<unknown>) => {
    const cancelled = new EventEmitter();
    const token = {
      isCancellationRequested: false,
      onCancellationRequested: (heard: () => void) => {
        cancelled.on("cancel", heard);
        return disposable();
      },
    };
    state.onProgress?.(() => {
      token.isCancellationRequested = true;
      cancelled.emit("cancel");
    });
    return work({ report: ({ message: text }) => { told.progress.push(text ?? ""); } },
      token as unknown as vscode.CancellationToken);
  },
} as unknown as typeof vscode.window;

const workspaceOf = {
  get workspaceFolders() { return state.folders; },
  get isTrusted() { return state.trusted; },
  getWorkspaceFolder: (uri: vscode.Uri) => state.folders?.find(
    (folder) => uri.fsPath.startsWith(folder.uri.fsPath + "/")),
  getConfiguration: () => ({
    get: (key: string, other?: unknown) => state.settings[key] ?? other,
  }),
  onDidChangeConfiguration: (heard: (event: vscode.ConfigurationChangeEvent) => void) => {
    changes.on("configuration", () => heard({ affectsConfiguration: () => true }));
    return disposable();
  },
} as unknown as typeof vscode.workspace;

const commandsOf = {
  registerCommand: (name: string, run: Call) => {
    state.commands.set(name, run);
    return disposable(() => state.commands.delete(name));
  },
  executeCommand: (name: string, ...args: unknown[]) => {
    if (name === "setContext")
      told.context.set(String(args[0]), args[1]);
    return Promise.resolve();
  },
} as unknown as typeof vscode.commands;

/** The module. */
export const api = {
  window: windowOf, workspace: workspaceOf, commands: commandsOf,
  StatusBarAlignment: { Left: 1, Right: 2 }, ProgressLocation: { Notification: 15 },
  ViewColumn: { Active: -1, Beside: -2 },
} as unknown as Partial<typeof vscode>;

export function extensionContext(): vscode.ExtensionContext {
  return {
    subscriptions: [],
    secrets: {
      get: (key: string) => Promise.resolve(state.secrets.get(key)),
      store: (key: string, value: string) => Promise.resolve(void state.secrets.set(key, value)),
      delete: (key: string) => Promise.resolve(void state.secrets.delete(key)),
    },
  } as unknown as vscode.ExtensionContext;
}
