/** The built command as people and programs meet it: a process with arguments, two outputs and an exit code. */
import { fail } from '../contract/result.ts'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { commandsOf, renderCliReference } from '../../scripts/cli-reference.ts'
import { startCliTest, type CliTest } from '../../test/lab/cli.ts'
import { firstCommands, helpRoles } from './kit/first-screen.ts'
import { runCli } from './program.ts'
import { needs } from '../../test/needs.ts'

needs('build')

let cli: CliTest

beforeAll(async () => {
  cli = await startCliTest()
})
afterAll(() => cli.close())

describe('help and usage', () => {
  test('the help lists every command and exit code', async () => {
    const { code, out, error } = await cli.berthProcess(['--help'])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    const commands = [
      'serve',
      'status',
      'login',
      'balance',
      String.raw`gpus ls \[model…\]`,
      'rent',
      'ls',
      'events',
      'operator accounts ls',
      'operator accounts create',
    ]
    for (const command of [...commands, 'operator credit <account> <usd>', 'ledger verify', 'audit']) {
      expect(out).toMatch(new RegExp(`^  ${command} {2,}\\S`, 'm'))
    }
    for (const exitCode of [0, 1, 2, 3, 4]) expect(out).toMatch(new RegExp(`^  ${exitCode}  \\S`, 'm'))
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
  })

  test('the help of every command has an example and fits 80 columns', async () => {
    const { out } = await cli.berth(['--help'])
    const commands = ['Server', 'Customers', 'Suppliers', 'Operators'].flatMap((group) => commandsOf(out, group))
    expect(commands.length).toBeGreaterThan(60)
    const lacking: string[] = []
    for (const command of commands) {
      const help = await cli.berth([...command.split(' '), '--help'])
      const width = Math.max(...help.out.split('\n').map((line) => line.length))
      if (!/\nExamples?:\n {2}\S/.test(help.out) || width > 80) lacking.push(command)
    }
    expect(lacking).toEqual([])
  })

  test('the reference has a section for every command', async () => {
    const { out } = await cli.berth(['--help'])
    const commands = ['Server', 'Customers', 'Suppliers', 'Operators'].flatMap((group) => commandsOf(out, group))
    const sections = [...(await renderCliReference()).matchAll(/^### berth (.*)$/gm)].map(([, command]) => command)
    expect(sections).toEqual(commands)
  })

  test('without a command it prints one screen, whose commands all exist', async () => {
    const { code, out } = await cli.berthProcess([])
    expect(code).toBe(0)
    const lines = out.trimEnd().split('\n')
    expect(lines.length).toBeLessThanOrEqual(24)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
    const { out: help } = await cli.berth(['--help'])
    for (const [command] of firstCommands) {
      const [name = ''] = /^[a-z]+( ls)?/.exec(command) ?? []
      expect(help).toMatch(new RegExp(`^  ${name}( |$)`, 'm'))
    }
  })

  test.each(Object.entries(helpRoles))('help %s lists the commands of that role only', async (role, title) => {
    const { code, out } = await cli.berth(['help', role])
    expect(code).toBe(0)
    const titles = new Set(Object.values(helpRoles))
    expect([...titles].filter((one) => out.includes(`\n${one}\n`))).toEqual([title])
  })

  test('help all is the whole help', async () => {
    expect(await cli.berth(['help', 'all'])).toEqual(await cli.berth(['--help']))
  })

  test('the version is the package’s', async () => {
    expect(await cli.berthProcess(['--version'])).toEqual({ code: 0, out: `${packageJson.version}\n`, error: '' })
  })

  test('an unknown command sets the exit code and prints to the right streams', async () => {
    const { code, out, error } = await cli.berthProcess(['statu'])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain('Did you mean status?')
  })

  test.each([
    [['statu'], "unknown command 'statu'\n(Did you mean status?)\n  See berth --help."],
    [['operator'], 'Usage: berth operator <command>'],
    [['balance', 'now'], 'too many arguments'],
    [
      ['operator', 'credit', 'demo', '5'],
      "required option '--reason <text>' not specified\n  See berth operator credit --help",
    ],
    [['operator', 'credit', '..', '5', '--reason', 'why'], 'Not a valid value.'],
    [['operator', 'credit', 'demo', '-5', '--reason', 'why'], 'Must be an amount in USD above zero'],
    [['operator', 'credit', 'demo', '1.0000000001', '--reason', 'why'], 'Must be an amount in USD above zero'],
    [['events', '--limit', '0'], 'from 1 to 1000'],
    [['events', '--type', 'rental.gone'], 'Allowed choices are rental.created, '],
    [['balance', '--url', 'localhost:8420'], '"localhost:8420" is not an http or https URL.\n  Give one with --url'],
    [['balance', '--key-file', '/nowhere'], 'Cannot read the key file /nowhere.'],
    [['balance', '--key-file', '/nowhere', '--key', 'bk_x'], 'cannot be used with'],
    [['--json', 'serve'], 'right after berth'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, text) => {
    const { code, out, error } = await cli.berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(text)
  })
})

describe('status', () => {
  test('shows health, account, key and balance', async () => {
    const { code, out } = await cli.berthProcess(['status'])
    expect(code).toBe(0)
    expect(out.split('\n')).toEqual([
      `Server   ${cli.server.url}`,
      'State    ready',
      'Checks   database ok, mock ok, journal ok',
      'Account  Demo (demo)',
      `Key      "first key" from ${path.join(cli.folder, 'demo.key')}`,
      expect.stringMatching(/^Balance {2}\$20,000\.00; nothing is running$/),
      '',
    ])
    expect(await cli.json('status')).toMatchObject({
      server: { url: cli.server.url, ready: true, checks: { database: 'ok', mock: 'ok' } },
      account: { id: 'demo' },
      balance: { availableUsd: '20000.000000000' },
    })
  })

  test('needs no key', async () => {
    const { code, out } = await cli.berthProcess(['status'], { BERTH_DATA_DIR: '/nowhere' })
    expect(code).toBe(0)
    expect(out).toContain('Account  no API key')
  })

  test('shows the server even if the key is rejected', async () => {
    const { code, out, error } = await cli.berthProcess(['status', '--key', 'bk_x'])
    expect(code).toBe(4)
    expect(out).toMatch(/^State +ready$/m)
    expect(error).toContain('The API key is from --key.')
  })

  test('without a server: exit code 3, and how to start one', async () => {
    // Port 9 is reserved to discard what it is sent; nothing listens there.
    const { code, out, error } = await cli.berthProcess(['status', '--url', 'http://127.0.0.1:9'])
    expect({ code, out }).toEqual({ code: 3, out: '' })
    expect(error).toContain('error: Cannot reach http://127.0.0.1:9')
    expect(error).toContain('To start a server: berth serve (in a checkout: npm start).')
  })
})

describe('keys', () => {
  test('a rejected key: exit code 4, its origin and where to find keys', async () => {
    const { code, error } = await cli.berthProcess(['balance'], { BERTH_KEY: 'bk_not_a_key' })
    expect(code).toBe(4)
    expect(error).toContain('The API key is from BERTH_KEY.')
    expect(error).toContain(path.join(cli.folder, 'operator.key'))
  })

  test('a key without the scope: exit code 4, and which key has it', async () => {
    const { code, error } = await cli.berthProcess(['ledger', 'verify'], { BERTH_KEY: cli.server.demoKey })
    expect(code).toBe(4)
    expect(error).toContain(`error: ${fail('missing_scope', { scope: 'operator' }).message}\n`)
    expect(error).toContain(`add --key-file ${path.join(cli.folder, 'operator.key')}`)
  })

  test('no key: exit code 4, and the places that were searched', async () => {
    const { code, error } = await cli.berthProcess(['balance'], { BERTH_DATA_DIR: '/nowhere' })
    expect(code).toBe(4)
    expect(error).toContain('Looked for --key, --key-file, BERTH_KEY and the file /nowhere/demo.key.')
  })

  test('the option wins over the environment, and the environment over the data folder', async () => {
    const { key } = await cli.server.account({ usd: '7' })
    const file = path.join(cli.folder, 'other.key')
    await writeFile(file, key)
    const ofOther = expect.stringMatching(/^Balance {4}\$7\.00$/m)
    expect((await cli.berthProcess(['balance', '--key-file', file], { BERTH_KEY: 'bk_x' })).out).toEqual(ofOther)
    expect((await cli.berthProcess(['balance', '--key', key], { BERTH_KEY: 'bk_x' })).out).toEqual(ofOther)
    expect((await cli.berthProcess(['balance'], { BERTH_KEY: key })).out).toEqual(ofOther)
  })

  test('a key in the data folder is never sent to another machine implicitly', async () => {
    const { code, error } = await cli.berthProcess(['status', '--json', '--url', 'http://berth.invalid'])
    expect(code).toBe(3)
    expect(JSON.parse(error)).toMatchObject({ error: { message: expect.stringContaining('berth.invalid') } })
    const customer = await cli.berthProcess(['balance', '--url', 'http://berth.invalid'])
    expect(customer.code).toBe(4)
    expect(customer.error).toContain('only for a server on this machine')
  })
})

describe('colors', () => {
  async function inTerminal(color: boolean, args: readonly string[]): Promise<string> {
    let screen = ''
    const write = (text: string): void => void (screen += text)
    const shell = {
      env: cli.environment(),
      color: { out: color, error: color },
      write,
      writeError: write,
      readFile: () => undefined,
      readInput: () => undefined,
    }
    await runCli(args, shell)
    return screen
  }

  test('appear in terminals only, and change nothing else', async () => {
    for (const args of [['status'], ['balance'], ['--help']]) {
      const colored = await inTerminal(true, args)
      expect(colored).toContain('\u001B[')
      expect(stripVTControlCharacters(colored)).toBe(await inTerminal(false, args))
    }
  })
})
