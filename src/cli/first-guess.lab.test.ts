/** The 25 tasks of a newcomer, each in the words that people type first, against a real server. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadCommandTree } from '../../test/harness/command-tree.ts'
import { passForReal } from '../../test/harness/simulated-machine.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { startCliTest, type CliTest, type CustomerCli } from '../../test/lab/cli.ts'
import { needs } from '../../test/needs.ts'
import { absentCommands, absentFlags, bareAliases, commandAliases, flagAliases, verbAliases } from './alias-table.ts'

needs('build')

let cli: CliTest
let key: string
let berth: CustomerCli['berth']
let json: CustomerCli['json']

beforeAll(async () => {
  cli = await startCliTest()
  key = (await cli.server.account({ usd: '1000' })).key
  ;({ berth, json } = cli.as(key))
  await json('rent', '--gpu', '4090', '-e', 'MODE=lab', '-e', 'LEVEL=1', '-p', '8000', '--name', 'web', '--yes')
})
afterAll(() => cli.close())

const isNow = (name: string, state: string) =>
  waitFor(`${name} to be ${state}`, async () => (await json('show', name)).state === state)

/** A machine of the simulated fleet that passes for a real one, so that it has an address to log in to. */
let real: Promise<unknown> | undefined
const rentReal = () =>
  (real ??= passForReal(cli.server.app).then(() => json('rent', '--gpu', '4090', '--name', 'real', '--yes')))

