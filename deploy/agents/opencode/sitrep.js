// Sitrep for opencode: the checkpoint goes with the requests and into compactions; messages, commands and idle times go
// to the daemon. Nothing here throws, and no request waits longer than LIMIT_MS: without a daemon opencode is as without us.
import { spawn } from "node:child_process"
import fs from "node:fs"
import http from "node:http"
import https from "node:https"
import os from "node:os"
import path from "node:path"

const STORE = ""
const ADDRESS = ""
const PROGRAM = ""
const LIMIT_MS = 300
const PATIENT_MS = 5000
const NEWS_MS = Number(process.env.SITREP_NEWS_MS) || 20000
const MOST_BYTES = 48 << 20
const ASKING = /^\s*(?:[.…]|status|sitrep|\/sitrep\b[^]{0,400})?[.?!]?\s*$/i
const NOT_THE_AGENT = /^\s*You are (?:a title generator|a context summarization agent|an? [\w -]*summar)/i
const MOST_ANSWER = 4 << 20
const LATE = "its daemon did not answer in time"
const STRANGE = "what answers in the place of its daemon is none, or one of another version"
const down = (why) => `Sitrep keeps the state of this work, but ${why}. Run \`sitrep resume\` for the latest checkpoint.`

function store() {
  const told = process.env.SITREP_DATA_DIR || STORE
  if (told) return told
  const state = path.join(process.env.XDG_STATE_HOME || path.join(os.homedir(), ".local", "state"), "sitrep")
  const own = path.join(state, os.hostname())
  return !fs.existsSync(path.join(state, "sitrep.sock")) && fs.existsSync(path.join(own, "sitrep.sock")) ? own : state
}

// An address of a socket holds 107 bytes; through the descriptor of its folder any path fits.
const folders = new Map()
function addressOf(socket) {
  if (Buffer.byteLength(socket) < 100 || process.platform !== "linux") return socket
  const folder = path.dirname(socket)
  if (!folders.has(folder)) folders.set(folder, fs.openSync(folder, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY))
  return `/proc/self/fd/${folders.get(folder)}/${path.basename(socket)}`
}

// Where `sitrep` keeps the end of its way to another machine, by the name that it gives it.
function linkOf(url) {
  const base = process.env.XDG_RUNTIME_DIR || path.join(os.homedir(), ".cache")
  return path.join(base, "sitrep-ssh", decodeURIComponent(url.slice("ssh://".length)).replace(/\/+$/, "").replaceAll("/", "_"))
}

// Where that way is not open, `sitrep` opens it while opencode goes on, and keeps what nobody tells anew until then.
const KEPT = ["message", "tool", "compacted"]
let openedAt = -Infinity
function openWay(url, event, body) {
  if (!KEPT.includes(event) && performance.now() - openedAt < 15000) return
  openedAt = performance.now()
  const env = { ...process.env, SITREP_URL: url }
  const child = spawn(PROGRAM || "sitrep", ["hook", "opencode", KEPT.includes(event) ? event : "ping"], { env, detached: true, stdio: ["pipe", "ignore", "ignore"] })
  child.on("error", () => {})
  child.stdin.on("error", () => {})
  child.stdin.end(body)
  child.unref()
}

function target() {
  const url = process.env.SITREP_URL || ADDRESS
  if (!url) return { socketPath: addressOf(path.join(store(), "sitrep.sock")) }
  if (url.startsWith("ssh://")) return { socketPath: addressOf(path.join(linkOf(url), "s")), ssh: url }
  if (url.startsWith("unix://")) return { socketPath: addressOf(url.slice("unix://".length)) }
  const { protocol, hostname, port, pathname } = new URL(url)
  if (protocol !== "http:" && protocol !== "https:") throw new Error(`${protocol} is not spoken here`)
  const token = process.env.SITREP_TOKEN || fs.readFileSync(path.join(store(), "token"), "utf8").trim()
  return { protocol, hostname, port: port || undefined, base: pathname.replace(/\/$/, ""), token }
}

