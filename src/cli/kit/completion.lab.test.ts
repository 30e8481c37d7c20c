/** Completion scripts, tested in the real shells. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCli } from '../program.ts'
import { needs } from '../../../test/needs.ts'

needs('shells')

async function script(shell: string): Promise<string> {
  let out = ''
  const code = await runCli(['completion', shell], {
    env: {},
    color: { out: false, error: false },
    write: (text) => void (out += text),
    writeError: (text) => void (out += text),
    readFile: () => undefined,
    readInput: () => undefined,
  })
  return code === 0 ? out : `exit code ${code}: ${out}`
}

type Ask = (source: string, words: readonly string[]) => string[]

/** A folder with a command `berth` that stands for ours: it knows the names of two machines. */
let programs: string
const env = () => ({ ...process.env, PATH: `${programs}:${process.env['PATH'] ?? ''}` })
const answerWith = (lines: string) =>
  writeFileSync(path.join(programs, 'berth'), `#!/bin/sh\n${lines}\n`, { mode: 0o755 })
const KNOWS_MACHINES = `case "$3" in --machines) printf 'web\\ntrain-2\\n' ;; *) exit 1 ;; esac`

beforeAll(() => {
  programs = mkdtempSync(path.join(os.tmpdir(), 'berth-completion-'))
  answerWith(KNOWS_MACHINES)
})
afterAll(() => rmSync(programs, { recursive: true }))

const lines = (text: string): string[] => text.split('\n').filter((word) => word !== '')

/** Completions that each shell offers for the last word. */
const asks: Readonly<Record<string, Ask>> = {
  bash: (source, words) => {
    const ask = `${source}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; printf '%s\\n' "\${COMPREPLY[@]}"`
    return lines(execFileSync('bash', ['-euc', ask, 'bash', ...words], { encoding: 'utf8', env: env() }))
  },
  // A script has no line editor: print what the function would add, and filter it as the editor does.
  zsh: (source, words) => {
    const ask = `compdef() { }; _files() { }; compadd() { shift; print -l -- "$@" }
${source}
words=("$@"); CURRENT=$#; PREFIX=$words[-1]; _berth`
    const offered = lines(execFileSync('zsh', ['-fc', ask, 'zsh', ...words], { encoding: 'utf8', env: env() }))
    return offered.filter((word) => word.startsWith(words.at(-1) ?? ''))
  },
  fish: (source, words) => {
    const ask = `${source}\ncomplete -C '${words.join(' ')}'`
    const offered = lines(execFileSync('fish', ['--no-config', '-c', ask], { encoding: 'utf8', cwd: '/', env: env() }))
    return offered.map((line) => line.split('\t')[0] ?? '')
  },
}

describe.each(Object.entries(asks))('%s', (shell, ask) => {
  const isMissing = spawnSync(shell, ['--version']).error !== undefined
  const leftOut = isMissing ? ` (left out: ${shell} is not installed)` : ''

  test.skipIf(isMissing)(`completes commands, their parts, options and choices${leftOut}`, async () => {
    const source = await script(shell)
    const offered = (...words: string[]): string[] => ask(source, ['berth', ...words]).toSorted()
    expect(offered('term')).toEqual(['terminal', 'terminate'])
    expect(offered('volumes', 'c')).toEqual(['clone', 'create'])
    expect(offered('operator', 'accounts', 'c')).toEqual(['create'])
    expect(offered('--url', 'http://127.0.0.1', 'profiles', 'u')).toEqual(['use'])
    expect(offered('rent', '--m')).toEqual(['--machine', '--max-price', '--max-wait', '--metadata', '--mount'])
    expect(offered('rentals', '--wi')).toEqual(['--wide'])
    expect(offered('rent', '--js')).toEqual(['--json'])
    expect(offered('rent', '--kind', '')).toEqual(['container', 'metal', 'vm'])
    expect(offered('rent', '--kind', 'vm', '--ki')).toEqual(['--kind'])
    expect(offered('completion', '')).toEqual(['bash', 'fish', 'zsh'])
    // No help lists other words for commands, and neither does completion.
    expect(offered('restar')).toEqual([])
    // Arguments after -- belong to another program.
    expect(offered('exec', 'web', '--', 'gpus')).toEqual([])
  })
})

describe.each(Object.entries(asks))('promise 5 of issue 38: names of machines in %s', (shell, ask) => {
  const isMissing = spawnSync(shell, ['--version']).error !== undefined
  const leftOut = isMissing ? ` (left out: ${shell} is not installed)` : ''

  test.skipIf(isMissing)(`follow the commands that take one${leftOut}`, async () => {
    const source = await script(shell)
    const offered = (...words: string[]): string[] => ask(source, ['berth', ...words]).toSorted()
    for (const command of ['ssh', 'show', 'stop', 'forward', 'logs', 'terminate', 'ports'])
      expect(offered(command, ''), command).toEqual(['train-2', 'web'])
    expect(offered('ssh', 'w')).toEqual(['web'])
    expect(offered('terminate', 'web', 't')).toEqual(['train-2'])
    expect(offered('cp', 'w')).toEqual(['web:'])
    // What comes after the name of a machine is a command there.
    expect(offered('ssh', 'web', 'train')).toEqual([])
    expect(offered('stop', '--no-w')).toEqual(['--no-wait'])
  })

  test.skipIf(isMissing)(`are left out, without a word, where berth fails${leftOut}`, async () => {
    const source = await script(shell)
    answerWith('echo "error: no key" >&2; exit 4')
    try {
      expect(ask(source, ['berth', 'ssh', 'web'])).toEqual([])
      expect(ask(source, ['berth', 'volumes', 'c']).toSorted()).toEqual(['clone', 'create'])
    } finally {
      answerWith(KNOWS_MACHINES)
    }
  })
})

test.each(['bash', 'zsh', 'fish'])('%s knows every command', async (shell) => {
  const source = await script(shell)
  for (const place of [' login', ' volumes attach', ' operator accounts create', ' ledger verify']) {
    expect(source).toContain(`'${place}'`)
  }
  expect(await script('tcsh')).toContain('Allowed choices are bash, zsh, fish.')
})
