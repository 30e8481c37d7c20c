/** Finds the registry that this machine's npm uses. npm itself is asked, since its configuration has many places. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const ASK_MS = 20_000
const run = promisify(execFile)

export interface NpmRegistryOptions {
  /** The address from the settings. undefined: npm is asked, once. */
  readonly address: string | undefined
  /** The server's environment; npm gets only its own variables. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The npm program; tests pass another. */
  readonly npm?: string
}

/** Throws if npm is missing or fails; the next call tries again. */
export function npmRegistry(options: NpmRegistryOptions): () => Promise<string> {
  if (options.address !== undefined) {
    const { address } = options
    return () => Promise.resolve(address)
  }
  let answer: Promise<string> | undefined
  return () => {
    answer ??= ask(options).catch((error: unknown) => {
      answer = undefined
      throw error
    })
    return answer
  }
}

async function ask(options: NpmRegistryOptions): Promise<string> {
  const npmEnv = Object.entries(options.env).filter(([name]) => /^(PATH|HOME|TMPDIR|npm_config_.*)$/i.test(name))
  const args = ['config', 'get', 'registry']
  const { stdout } = await run(options.npm ?? 'npm', args, { env: Object.fromEntries(npmEnv), timeout: ASK_MS })
  return stdout.trim()
}
