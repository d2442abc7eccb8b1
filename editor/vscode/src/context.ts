/** What the commands share. */
import type * as vscode from "vscode";

import type { Activities } from "./activity";
import type { Folders } from "./folders";
import type { ImagePanel } from "./images";
import type { Servers } from "./server";

export interface Context {
  channel: vscode.OutputChannel;
  activities: Activities;
  servers: Servers;
  folders: Folders;
  images: ImagePanel;
}
