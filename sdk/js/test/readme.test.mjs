/** The examples of README.md, as they stand there, in their order, as one program. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import * as path from "node:path";

import { Daemon, test, within } from "./kit.mjs";

const SDK = new URL("..", import.meta.url).pathname;

test("the examples of the README", async () => {
  const text = await readFile(path.join(SDK, "README.md"), "utf-8");
  const examples = [...text.matchAll(/^```js\n([^]*?)^```$/gm)].map((found) => found[1]);
  assert.ok(examples.length >= 6);
  // Inside of the package its own name leads to it.
  const folder = await mkdtemp(path.join(SDK, "dist", "readme-"));
  const program = path.join(folder, "examples.mjs");
  await writeFile(program, 'import assert from "node:assert/strict";\n' + examples.join("\n"));
  const daemon = await Daemon.start();
  try {
    const child = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (data) => { out += data; });
    const [status] = await within(once(child, "close"), "the examples");
    assert.equal(status, 0);
    assert.match(out, /^sum: 15\n\narray\(\[\[0, 1, 2\],\n[^]*\n0\n1\n2\n$/);
  } finally {
    await rm(folder, { recursive: true });
  }
  await daemon.stop();
});