// The answer's text, or undefined where there is none in time. Every answer of a daemon of ours names it in its head; of
// whatever else listens there nothing is taken.
let why = LATE
function ask(event, told, limit) {
  return new Promise((resolve) => {
    try {
      const body = Buffer.from(JSON.stringify(told))
      if (body.length > MOST_BYTES) return resolve(undefined)
      const { base = "", token, ssh, ...to } = target()
      const headers = { "Content-Type": "application/json", "Content-Length": body.length, "X-Sitrep-Client": "opencode" }
      if (process.env.SITREP_SESSION) headers["X-Sitrep-Session"] = process.env.SITREP_SESSION
      if (process.env.SITREP_URL || ADDRESS) headers["X-Sitrep-Host"] = process.env.SITREP_HOSTNAME || os.hostname()
      if (token) headers.Authorization = `Bearer ${token}`
      const options = { ...to, headers, method: "POST", path: `${base}/api/v1/hooks/opencode/${event}`, agent: false }
      const request = (to.protocol === "https:" ? https : http).request(options, (response) => {
        why = response.headers["x-sitrep"] ? LATE : STRANGE
        if (why === STRANGE) return resolve(undefined), request.destroy()
        const pieces = []
        let length = 0
        response.on("data", (piece) => (length += piece.length) > MOST_ANSWER ? request.destroy() : pieces.push(piece))
        response.on("error", () => resolve(undefined))
        response.on("close", () => resolve(undefined))
        response.on("end", () => resolve(response.statusCode === 200 ? Buffer.concat(pieces).toString("utf8") : undefined))
      })
      const timer = setTimeout(() => (resolve(undefined), request.destroy()), limit)
      timer.unref?.()
      request.on("error", () => (resolve(undefined), ssh && why !== STRANGE && openWay(ssh, event, body)))
      request.on("close", () => clearTimeout(timer))
      request.end(body)
    } catch {
      resolve(undefined)
    }
  })
}

const safely = (work) => async (input, output) => {
  try {
    await work(input, output)
  } catch {}
}

