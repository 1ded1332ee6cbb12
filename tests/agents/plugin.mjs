// plugin.mjs PLUGIN: one step a line of standard input, {hook, input, output}; prints the output as the plug-in left it.
import readline from "node:readline"

const messages = []
const prompts = []
const client = { session: { messages: async () => ({ data: messages }), prompt: async (told) => prompts.push(told) } }
const { Sitrep } = await import(process.argv[2])
const hooks = await Sitrep({ client, directory: process.env.PLUGIN_DIRECTORY ?? "/home/dev/work" })
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { hook, input, output, summary, wait } = JSON.parse(line)
  if (summary !== undefined) messages.push({ info: { role: "assistant", summary: true }, parts: [{ type: "text", text: summary }] })
  const began = Date.now()
  let thrown
  try {
    await hooks[hook]?.(input, output)
  } catch (error) {
    thrown = String(error)
  }
  console.log(JSON.stringify({ output, thrown, ms: Date.now() - began, prompts }))
}
