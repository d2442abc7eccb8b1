/**
 * The images of a run, in a panel beside the editor.
 *
 * What code has drawn is hostile: the page runs no script, loads nothing, and has the images as
 * data: addresses in <img>, where also an SVG is only looked at.
 */
import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { IMAGE_MIMES } from "fumehood";
import type { Event, Image } from "fumehood";

const IMAGES_MAX = 50;
const BYTES_MAX = 32 << 20;

/** An image as it comes in an event: base64, or the text of an SVG. */
export interface Picture {
  mime: string;
  data: Uint8Array;
}

/** The pictures of an event of a cell. */
export function picturesOf(event: Event): Picture[] {
  const data = event.type === "display" || event.type === "result"
    ? event.data as Record<string, unknown> : {};
  for (const mime of IMAGE_MIMES) {
    const value = data[mime];
    if (typeof value === "string")
      return [{ mime, data: Buffer.from(value, mime === "image/svg+xml" ? "utf-8" : "base64") }];
  }
  return [];
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** The page. Pure. */
export function page(title: string, pictures: readonly (Picture | Image)[], nonce: string): string {
  const shown: string[] = [];
  let size = 0;
  for (const picture of pictures.slice(0, IMAGES_MAX)) {
    size += picture.data.length;
    if (size > BYTES_MAX)
      break;
    const base64 = Buffer.from(picture.data).toString("base64");
    shown.push(`<img alt="" src="data:${escaped(picture.mime)};base64,${base64}">`);
  }
  const left = pictures.length - shown.length;
  return `<!DOCTYPE html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'nonce-${nonce}'">
<title>${escaped(title)}</title>
<style nonce="${nonce}">
img { display: block; max-width: 100%; margin: 1em 0; background: #fff }
</style>
</head><body>
${shown.join("\n")}
${left > 0 ? `<p>${left} more are not shown: they are in the session's folder.</p>` : ""}
</body></html>
`;
}

export class ImagePanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private last: { title: string; pictures: readonly Picture[] } | undefined;

  /** Shows the images of a run, if it has any. */
  show(title: string, pictures: readonly Picture[]): void {
    if (pictures.length === 0)
      return;
    this.last = { title, pictures };
    this.open(true);
  }

  /** The last ones again. */
  again(): void {
    if (this.last === undefined)
      void vscode.window.showInformationMessage("No run has shown an image yet.");
    else
      this.open(false);
  }

  private open(preserveFocus: boolean): void {
    const { title, pictures } = this.last!;
    if (this.panel === undefined) {
      this.panel = vscode.window.createWebviewPanel("slm-code-interpreter.images", title,
        { viewColumn: vscode.ViewColumn.Beside, preserveFocus },
        { enableScripts: false, enableForms: false, localResourceRoots: [] });
      this.panel.onDidDispose(() => { this.panel = undefined; });
    } else {
      this.panel.title = title;
      this.panel.reveal(undefined, preserveFocus);
    }
    this.panel.webview.html = page(title, pictures, randomBytes(16).toString("base64"));
  }

  dispose(): void {
    this.panel?.dispose();
  }
}
