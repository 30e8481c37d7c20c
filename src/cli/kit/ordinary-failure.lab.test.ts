/** Every command in the states that servers, keys and files are in on an ordinary day: a sentence, and never a stack. */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { Command, Option } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadCommandTree } from '../../../test/harness/command-tree.ts'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let folder: string

beforeAll(async () => {
  cli = await startCliTest()
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-ordinary-'))
})
afterAll(async () => {
  await cli.close()
  await removeFolder(folder)
})

/** They run a server or an agent, build an image, or keep what they are given; their own tests have their failures. */
const leftOut = [
  // It waits for a free machine.
  'run',
  'serve',
  // It reads the input of this process until its end.
  'mcp',
  'login',
  'logout',
  'completion',
  'agent run',
  'agent image',
]

const values: Readonly<Record<string, string>> = {
  usd: '5',
  n: '1',
  count: '1',
  month: '2026-01',
  email: 'a@example.com',
  'on|off': 'on',
  role: 'viewer',
  gpus: '8',
  percent: '5',
  id: 'req_0',
}

async function listCommands(): Promise<string[][]> {
  const root = await loadCommandTree()
  const visit = (command: Command, words: string[]): string[][] =>
    command.commands.length > 0
      ? command.commands.flatMap((one) => visit(one, [...words, one.name()]))
      : leftOut.includes(words.join(' '))
        ? []
        : [[...words, ...argumentsOf(command)]]
  return visit(root, [])
}

function argumentsOf({ registeredArguments, options }: Command): string[] {
  const needed = options.filter(({ mandatory, long }) => mandatory || long === '--yes' || long === '--dir')
  return [
    ...registeredArguments
      // Without a prompt they would wait for this process's own input.
      .filter((one) => one.required || ['prompt', 'text'].includes(one.name()))
      .map((one) => values[one.name()] ?? 'nowhere'),
    ...needed.flatMap((option) => [option.long ?? '', ...(option.required ? [valueOf(option)] : [])]),
  ]
}

function valueOf({ long, flags }: Option): string {
  if (long === '--dir' || long === '--output') return path.join(folder, 'kept')
  const [, name = ''] = /<([^>.]+)/.exec(flags) ?? []
  return values[name] ?? 'nowhere'
}

describe('no command shows a stack', () => {
  test.each([
    { state: 'no server listens', env: { BERTH_URL: 'http://127.0.0.1:9' } },
    { state: 'the key is refused', env: { BERTH_KEY: 'bk_x' } },
    { state: 'there is no key', env: { BERTH_DATA_DIR: '/nowhere' } },
    { state: 'nothing is there', env: {} },
  ])('when $state', async ({ env }) => {
    const commands = await listCommands()
    expect(commands.length).toBeGreaterThan(80)
    const check = async (words: string[]): Promise<void> => {
      const { code, error } = await cli.berth(words, env, { input: '' })
      expect([words, code]).toEqual([words, expect.toBeOneOf([0, 1, 2, 3, 4])])
      expect([words, error]).toEqual([words, expect.not.stringMatching(/\n {4}at |BERTH_DEBUG|undefined|\(none\)/)])
    }
    // Some wait a moment before they try again: not one after the other.
    await Promise.all(commands.map(check))
  })

  test('when the disk is read-only', async () => {
    const { code, error } = await cli.berthProcess(['speak', 'hello', '-o', '/nowhere/hello.mp3'])
    expect(code).not.toBe(0)
    expect(error).not.toMatch(/\n {4}at /)
  })
})

test('unexpected errors have no stack either, unless requested', async () => {
  const notAFolder = path.join(cli.folder, 'demo.key')
  const broken = { XDG_CONFIG_HOME: notAFolder }
  const { code, error } = await cli.berthProcess(['login', '--key', cli.server.demoKey], broken)
  expect(code).toBe(1)
  expect(error).not.toMatch(/\n {4}at /)
})
