/**
 * Packs and unpacks local folders with the system's `tar`. An archive may come from another person's machine: `tar`
 * writes nothing outside of the folder, and ignores owners and special permission bits.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { CliError, exitCodes } from './shell.ts'
import { notInstalled } from '../rental/ssh-command.ts'

const MAX_ERROR_CHARS = 4_000

/** Throws after the last byte if the archive is not complete. */
export async function* packFolder(folder: string): AsyncGenerator<Buffer> {
  const child = spawn('tar', ['-cf', '-', '-C', folder, '.'], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = endOf(child)
  try {
    yield* child.stdout as AsyncIterable<Buffer>
    await ended
  } finally {
    child.kill()
  }
}

export async function unpackFolder(folder: string, bytes: AsyncIterable<Buffer>): Promise<void> {
  fs.mkdirSync(folder, { recursive: true })
  const child = spawn('tar', ['-xof', '-', '-C', folder, '--no-same-permissions'], {
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const ended = endOf(child)
  try {
    await pipeline(bytes, child.stdin)
  } catch (error) {
    // If tar has ended, its own error message is better.
    child.kill()
    await ended
    throw error
  }
  await ended
}

/** Rejects if the process fails. A kill counts as success, because only our own code kills it. */
function endOf(child: ChildProcess): Promise<void> {
  let text = ''
  child.stderr?.on('data', (chunk: Buffer) => (text = (text + chunk.toString()).slice(0, MAX_ERROR_CHARS)))
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', () => reject(notInstalled('tar')))
    child.once('close', (code) => {
      if (code === 0 || code === null) return resolve()
      reject(new CliError(exitCodes.failed, `tar failed: ${text.trim() || `exit code ${code}`}`))
    })
  })
  // The process may fail before anybody waits for it.
  ended.catch(() => {})
  return ended
}
