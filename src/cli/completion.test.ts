/** What the shells are handed: tried in a real bash; of the others, that it names every command. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { runCli } from './program.ts'

async function script(shell: string): Promise<string> {
  let out = ''
  const code = await runCli(['completion', shell], {
    env: {},
    colour: { out: false, error: false },
    write: (text) => void (out += text),
    writeError: (text) => void (out += text),
    readFile: () => undefined,
    readInput: () => undefined,
  })
  return code === 0 ? out : `exit code ${code}: ${out}`
}

/** What bash offers for the last word. */
function offered(source: string, words: readonly string[]): string[] {
  const ask = `${source}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; printf '%s\\n' "\${COMPREPLY[@]}"`
  return execFileSync('bash', ['-euc', ask, 'bash', ...words], { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '')
}

test('bash completes commands, their parts, options and choices', async () => {
  const source = await script('bash')
  expect(offered(source, ['berth', 'term'])).toEqual(['terminal', 'terminate'])
  expect(offered(source, ['berth', 'volumes', ''])).toEqual(['ls', 'create', 'attach', 'detach', 'rm'])
  expect(offered(source, ['berth', 'operator', 'accounts', 'c'])).toEqual(['create'])
  expect(offered(source, ['berth', '--url', 'http://127.0.0.1', 'profiles', 'u'])).toEqual(['use'])
  expect(offered(source, ['berth', 'rent', '--m'])).toEqual(['--max-price', '--machine'])
  expect(offered(source, ['berth', 'rentals', '--w'])).toEqual(['--wide'])
  expect(offered(source, ['berth', 'rent', '--js'])).toEqual(['--json'])
  expect(offered(source, ['berth', 'completion', ''])).toEqual(['bash', 'zsh', 'fish'])
  // What follows -- is another program's.
  expect(offered(source, ['berth', 'exec', 'web', '--', 'l'])).toEqual([])
})

test.each(['bash', 'zsh', 'fish'])('%s knows every command', async (shell) => {
  const source = await script(shell)
  for (const place of [' login', ' volumes attach', ' operator accounts create', ' ledger verify']) {
    expect(source).toContain(`'${place}'`)
  }
  expect(await script('tcsh')).toContain('Allowed choices are bash, zsh, fish.')
})