describe('promise 5 of issue 38: the first guess', () => {
  test('1: the cheapest H100', async () => {
    const offers = await json('gpus', '--gpu', 'h100')
    expect(offers.length).toBeGreaterThan(1)
    const prices = offers.map(({ pricePerGpuHourUsd }: { pricePerGpuHourUsd: string }) => Number(pricePerGpuHourUsd))
    expect(prices).toEqual(prices.toSorted((a: number, b: number) => a - b))
  })

  test('2: search', async () => {
    const offers = await json('gpus', '--gpu', 'h100')
    expect(await json('search', 'h100')).toEqual(offers)
    expect(await json('gpus', 'ls', 'h100', '--kind', 'vm')).toEqual(
      await json('gpus', '--gpu', 'h100', '--kind', 'vm'),
    )
    expect(await json('search', 'rtx', '4090')).toEqual(await json('gpus', '--gpu', 'rtx 4090'))
  })

  test('3: rent with a variable, a port and a name', async () => {
    const { label, workload } = await json('show', 'web')
    expect({ label, env: workload.env }).toEqual({ label: 'web', env: { MODE: 'lab', LEVEL: '1' } })
    expect(workload.ports).toEqual([expect.objectContaining({ port: 8000, protocol: 'tcp' })])
    const glued = await json('rent', '--gpu', '4090', '-eA=b', '-p8080', '--name=glued', '--dry-run')
    expect(glued.order).toMatchObject({ env: { A: 'b' }, ports: [8080], label: 'glued' })
  })

  test.each([
    ['container', '4090', '1', '0.350000000'],
    ['vm', 'h100', '1', '2.490000000'],
  ])('4: a dry run of a %s shows the price and rents nothing', async (kind, gpu, count, price) => {
    const before = await json('ls')
    const order = ['rent', '--kind', kind, '--gpu', gpu, '--count', count, '--dry-run']
    expect(await json(...order)).toMatchObject({
      dryRun: true,
      pricePerHourUsd: price,
      order: { gpuCount: 1, maxCostPerHourUsd: price },
    })
    // Somebody at a terminal is asked nothing either.
    const { code, out } = await cli.berth(order, { BERTH_KEY: key }, { answers: [] })
    expect(code).toBe(0)
    expect(out).toMatch(/^Price +\$\S+\/hr/m)
    expect(out).toContain('Nothing was rented.')
    expect((await json('ls')).rentals).toHaveLength(before.rentals.length)
  })

  test.each([
    ['5: follow logs', ['logs', '-f', 'web']],
    ['6: copy files', ['cp', 'web:/etc/hostname', './hostname']],
    ['6: copy files with scp', ['scp', 'web:/etc/hostname', './hostname']],
  ])('%s', async (_, words) => {
    // A simulated machine has neither logs nor files: the words have reached it.
    const { code, error } = await berth(...words, '--json')
    expect([code, JSON.parse(error).error.reason]).toEqual([1, 'simulated_machine'])
  })

  test.each(['forward', 'port-forward', 'proxy'])('7: %s', async (command) => {
    await rentReal()
    const printed = await json(command, 'real', '8888', '8080:80')
    expect(printed.ports).toEqual([
      { local: 8888, remote: 8888 },
      { local: 8080, remote: 80 },
    ])
    expect(printed.command.join(' ')).toContain('-L 127.0.0.1:8888:127.0.0.1:8888 -L 127.0.0.1:8080:127.0.0.1:80')
    expect(printed.command).toEqual(expect.arrayContaining(['-N', 'ExitOnForwardFailure=yes']))
    const wrong = await berth(command, 'real', '70000')
    expect(wrong).toMatchObject({ code: 2, out: '', error: expect.stringContaining('from 1 to 65535') })
  })

  test('8: ssh with options of ssh, without --', async () => {
    await rentReal()
    for (const words of [
      ['ssh', 'real', '--json', '-L', '8080:localhost:80', '-N'],
      ['ssh', 'real', '--json', '--', '-L', '8080:localhost:80', '-N'],
    ]) {
      const { code, out } = await berth(...words)
      expect(code).toBe(0)
      expect(JSON.parse(out).command.slice(-3)).toEqual(['-L', '8080:localhost:80', '-N'])
    }
    const { out } = await berth('ssh', '--print', 'real', '-v', 'ls', '-la')
    expect(out).toMatch(/ \S+@\S+ -v ls -la$/m)
  })

  test.each([
    ['resize', 'web', '--gpus', '4'],
    ['change', 'web', '--gpus', '4'],
    ['set', 'web', '--disk=200'],
  ])('9: %s says what is possible instead', async (...words) => {
    const { code, out, error } = await berth(...words)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain('berth rent --like NAME --count')
    expect(error).toContain('berth volumes grow')
  })

  test('10 to 12: stop, start and restart', async () => {
    const order = ['rent', '--kind', 'vm', '--gpu', 'h100', '--count', '1', '--name', 'box', '--yes']
    await json(...order)
    expect((await berth('restart', 'box', '--yes')).out).toBe('box is rebooting.\n')
    await isNow('box', 'Running')
    expect((await berth('stop', 'box')).code).toBe(2)
    expect(await json('stop', 'box', '--yes')).toMatchObject({ state: 'Stopped' })
    await json('start', 'box')
    await isNow('box', 'Running')
  })

  test.each([['cost'], ['costs'], ['cost', '--since', '7d']])('13: %s of the month', async (...words) => {
    expect(await json(...words)).toMatchObject({ month: { month: expect.stringMatching(/^\d{4}-\d\d$/) } })
  })

  test('14: a budget with a limit', async () => {
    const created = await json('budgets', 'create', 'Team', '--limit', '500')
    expect(created).toMatchObject({ name: 'Team', monthlyUsd: '500.000000000' })
    expect(await json('budget', 'edit', 'Team', '--limit=600')).toMatchObject({ monthlyUsd: '600.000000000' })
    expect((await json('budgets', 'list')).budgets).toHaveLength(1)
  })

  test('15: a template from flags, changed and with fields removed', async () => {
    const flags = ['--image', 'reg.example.com:5000/lab:3', '-e', 'MODE=lab', '-p', '8888/http', '--disk', '40']
    const created = await json('templates', 'create', 'Lab', ...flags)
    expect(created).toMatchObject({
      owner: 'account',
      image: { name: 'reg.example.com:5000/lab', tag: '3' },
      env: { MODE: 'lab' },
      ports: [expect.objectContaining({ port: 8888 })],
      diskGb: 40,
    })
    const changed = await json('templates', 'set', 'Lab', '-e', 'LEVEL=2', '--remove', 'diskGb', 'ports')
    expect(changed).toMatchObject({ version: 2, env: { MODE: 'lab', LEVEL: '2' } })
    expect(Object.keys(changed)).not.toEqual(expect.arrayContaining(['diskGb']))
    expect(Object.keys(changed)).not.toEqual(expect.arrayContaining(['ports']))
    expect((await berth('template', 'delete', 'Lab', '--yes')).code).toBe(0)
  })

  test('16: a template from a machine, with flags on top', async () => {
    const created = await json('templates', 'create', 'Web', '--from', 'web', '-e', 'LEVEL=2')
    expect(created).toMatchObject({
      env: { MODE: 'lab', LEVEL: '2' },
      ports: [expect.anything()],
    })
    expect((await berth('templates', 'create', 'No', '--from', 'nobody')).error).toContain(
      'There is no machine nobody.',
    )
  })

  test('17: a volume, also in the singular', async () => {
    const volume = await json('volume', 'create', 'datasets', '--size', '256', '--region', 'us-central-1')
    expect(volume).toMatchObject({ label: 'datasets', sizeInGb: 256 })
    expect(await json('volume', 'list')).toEqual([expect.objectContaining({ label: 'datasets' })])
  })

  test('18: deploy a model by its name', async () => {
    await rentReal()
    for (const [model, spec] of [
      ['Qwen/Qwen3-8B', { recipe: { name: 'vllm', hubModel: 'Qwen/Qwen3-8B' } }],
      ['qwen3-8b', { recipe: { name: expect.any(String) } }],
    ] as const) {
      const deployed = await json(
        'deploy',
        `x-${model.replace('/', '-').toLowerCase()}`,
        '--model',
        model,
        '--max',
        '1',
      )
      expect(deployed).toMatchObject({ visibility: 'private', spec })
      await json('deployment', 'delete', String(deployed.id), '--yes')
    }
    const both = await berth('deploy', 'x', '--model', 'a/b', '--hub-model', 'a/b')
    expect(both).toMatchObject({ code: 2, error: expect.stringContaining('--model and --hub-model') })
    const gguf = await berth('deploy', 'x', '--recipe', 'llama.cpp', '--hub-model', 'a/b')
    expect(gguf).toMatchObject({ code: 2, error: expect.stringContaining('llama.cpp needs a GGUF file') })
  })

  test('19: scale a deployment', async () => {
    await rentReal()
    const custom = ['--recipe', 'custom', '--image', 'example.com/engine:2', '--max', '1', '--min', '0']
    await json('deploy', 'scaled', ...custom)
    expect(await json('deployments', 'scale', 'scaled', '--max', '3')).toMatchObject({
      settings: { replicas: { max: 3 } },
    })
    await json('deployments', 'rm', 'scaled', '--yes')
  })

  test('20: rotate a key; the old secret works for the grace period', async () => {
    const created = await json('keys', 'create', 'laptop', '--scope', 'billing:read', '--total-limit', '25')
    const rotated = await json('keys', 'rotate', 'laptop')
    expect(rotated).toMatchObject({
      publicId: created.publicId,
      scopes: ['billing:read'],
      totalLimitUsd: '25.000000000',
    })
    expect(rotated.key).not.toBe(created.key)
    for (const one of [created.key, rotated.key]) expect((await cli.as(one).berth('balance')).code).toBe(0)
    const again = await json('keys', 'rotate', 'laptop', '--grace-hours', '0')
    expect((await cli.as(again.key).berth('balance')).code).toBe(0)
    for (const one of [created.key, rotated.key]) expect((await cli.as(one).berth('balance')).code).toBe(4)
  })

  test('21: invite a member', async () => {
    // People sign in by email, which is not set up on this server: it says so instead of adding somebody who cannot get in.
    const { code, error } = await berth('members', 'invite', 'second@example.test', '--json')
    expect([code, JSON.parse(error).error.reason]).toEqual([1, 'people_not_configured'])
  })

  test('22: who am I', async () => {
    expect(await json('whoami')).toMatchObject({ account: { id: expect.any(String) }, server: expect.anything() })
  })

  test.each(['ls', 'list', 'ps'])('23: %s is one list in which each machine has its kind', async (command) => {
    const { rentals } = await json(command)
    const kinds = rentals.map(({ kind }: { kind: string }) => kind)
    expect(new Set(kinds)).toEqual(new Set(['container', 'virtual-machine']))
  })

  test.each(['rm', 'delete', 'destroy'])('24: %s', async (command) => {
    await json('rent', '--gpu', '4090', '--name', `to-${command}`, '--yes')
    expect(await json(command, `to-${command}`, '--yes')).toEqual([expect.objectContaining({ label: `to-${command}` })])
  })

  test('25: a secret on the command line is refused without a word of it, and taken from a safe place', async () => {
    const { code, out, error } = await berth('secrets', 'set', 'HF_TOKEN=planted-in-argv')
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain('berth secrets set HF_TOKEN')
    expect(error).not.toContain('planted')
    expect(await json('secrets', 'ls')).toEqual({ secrets: [] })
    const set = await cli.berth(['secret', 'set', 'HF_TOKEN'], { BERTH_KEY: key }, { input: 'planted-by-stdin\n' })
    expect(set.code).toBe(0)
    expect((await json('secrets', 'list')).secrets).toEqual([expect.objectContaining({ name: 'HF_TOKEN' })])
  })
})

