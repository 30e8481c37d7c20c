/** The words of a command line: typos, groups that list, and commands for another machine. */
import { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadCommandTree } from '../../../test/harness/command-tree.ts'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { passWordsOn, prepareWords } from './command-line.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest

beforeAll(async () => {
  cli = await startCliTest()
})
afterAll(() => cli.close())

/** Every group of the whole tree, by the words that lead to it. */
async function listGroups(): Promise<Array<readonly [path: string[], group: Command]>> {
  const root = await loadCommandTree()
  const visit = (command: Command, path: string[]): Array<readonly [string[], Command]> =>
    command.commands.length === 0
      ? []
      : [[path, command], ...command.commands.flatMap((one) => visit(one, [...path, one.name()]))]
  return visit(root, [])
}

describe('unknown commands', () => {
  test('a name with two swapped letters gets the right suggestion in every group', async () => {
    const wrong: string[] = []
    for (const [path, group] of await listGroups()) {
      const name = group.commands.map((one) => one.name()).find((one) => one.length > 4)
      if (name === undefined || group.registeredArguments.length > 0) continue
      const typo = `${name.slice(0, 2)}${name[3]}${name[2]}${name.slice(4)}`
      const { code, error } = await cli.berth([...path, typo])
      const isRight =
        code === 2 && error.includes(`'${typo}'`) && new RegExp(`Did you mean .*\\b${name}\\b`).test(error)
      if (!isRight) wrong.push([...path, typo].join(' '))
    }
    expect(wrong).toEqual([])
  })

  test('a command in the wrong group is shown with its group', async () => {
    const { code, error } = await cli.berth(['create'])
    expect(code).toBe(2)
    expect(error).toMatch(/Did you mean one of (\S+ create, )+\S+ create\?/)
  })

  test('an unrelated word gets no suggestion', async () => {
    const { code, error } = await cli.berth(['xylophone'])
    expect(code).toBe(2)
    expect(error).not.toContain('Did you mean')
  })

  test('no command is ever suggested for its own name', async () => {
    for (const [path, group] of await listGroups()) {
      for (const { name } of group.commands.map((one) => ({ name: one.name() }))) {
        const { error } = await cli.berth([...path, name, '--help'])
        expect(error).toBe('')
      }
    }
  })
})

test('every group with a list shows it by default', async () => {
  const groups = (await listGroups()).filter(([path, { commands }]) =>
    // A list that needs an argument has no default.
    path.length > 0
      ? commands.some((one) => one.name() === 'ls' && !one.registeredArguments.some(({ required }) => required))
      : false,
  )
  expect(groups.length).toBeGreaterThan(8)
  for (const [path] of groups) {
    const bare = await cli.berth([...path, '--json'])
    expect([path.join(' '), bare]).toEqual([path.join(' '), await cli.berth([...path, 'ls', '--json'])])
    expect(bare.code).toBe(0)
  }
})

describe('a command for another machine', () => {
  const program = new Command('berth').option('--url <url>').option('--json')
  const exec = passWordsOn(program.command('exec')).argument('<name>').argument('<command...>')
  exec.option('-i, --identity <file>').option('--ssh')

  test.each([
    [
      ['exec', 'web', 'sh', '-c', 'exit 3'],
      ['exec', 'web', '--', 'sh', '-c', 'exit 3'],
    ],
    [
      ['exec', 'web', '--', 'sh', '-c', 'exit 3'],
      ['exec', 'web', '--', 'sh', '-c', 'exit 3'],
    ],
    [
      ['--url', 'http://a', 'exec', '-i', 'key', 'web', '--ssh', '--json', 'ls', '--json', '-i'],
      ['--url', 'http://a', 'exec', '-i', 'key', 'web', '--ssh', '--json', '--', 'ls', '--json', '-i'],
    ],
    [
      ['exec', 'web', 'ls', '--', '-a'],
      ['exec', 'web', '--', 'ls', '--', '-a'],
    ],
    [
      ['exec', 'web'],
      ['exec', 'web'],
    ],
    [
      ['exec', '--help'],
      ['exec', '--help'],
    ],
  ])('%j is read as %j', (given, read) => {
    expect(prepareWords(program, given)).toEqual(read)
  })

  test('its options are not parsed as ours', async () => {
    const { code, error } = await cli.berth(['exec', 'nowhere', 'sh', '-c', 'exit 3'])
    expect(code).toBe(1)
    expect(error).toContain('There is no machine nowhere.')
  })
})