export const Sitrep = async ({ client, directory }) => {
  const carried = new Map() // what goes with the requests of a conversation: {text, stale}
  const children = new Set() // conversations of agents that another one started
  const compacting = new Set() // conversations whose next request is that of the summariser
  const known = new Set() // messages that chat.message has told, and parts that were
  const roles = new Map()
  const tell = (event, sessionID, told = {}, limit = PATIENT_MS) => ask(event, { sessionID, directory, ...told }, limit)
  const stale = (sessionID) => carried.set(sessionID, { ...carried.get(sessionID), stale: true })
  const bounded = (kept) => {
    if (kept.size > 5000) kept.clear()
    return kept
  }

  // Asked for as soon as it may be new, and given to the request that comes while it is on its way.
  const coming = new Map()
  function fetch(sessionID) {
    if (!coming.has(sessionID)) {
      const told = tell("system", sessionID).then((text) => {
        coming.delete(sessionID)
        if (text) bounded(carried).set(sessionID, { text, stale: false })
      })
      coming.set(sessionID, told)
    }
    return coming.get(sessionID)
  }

  async function carry(sessionID) {
    const now = carried.get(sessionID)
    if (now?.text && !now.stale) return now.text
    await Promise.race([fetch(sessionID), new Promise((resolve) => setTimeout(resolve, LIMIT_MS).unref?.())])
    return carried.get(sessionID)?.text || down(why)
  }

  async function summary(sessionID) {
    const found = await client?.session?.messages?.({ path: { id: sessionID } })
    const last = (found?.data ?? []).filter((one) => one.info?.role === "assistant" && one.info?.summary === true).pop()
    return (last?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n").trim()
  }

  const on = {
    "session.created": ({ info }) => info?.parentID && bounded(children).add(info.id),
    "session.status": ({ sessionID, status }) => (status?.type === "idle" ? idle(sessionID) : waiting.delete(sessionID)),
    "session.deleted": ({ info }) => waiting.delete(info?.id),
    "session.error": ({ sessionID }) => compacting.delete(sessionID),
    "session.compacted": async ({ sessionID }) => {
      compacting.delete(sessionID)
      if (children.has(sessionID)) return
      stale(sessionID)
      fetch(sessionID)
      await tell("compacted", sessionID, { summary: await summary(sessionID) })
    },
    "message.updated": ({ info }) => info?.id && bounded(roles).set(info.id, info.role),
    "message.part.updated": async ({ part }) => {
      // A message that the client made and that chat.message is not called for, such as "Continue if you have next steps".
      if (part?.type !== "text" || !part.synthetic || !part.text || known.has(part.messageID) || known.has(part.id)) return
      if (roles.get(part.messageID) !== "user" || children.has(part.sessionID)) return
      bounded(known).add(part.id)
      await tell("message", part.sessionID, { prompt: part.text, synthetic: true })
    },
  }

  const idle = async (sessionID) => {
    compacting.delete(sessionID)
    if (children.has(sessionID)) return
    waiting.set(sessionID, undefined)
    await tell("idle", sessionID)
    await news(sessionID)
  }

  // While an agent waits, it is told what it waits for: as a message that asks for no answer and comes with the next prompt.
  const waiting = new Map() // idle conversations, and the last event that each knows of
  const ours = new Set()
  async function news(sessionID) {
    const answer = await tell("news", sessionID, { since: waiting.get(sessionID) })
    if (!answer || !waiting.has(sessionID)) return
    const { since, text } = JSON.parse(answer)
    waiting.set(sessionID, since)
    if (!text) return
    const told = `Sitrep: ${text}`
    bounded(ours).add(told)
    await client?.session?.prompt?.({ path: { id: sessionID }, body: { noReply: true, parts: [{ type: "text", text: told }] } })
  }
  const timer = setInterval(() => waiting.forEach((_, sessionID) => news(sessionID).catch(() => {})), NEWS_MS)
  timer.unref?.()

  return {
    dispose: async () => clearInterval(timer),
    event: async (told) => {
      Promise.resolve()
        .then(() => on[told?.event?.type]?.(told.event.properties ?? {}))
        .catch(() => {})
    },
    "chat.message": safely(async ({ sessionID }, { message, parts }) => {
      if (!sessionID || children.has(sessionID)) return
      bounded(known).add(message?.id)
      compacting.delete(sessionID)
      const own = (parts ?? []).filter((part) => part.type === "text" && !part.synthetic)
      const synthetic = own.length === 0 && (parts ?? []).some((part) => part.type === "text")
      const prompt = (synthetic ? parts.filter((part) => part.type === "text") : own).map((part) => part.text ?? "").join("\n")
      if (ours.has(prompt)) return
      waiting.delete(sessionID)
      const asking = !synthetic && ASKING.test(prompt)
      const told = tell("message", sessionID, { prompt, synthetic }, asking ? LIMIT_MS : PATIENT_MS)
      if (asking) await told
      stale(sessionID)
      fetch(sessionID)
    }),
    "experimental.chat.system.transform": safely(async ({ sessionID }, output) => {
      if (!sessionID || children.has(sessionID) || compacting.has(sessionID)) return
      if (!Array.isArray(output?.system) || NOT_THE_AGENT.test(output.system[0] ?? "")) return
      output.system.push(await carry(sessionID))
    }),
    "experimental.session.compacting": safely(async ({ sessionID }, output) => {
      if (!sessionID || children.has(sessionID)) return
      bounded(compacting).add(sessionID)
      const text = await tell("compacting", sessionID, {}, LIMIT_MS)
      if (text) output.context.push(text)
    }),
    "experimental.text.complete": safely(async ({ sessionID }, output) => {
      if (sessionID && !children.has(sessionID) && /\bC\d+\b/.test(output?.text ?? "")) tell("text", sessionID, { text: output.text })
    }),
    "tool.execute.after": safely(async ({ tool, sessionID, args }, output) => {
      if (tool !== "bash" || typeof args?.command !== "string") return
      tell("tool", sessionID, { args, output: output?.output, metadata: { exit: output?.metadata?.exit } })
    }),
    "shell.env": safely(async ({ sessionID }, output) => {
      if (sessionID && output?.env) output.env.SITREP_CONVERSATION = sessionID
    }),
  }
}
