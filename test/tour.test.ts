/**
 * Runs docs/tour.md as a newcomer does: its commands in their order, in one shell, beside a server that was started in
 * an empty folder, with a PostgreSQL of its own. A command that fails, fails the test.
 *
 * What is printed is held against the text block that follows, line by line; lines that the tour leaves out may come
 * between. In a line of the tour `…` stands for anything, a word with a digit in it or a name of three words
 * (`clear-pearl-stork`) for any word, and every other word for itself. How much space is between them does not matter.
 *
 * Where this does otherwise than the tour says:
 * - `npm ci`: the packages are there, and what runs was built for this run of tests.
 * - `npm start`: `node bin/berth.mjs serve`, which it comes down to, in the background.
 * - 127.0.0.1:8420: a free port, since others may use that one.
 * - tinyllama-1.1b-chat: its file is one of 110 KB with random weights, instead of a download of 323 MB.
 * - Simulated machines boot at once.
 * - Blocks that are marked `needs-docker` are left out.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { writeTinyGguf } from '../src/sim/tiny-gguf.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { caller } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const START = 'npm ci\nnpm start\n'
const TOUR_HOST = '127.0.0.1:8420'
const CHAT_MODEL = 'tinyllama-1.1b-chat'
const WHOLE_TOUR_MS = 240_000

interface Step {
  readonly commands: string
  readonly needsDocker: boolean
  /** undefined: the tour does not show what they print. */
  readonly prints: string | undefined
}

/** A block of commands, with the block of text right after it. */
function readSteps(tour: string): Step[] {
  const blocks = [...tour.matchAll(/^```(sh|text)( needs-docker)?\n(.*?)^```$/gms)]
  return blocks.flatMap(([, kind, mark, body = ''], at) => {
    if (kind !== 'sh') return []
    const [, nextKind, , next] = blocks[at + 1] ?? []
    return { commands: body, needsDocker: mark !== undefined, prints: nextKind === 'text' ? next : undefined }
  })
}

/** The first line of the tour that is not found, after those before it; undefined: all are there. */
function findMissing(expected: string, printed: string): string | undefined {
  const lines = printed.split('\n')
  let from = 0
  // A line of nothing but `…` stands for any number of lines, which there may be everywhere.
  for (const line of expected.split('\n').filter((one) => !['', '…'].includes(one.trim()))) {
    const at = lines.slice(from).findIndex((one) => patternOf(line).test(one.trim()))
    if (at < 0) return line
    from += at + 1
  }
  return undefined
}

function patternOf(line: string): RegExp {
  const words = line
    .trim()
    .split(/\s+/)
    .map((word) => {
      if (/\d/.test(word) || /^\W*[a-z]+-[a-z]+-[a-z]+\W*$/.test(word)) return String.raw`\S+`
      return word.replaceAll(/[[\](){}.*+?^$|\\]/g, String.raw`\$&`).replaceAll('…', '.*')
    })
  return new RegExp(`^${words.join(String.raw`\s+`).replaceAll(String.raw`\s+.*`, '.*')}$`)
}

