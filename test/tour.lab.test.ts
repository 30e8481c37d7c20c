/**
 * Runs docs/tour.md as a new user does: its commands in order, in one shell, next to a server started in an empty
 * folder with its own PostgreSQL. A failing command fails the test.
 *
 * The output must match the text block that follows, line by line, with any other lines in between. In a line of the
 * tour, `…` matches anything, a word with a digit or a three-word name (`clear-pearl-stork`) matches any word, and
 * every other word matches itself. The amount of white space does not matter.
 *
 * Differences from the tour:
 * - `npm ci` is skipped: dependencies are installed and the server was built for this test run.
 * - `npm start` becomes `node bin/berth.mjs serve` in the background, the command it runs.
 * - 127.0.0.1:8420 becomes a free port.
 * - tinyllama-1.1b-chat uses a 110 KB file with random weights instead of a 323 MB download.
 * - Simulated machines boot immediately.
 * - Blocks marked `needs-docker` are skipped.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { writeTinyGguf } from './sim/tiny-gguf.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { caller } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const START = 'npm ci\nnpm start\n'
const TOUR_HOST = '127.0.0.1:8420'
const CHAT_MODEL = 'tinyllama-1.1b-chat'
const WHOLE_TOUR_MS = 600_000

interface Step {
  readonly commands: string
  readonly needsDocker: boolean
  /** undefined: the tour does not show the output. */
  readonly prints: string | undefined
}

/** A block of commands and the text block right after it. */
function readSteps(tour: string): Step[] {
  const blocks = [...tour.matchAll(/^```(sh|text)( needs-docker)?\n(.*?)^```$/gms)]
  return blocks.flatMap(([, kind, mark, body = ''], at) => {
    if (kind !== 'sh') return []
    const [, nextKind, , next] = blocks[at + 1] ?? []
    return { commands: body, needsDocker: mark !== undefined, prints: nextKind === 'text' ? next : undefined }
  })
}

/** The first line of the tour missing from the output, in order; undefined if all are there. */
function findMissing(expected: string, printed: string): string | undefined {
  const lines = printed.split('\n')
  let from = 0
  // A line with only `…` matches any number of lines, which may occur anywhere.
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
  let reported = ''
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
      env: { ...environment(folder), BERTH_PORT: '0', BERTH_DEFAULT_MODELS: 'embedded', BERTH_MOCK_BOOT_MS: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [server.stdout, server.stderr]) {
      stream?.on('data', (chunk: Buffer) => (reported += chunk.toString()))
    }
    host = await waitFor(
      () => `the server, which says: ${reported}`,
      () => (reported.includes('Press Ctrl-C to stop') ? /ready at http:\/\/(\S+)/.exec(reported)?.[1] : undefined),
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
    'every command works and prints what the tour shows',
    async () => {
      const [start, ...rest] = steps
      expect(start?.commands).toBe(START)
      expect(findMissing(start?.prints ?? '', reported)).toBeUndefined()
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

  test('reports a line that was not printed', () => {
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

/** The output of each block on both streams. Throws with all of it when one fails. */
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
