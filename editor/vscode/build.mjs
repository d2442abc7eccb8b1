/**
 * Builds dist/extension.js: the extension and the SDK for JavaScript (from its sources) in one
 * file, so that the .vsix holds no node_modules. `vscode` is the editor's own.
 */
import * as fs from "node:fs/promises";
import * as path from "node:path";
import { fileURLToPath } from "node:url";

import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const sdk = path.join(here, "..", "..", "sdk", "js", "src", "index.ts");

const common = {
  absWorkingDir: here,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node18",
  external: ["vscode"],
  alias: { fumehood: sdk },
  legalComments: "none",
  logLevel: "warning",
};
await esbuild.build({ ...common, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js" });
// For the tests: what is pure, and the stand-in for the editor. Not in the .vsix.
for (const [source, made] of [["src/report.ts", "report.cjs"], ["src/images.ts", "images.cjs"],
  ["src/http.ts", "http.cjs"], ["test/stand_in.ts", "stand_in.cjs"]])
  await esbuild.build({ ...common, entryPoints: [source], outfile: "dist/test/" + made });
await fs.copyFile(path.join(here, "..", "..", "LICENSE"), path.join(here, "LICENSE.txt"));
