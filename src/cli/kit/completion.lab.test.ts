/** Completion scripts, tested in the real shells. */
import { execFileSync, spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
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

const lines = (text: string): string[] => text.split('\n').filter((word) => word !== '')

/** Completions that each shell offers for the last word. */
const asks: Readonly<Record<string, Ask>> = {
  bash: (source, words) => {
    const ask = `${source}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; printf '%s\\n' "\${COMPREPLY[@]}"`
    return lines(execFileSync('bash', ['-euc', ask, 'bash', ...words], { encoding: 'utf8' }))
  },
  // A script has no line editor: print what the function would add, and filter it as the editor does.
  zsh: (source, words) => {
    const ask = `compdef() { }; _files() { }; compadd() { shift; print -l -- "$@" }
${source}
words=("$@"); CURRENT=$#; PREFIX=$words[-1]; _berth`
    const offered = lines(execFileSync('zsh', ['-fc', ask, 'zsh', ...words], { encoding: 'utf8' }))
    return offered.filter((word) => word.startsWith(words.at(-1) ?? ''))
  },
  fish: (source, words) => {
    const ask = `${source}\ncomplete -C '${words.join(' ')}'`
    const offered = lines(execFileSync('fish', ['--no-config', '-c', ask], { encoding: 'utf8', cwd: '/' }))
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
    // Arguments after -- belong to another program.
    expect(offered('exec', 'web', '--', 'gpus')).toEqual([])
  })
})

test.each(['bash', 'zsh', 'fish'])('%s knows every command', async (shell) => {
  const source = await script(shell)
  for (const place of [' login', ' volumes attach', ' operator accounts create', ' ledger verify']) {
    expect(source).toContain(`'${place}'`)
  }
  expect(await script('tcsh')).toContain('Allowed choices are bash, zsh, fish.')
})
