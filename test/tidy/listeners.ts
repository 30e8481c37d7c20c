/** Listeners for what others send, which must be attached through `contained` (src/base/net/contained.ts). */

const events = [
  'data',
  'message',
  'response',
  'upgrade',
  'signal',
  'connection',
  'request',
  'ping',
  'unexpected-response',
]
const attached = new RegExp(String.raw`\.(?:on|once)\(\s*'(${events.join('|')})',\s*(?!\s|contained\()`, 'g')
/** Commands and simulators are not servers: what ends them ends nobody else's work. */
const rooms = /^src\/(?!cli\/)/

/** Files whose listeners need none, and why. */
export const uncontained: Readonly<Record<string, string>> = {
  'src/server/ports/port-exchange.ts': 'they only read a clock',
  'src/server/http/request-body.ts': 'a buffer with a limit of its own, inside of the HTTP server',
  'src/server/hosts/peers.ts': 'answers 404 to everything',
  'src/gateway/fast-path/fast-path.ts': 'a contained method',
  'src/gateway/upstream/connection.ts': 'a contained method',
  'src/agent/connection.ts': 'it only reads a clock',
  'src/runtimes/stream.ts': 'it only keeps a value',
  'src/drivers/kubernetes/api.ts': 'it only attaches a contained one',
  'src/runtimes/docker/ssh-session.ts': 'ssh2 catches errors of its listeners and ends that connection',
  'src/runtimes/run-program.ts': 'output of a program that this one has started',
  'src/runtimes/docker/group-link-check.ts': 'a program of its own, which ends with the measurement',
  'src/runtimes/ssh/bmc.ts': 'output of a program that this one has started',
  'src/engines/image/painter-process.ts': 'messages of a process of this one',
  'src/engines/speech/voice-thread.ts': 'messages of a thread of this one',
}

/** `file: event` for each. */
export function findUncontained(file: string, text: string): string[] {
  if (!rooms.test(file)) return []
  return [...text.matchAll(attached)].map(([, event]) => `${file}: ${event}`)
}
