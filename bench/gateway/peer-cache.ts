/** Where benches keep what they install of others: outside the checkout, by name and version. */
import { execFile } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../scripts/cache-folder.ts'

const run = promisify(execFile)

export function peerFolder(name: string): string {
  return path.join(cacheFolder(), 'bench', name)
}

export interface Installation {
  readonly name: string
  readonly folder: string
  /** There when it is installed. */
  readonly program: string
  readonly commands: ReadonlyArray<readonly [string, ...string[]]>
  readonly withinMs: number
}

/** undefined: it is installed. Otherwise the reason why it cannot be. */
export async function installPeer({
  name,
  folder,
  program,
  commands,
  withinMs,
}: Installation): Promise<string | undefined> {
  if (existsSync(program)) return undefined
  console.error(`  installing ${name}, once …`)
  try {
    for (const [file, ...args] of commands) await run(file, args, { timeout: withinMs })
  } catch (error) {
    // A partial installation would look complete next time.
    rmSync(folder, { recursive: true, force: true })
    return `${name} cannot be installed: ${reasonOf(error)}`
  }
  return existsSync(program) ? undefined : `${name} was installed without ${program}`
}

/** The last line of its errors, which names the cause. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && 'killed' in error && error.killed === true) return 'it took too long'
  const text = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
  return text.trim().split('\n').at(-1) ?? 'it says nothing'
}

export async function findProgram(name: string): Promise<boolean> {
  try {
    await run('which', [name])
    return true
  } catch {
    return false
  }
}