describe('names of machines for completion', () => {
  test('are labels that a shell can take as they are, else names; nothing where nobody answers', async () => {
    const { key: customerKey, call } = await cli.server.account({ usd: '100' })
    const names: string[] = []
    for (const label of ['front', 'twin', 'twin', '$(touch /tmp/planted)', 'two words']) {
      const rented = await call('POST', '/v2/rentals', { kind: 'container', gpuModel: '3090', gpuCount: 1, label })
      names.push(rented.body.name)
    }
    const { code, out, error } = await cli.as(customerKey).berth('completion', 'bash', '--machines')
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out.trimEnd().split('\n').toSorted()).toEqual(['front', ...names.slice(1)].toSorted())
    const nobody = { code: 0, out: '', error: '' }
    expect(await cli.as('bk_x').berth('completion', 'zsh', '--machines')).toEqual(nobody)
    const nowhere = { BERTH_DATA_DIR: '/nowhere', BERTH_URL: 'http://127.0.0.1:9' }
    expect(await cli.berth(['completion', 'fish', '--machines'], nowhere)).toEqual(nobody)
  })
})

describe('the alias table', () => {
  test('every alias leads to a command or flag, and none hides one', async () => {
    const program = await loadCommandTree()
    const find = (words: readonly string[]) =>
      words.reduce<typeof program | undefined>(
        (command, word) => command?.commands.find((one) => one.name() === word),
        program,
      )
    const wrong: string[] = []
    for (const [alias, command] of Object.entries(commandAliases))
      if (find([alias]) !== undefined || find(command.split(' ')) === undefined) wrong.push(alias)
    for (const [alias, { alias: command }] of Object.entries(bareAliases))
      if (find([alias]) === undefined || find(command.split(' ')) === undefined) wrong.push(alias)
    for (const alias of Object.keys(absentCommands)) if (find([alias]) !== undefined) wrong.push(alias)
    for (const [name, flags] of Object.entries(flagAliases)) {
      const options = (find(name.split(' '))?.options ?? []).flatMap(({ short, long }) => [short, long])
      for (const [alias, flag] of Object.entries(flags))
        if (options.includes(alias) || !options.includes(flag)) wrong.push(`${name} ${alias}`)
    }
    for (const [name, flags] of Object.entries(absentFlags)) {
      const options = (find(name.split(' '))?.options ?? []).map(({ long }) => long)
      for (const flag of Object.keys(flags)) if (options.includes(flag)) wrong.push(`${name} ${flag}`)
    }
    expect(wrong).toEqual([])
    const verbs = new Set(program.commands.flatMap((group) => group.commands.map((one) => one.name())))
    expect(
      Object.values(verbAliases)
        .flat()
        .filter((verb) => !verbs.has(verb)),
    ).toEqual([])
  })

  test('no help lists an alias', async () => {
    const { out } = await cli.berth(['--help'])
    for (const alias of ['restart', 'destroy', 'port-forward', 'ps', 'search'])
      expect(out).not.toMatch(new RegExp(`^  ${alias}\\b`, 'm'))
  })

  test('help of an alias is the help of its command', async () => {
    expect(await cli.berth(['restart', '--help'])).toEqual(await cli.berth(['reboot', '--help']))
    expect(await cli.berth(['help', 'rm'])).toEqual(await cli.berth(['help', 'terminate']))
  })
})

