/**
 * What the test page does: the step that its URL names, with the SDK as it was built. What it finds
 * it tells the server that it came from (kit.mjs, Pages).
 */
import * as fumehood from "/dist/index.js";

const { Session } = fumehood;
const params = new URLSearchParams(location.hash.slice(1));
const where = Object.fromEntries(["daemon", "token"].filter((name) => params.has(name))
  .map((name) => [name, params.get(name)]));

/** `told` of the URL: the server, when the page's own name leads elsewhere by now. */
function tell(kind, fields = {}) {
  return fetch((params.get("told") ?? "") + "/told",
    { method: "POST", mode: "no-cors", body: JSON.stringify({ kind, ...fields }) });
}

async function run() {
  const session = await Session.start(where);
  const result = await session.run("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\n"
    + "plt.show()\nprint('out')\n6 * 7");
  const image = new Image();
  image.src = result.images[0].url;
  await image.decode();

  const seen = [];
  for await (const event of session.stream("for i in range(3): print(i, flush=True)"))
    seen.push(event.type);
  const endless = session.startRun("while True: pass");
  await endless.interrupt();
  const interrupted = await endless.result();
  const asked = await session.run("input('? ')", { input: () => "from the page" });

  await session.files.put("file é", new Blob(["of a page"]));
  const file = await session.files.text("file é");
  const channel = await session.channel();
  const reply = await channel.call("status");
  channel.close();
  let events = 0;
  for await (const event of session.events({ via: "websocket" }))
    events = event.seq;
  const refused = await session.run("1", { cell: "no id" }).catch((error) => error);
  await session.close();
  await tell("run", {
    stdout: result.stdout, result: result.result, width: image.naturalWidth, seen,
    interrupted: interrupted.status, asked: asked.result, file, state: reply.state,
    events: [events, reply.last_seq],
    refused: [refused instanceof fumehood.InvalidError, refused.code, refused.status],
  });
}

/** The daemon is killed and comes back in the midst of this. */
async function reconnect() {
  const session = await Session.start(where);
  const run = session.stream("import time\nfor i in range(40):\n"
    + "    print(i, flush=True); time.sleep(0.05)");
  const seqs = [];
  const followed = (async () => {
    const numbers = [];
    for await (const event of session.events({ follow: true, via: "websocket" })) {
      numbers.push(event.seq);
      if (event.type === "finished")
        break;
    }
    return numbers;
  })();
  for await (const event of run) {
    seqs.push(event.seq);
    if (event.type === "stream" && seqs.length === 5)
      await tell("streaming");
  }
  const result = await run.result();
  await tell("reconnected", { seqs, followed: await followed, status: result.status,
    stdout: result.stdout });
  await session.remove();
  await tell("removed");
}

/** A page that is gone: its cell must be interrupted. */
async function left() {
  const session = await Session.open(params.get("session"), where);
  await session.run("print('go', flush=True)\nwhile True: pass", {
    cell: "left", onStdout: () => tell("running") });
}

async function outcome(promise) {
  try {
    return { ok: true, value: await promise };
  } catch (error) {
    return { ok: false, name: error.name, message: error.message, status: error.status ?? null };
  }
}

function socket(url, protocols) {
  return outcome(new Promise((resolve, reject) => {
    const made = new WebSocket(url, protocols);
    made.onmessage = (event) => { made.close(); resolve(event.data); };
    made.onclose = () => reject(new Error("refused"));
  }));
}

/** A page of another origin, or of a name that now leads to the daemon: all of it is refused. */
async function attack() {
  const base = where.daemon ?? location.origin;
  const id = params.get("session");
  const raw = (path, init) => outcome(fetch(base + path, init).then(
    async (answer) => [answer.status, (await answer.text()).slice(0, 500)]));
  const json = { "Content-Type": "application/json" };
  await tell("attacked", {
    start: await outcome(Session.start(where).then(() => "started")),
    list: await raw("/v1/sessions"),
    simple: await raw("/v1/sessions", { method: "POST", body: "{}" }),
    noCors: await raw("/v1/sessions", { method: "POST", body: "{}", mode: "no-cors" }),
    post: await raw("/v1/sessions", { method: "POST", body: "{}", headers: json }),
    socket: await socket(`${base.replace(/^http/, "ws")}/v1/sessions/${id}/channel`,
      where.token ? ["fumehood.v1", "fumehood.token." + where.token] : ["fumehood.v1"]),
  });
}

const steps = { run, reconnect, left, attack };
/** A name is rebound when the page has come: it waits until the server says so. */
if (params.get("wait"))
  await tell("loaded");
async function isRebound() {
  const answer = await fetch("/healthz", { cache: "no-store" }).catch(() => null);
  return answer?.status === 421 || answer?.status === 200;
}
while (params.get("wait") && !await isRebound())
  await new Promise((resolve) => { setTimeout(resolve, 20); });
steps[params.get("step")]().catch((error) => tell("failed", { error: String(error.stack) }));