describe('docs/tour.md', () => {
  let folder: string
  let server: ChildProcess
  let told = ''
  let host: string
  let steps: Step[]

  beforeAll(async () => {
    steps = readSteps(await readFile('docs/tour.md', 'utf8'))
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-tour-'))
    await mkdir(path.join(folder, 'bin'))
    await copyFile('bin/berth.mjs', path.join(folder, 'bin', 'berth.mjs'))
    await symlink(path.dirname(inject('serverBundle')), path.join(folder, 'dist'))
    server = spawn(process.execPath, ['bin/berth.mjs', 'serve'], {
      cwd: folder,
      env: { ...environment(folder), BERTH_PORT: '0', BERTH_DEFAULT_MODELS: 'none', BERTH_MOCK_BOOT_MS: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [server.stdout, server.stderr]) {
      stream?.on('data', (chunk: Buffer) => (told += chunk.toString()))
    }
    host = await waitFor(
      () => `the server, which says: ${told}`,
      () => (told.includes('Ctrl-C stops it') ? /ready at http:\/\/(\S+)/.exec(told)?.[1] : undefined),
      WHOLE_TOUR_MS,
    )
    await offerTinyModel(folder, `http://${host}`)
  }, WHOLE_TOUR_MS)

  afterAll(async () => {
    if (server !== undefined && server.exitCode === null) {
      const ended = new Promise((resolve) => server.once('exit', resolve))
      server.kill('SIGTERM')
      await ended
    }
    await removeFolder(folder)
  })

  test(
    'every command of it works, and prints what it shows',
    async () => {
      const [start, ...rest] = steps
      expect(start?.commands).toBe(START)
      expect(findMissing(start?.prints ?? '', told)).toBeUndefined()
      const walked = rest.filter((step) => !step.needsDocker)
      expect(walked.length).toBeGreaterThan(20)
      const printed = await runInOneShell(
        folder,
        walked.map((step) => step.commands.replaceAll(TOUR_HOST, host)),
      )
      const missing = walked.flatMap(({ commands, prints = '' }, at) => {
        const line = findMissing(prints, printed[at] ?? '')
        return line === undefined ? [] : [`${commands}should print:\n${line}\nand printed:\n${printed[at]}`]
      })
      expect(missing).toEqual([])
    },
    WHOLE_TOUR_MS,
  )

  test('a line that is not printed is missed', () => {
    const shown = 'first  vm  Running  $2.49\n…\n1 rental, named clear-pearl-stork'
    expect(findMissing(shown, 'NAME\nfirst vm Running $9.99\n\n7 rental, named true-blue-fox\n')).toBeUndefined()
    expect(findMissing(shown, 'first vm Failed $9.99\n7 rental, named true-blue-fox')).toContain('Running')
    expect(findMissing(shown, 'first vm Running $9.99\nno rental, named true-blue-fox')).toBeUndefined()
    expect(findMissing(shown, '7 rental, named true-blue-fox\nfirst vm Running $9.99')).toContain('1 rental')
  })
})

function environment(home: string): Record<string, string> {
  return { PATH: `${path.dirname(process.execPath)}:${process.env['PATH'] ?? ''}`, HOME: home }
}

async function offerTinyModel(folder: string, url: string): Promise<void> {
  const file = path.join(folder, 'tiny.gguf')
  await writeTinyGguf(file)
  const key = (await readFile(path.join(folder, '.berth', 'operator.key'), 'utf8')).trim()
  await succeed(caller(url, key), 'POST', '/v2/operator/models', {
    name: CHAT_MODEL,
    kind: 'chat',
    engine: 'llama',
    files: [{ source: `file:${file}`, file: `${CHAT_MODEL}.gguf`, bytes: null, sha256: null }],
    contextTokens: 2_048,
    inputUsdPerMillion: '0.05',
    outputUsdPerMillion: '0.10',
  })
}

/** What each block has printed, on both streams. Throws with all of it when one fails. */
async function runInOneShell(cwd: string, blocks: readonly string[]): Promise<string[]> {
  const mark = (at: number): string => `=== block ${at} of the tour ===`
  const script = blocks.map((block, at) => `printf '\\n%s\\n' '${mark(at)}'\n${block}`).join('\n')
  const shell = spawn('bash', ['-c', `set -eo pipefail\nexec 2>&1\n${script}`], {
    cwd,
    env: environment(cwd),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((resolve) => shell.once('exit', resolve))
  const [printed, code] = await Promise.all([text(shell.stdout), ended])
  if (code !== 0) throw new Error(`The tour ended with ${code}:\n${printed}`)
  return blocks.map((_, at) => printed.split(`${mark(at)}\n`)[1]?.split(`\n${mark(at + 1)}`)[0] ?? '')
}