describe('the account and server of a command', () => {
  test('are stated on the error output where somebody has logged in to several, and never with --json', async () => {
    const folder = path.join(cli.folder, 'several')
    const env = { XDG_CONFIG_HOME: folder, BERTH_DATA_DIR: '/nowhere', BERTH_URL: '' }
    const other = await cli.server.account({ usd: '5' })
    for (const [profile, text] of [
      ['mine', key],
      ['theirs', other.key],
    ] as const) {
      const file = path.join(cli.folder, `${profile}.key`)
      await writeFile(file, text)
      const login = ['login', '--profile', profile, '--server', cli.server.url, '--key-file', file]
      expect((await cli.berth(login, env)).code).toBe(0)
    }
    const line = `(${other.id}) at ${cli.server.url}.`
    const created = await cli.berth(['templates', 'create', 'Theirs'], env)
    expect(created.error).toContain(line)
    expect((await cli.berth(['templates', 'rm', 'Theirs', '--yes'], env)).error).toContain(line)
    // A list says it to a person, and keeps quiet in a script.
    expect((await cli.berth(['ls'], env, { answers: [] })).error).toContain(line)
    expect((await cli.berth(['ls'], env)).error).toBe('')
    expect((await cli.berth(['ls', '--json'], env, { answers: [] })).error).toBe('')
    expect((await cli.berth(['ls', '--profile', 'mine'], env, { answers: [] })).error).toBe('')
    expect((await cli.berth(['whoami'], env, { answers: [] })).error).toBe('')
  })

  test('an operator’s key: the template says whose it is, and how it becomes everyone’s', async () => {
    const env = { BERTH_KEY: cli.server.operatorKey }
    const created = await cli.berth(['templates', 'create', 'Operators'], env)
    expect(created.code).toBe(0)
    expect(created.out).toMatch(/^Only the account .+ will see it\. For all accounts: --for-everyone$/m)
    expect((await cli.berth(['templates', 'ls'], env)).out).toContain('Operators')
    expect((await berth('templates', 'ls')).out).not.toContain('Operators')
  })
})
