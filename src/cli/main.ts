/** `berth`, everything but `berth serve`: bin/berth.mjs hands that to the server before this file is loaded. */
import { readFileSync } from 'node:fs'
import { isatty } from 'node:tty'
import { report } from './kit/failure.ts'
import { systemKeyring } from './kit/keyring.ts'
import { personAt } from './kit/person.ts'
import { runCli } from './program.ts'
import type { Shell } from './kit/shell.ts'

const STDIN = 0
const plain = (process.env['NO_COLOR'] ?? '') !== '' || process.env['TERM'] === 'dumb'

const keyring = systemKeyring(process.env, process.platform)

const shell: Shell = {
  env: process.env,
  color: { out: process.stdout.isTTY && !plain, error: process.stderr.isTTY && !plain },
  write: (text) => void process.stdout.write(text),
  writeError: (text) => void process.stderr.write(text),
  readFile: read,
  // This reads the file descriptor: once `process.stdin` is used, a pipe with a slow writer cannot be read in one call.
  readInput: () => read(STDIN),
  ...(process.stdout.isTTY && process.stdout.columns > 0 ? { columns: process.stdout.columns } : {}),
  // Questions go to the error output, so that the answer of a command can go to a file.
  ...(isatty(STDIN) && process.stderr.isTTY ? { person: personAt(process.stdin, process.stderr) } : {}),
  ...(keyring === undefined ? {} : { keyring }),
}

function read(file: string | number): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

// `berth events | head`: the reader has seen enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

// Sockets and streams may fail where nothing awaits them.
process.on('uncaughtException', (error) => process.exit(report(shell, error, false)))

process.exitCode = await runCli(process.argv.slice(2), shell)
