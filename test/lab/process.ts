/** The server as a user runs it: the built bundle in its own process, which a test can kill. */
import { spawn, type ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { inject } from 'vitest'

export interface ServerProcess {
  readonly url: string
  readonly pid: number
  /** SIGKILL to the server and all its children, PostgreSQL included, all at once. */
  killTree(): Promise<void>
  /** Sends SIGTERM and returns how long the exit took. */
  stop(): Promise<{ code: number | null; tookMs: number }>
  output(): string
}

const READY_MS = 60_000
/** Tests that need local models enable them. */
const quiet = { BERTH_LOCAL_ENGINES: 'false', BERTH_DEFAULT_MODELS: 'embedded' }

/** `program`: another build of the server. `args`: of `berth serve`. */
export async function startServerProcess(
  env: Readonly<Record<string, string>>,
  { program = inject('serverBundle'), args = [] }: { program?: string; args?: readonly string[] } = {},
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...quiet, PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', BERTH_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  const url = await new Promise<string>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no server after ${READY_MS} ms:\n${output}`)), READY_MS)
    const read = (chunk: Buffer): void => {
      output += chunk.toString()
      // Includes the text after it, because the address may arrive in pieces.
      const match = /Berth is ready at (\S+)\s/.exec(output)
      if (match?.[1] === undefined) return
      clearTimeout(late)
      resolve(match[1])
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    void ended.then((code) => reject(new Error(`the server ended with ${code} at its start:\n${output}`)))
  })
  return {
    url,
    pid: child.pid ?? 0,
    output: () => output,
    killTree: async () => {
      killAll(child)
      await ended
    },
    stop: async () => {
      const startedAt = performance.now()
      child.kill('SIGTERM')
      return { code: await ended, tookMs: performance.now() - startedAt }
    },
  }
}

/** Reads the whole tree before killing it, so that no process is left to clean up. */
function killAll(child: ChildProcess): void {
  for (const pid of child.pid === undefined ? [] : descendants(child.pid)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // Already gone.
    }
  }
}

export function descendants(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      // The name in parentheses may hold spaces; the parent's pid is the second word after it.
      const parent = Number.parseInt(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? '0', 10)
      children.set(parent, [...(children.get(parent) ?? []), Number.parseInt(name, 10)])
    } catch {
      // Ended in the meantime.
    }
  }
  const found: number[] = []
  const queue = [root]
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    found.push(pid)
    queue.push(...(children.get(pid) ?? []))
  }
  return found
}
