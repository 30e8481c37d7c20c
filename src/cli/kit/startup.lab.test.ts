/** How much a command loads before it does anything, and how long that takes. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, inject, test } from 'vitest'
import { commandFiles, groupAliases } from '../command-table.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const MAX_CPU_S = 0.3
const MAX_TRIES = 5
/** Of commander, the client and one command. The contract's schemas alone are five times as much. */
const MAX_LOADED_BYTES = 310_000

const program = path.join(path.dirname(inject('serverBundle')), 'cli.mjs')

describe('the table of commands', () => {
  test.each(Object.values(commandFiles).flat())('$names: the file has these commands and no others', async (file) => {
    const rows = await file.load()
    const names = rows.flatMap(({ command, alias }) => {
      const [word = '', ...more] = command.split(' ')
      return [word, more.length === 0 ? alias : groupAliases[word]].filter((name) => name !== undefined)
    })
    expect(new Set(names)).toEqual(new Set(file.names))
  })
})

describe('starting a command', () => {
  test.each([{ args: ['--version'] }, { args: ['ls', '--help'] }, { args: ['status', '--url', 'http://127.0.0.1:9'] }])(
    '$args needs less than 0.3 s of CPU time',
    async ({ args }) => {
      // The best of several: other programs on the machine take from the caches.
      let best = Infinity
      for (let i = 0; i < MAX_TRIES && best >= MAX_CPU_S; i += 1) best = Math.min(best, await cpuSecondsOf(args))
      expect(best).toBeLessThan(MAX_CPU_S)
    },
  )

  test('loads neither the contract’s schemas nor other commands', () => {
    const [, command = ''] = /names: \[\s*"ls".*?import\("\.\/([^"]+)"\)/s.exec(readFileSync(program, 'utf8')) ?? []
    const files = new Set<string>()
    followImports(program, files)
    followImports(path.join(path.dirname(program), command), files)
    expect(files.size).toBeGreaterThan(3)
    let bytes = 0
    for (const file of files) {
      expect(path.basename(file)).not.toMatch(/schemas|operator|agent/)
      bytes += readFileSync(file).byteLength
    }
    expect(bytes).toBeLessThan(MAX_LOADED_BYTES)
  })
})

/** A bundle file and everything it loads. */
function followImports(file: string, seen: Set<string>): void {
  if (seen.has(file)) return
  seen.add(file)
  for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/^import [^'"]*["']\.\/([^"']+)["']/gm))
    followImports(path.join(path.dirname(file), name), seen)
}

async function cpuSecondsOf(args: readonly string[]): Promise<number> {
  const script = `TIMEFORMAT='%U %S'; time "$@" >/dev/null 2>&1`
  const words = ['-c', script, 'time', process.execPath, program, ...args]
  // `status` fails, since it has no server to talk to here.
  const { stderr } = await promisify(execFile)('bash', words).catch((error: { stderr: string }) => error)
  const [user = Number.NaN, system = Number.NaN] = (stderr.trim().split('\n').at(-1) ?? '').split(' ').map(Number)
  return user + system
}
