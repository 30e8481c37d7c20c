/** From what there is to what it has cost: the commands of renting, for people in a terminal and for programs. */
import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest, type CustomerCli } from '../../../test/lab/cli.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let key: string
let berth: CustomerCli['berth']
let json: CustomerCli['json']

beforeAll(async () => {
  cli = await startCliTest()
  key = (await cli.server.account({ usd: '10000' })).key
  ;({ berth, json } = cli.as(key))
})
afterAll(() => cli.close())

describe('rent', () => {
  test('rents a container: price, progress, login, termination and cost', async () => {
    const args = ['rent', '--gpu', '4090', '--count', '2', '--label', 'web', '--image', 'debian:12', '--port', '8080']
    const { code, out, error } = await berth(...args, '--hours', '5', '--spending-limit', '12.50', '--yes')
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^Rent +2 RTX 4090 as a container in us-west$/m)
    expect(out).toMatch(/^Price +\$0\.70\/hr, \$16\.80 per day$/m)
    expect(out).toMatch(/^While stopped +\$0\.0068\/hr for its disk of 50 GB$/m)
    expect(out).toMatch(/^Balance +\$\S+ lasts [\d,]+ days/m)
    expect(out).toMatch(/^Spending limit +\$12\.50$/m)
    expect(out).toMatch(/^web: Running$/m)
    expect(out).toMatch(/^Name +web \(\S+\)$/m)
    expect(out).toMatch(/^Terminate +berth terminate web$/m)
    const ended = await berth('terminate', 'web', '--yes')
    expect(ended.out).toMatch(/^Terminated web\. Billing has stopped\. It cost <?\$\d+\.\d+\.$/m)
    expect((await berth('terminate', 'nobody', '--yes')).error).toContain('There is no machine nobody.')
  })

  test('a label of two machines: follow-up commands have the name', async () => {
    const order = ['rent', '--kind', 'container', '--gpu', '4090', '--count', '1', '--label', 'twin', '--yes']
    const terminateLine = async (): Promise<string[]> => {
      const line = /^Terminate +berth (terminate \S+)$/m.exec((await berth(...order)).out)
      return (line?.[1] ?? '').split(' ')
    }
    expect(await terminateLine()).toEqual(['terminate', 'twin'])
    const second = await terminateLine()
    expect(second).toEqual(['terminate', expect.not.stringContaining('twin')])
    expect(await berth(...second, '--yes')).toMatchObject({ code: 0 })
    await json('terminate', 'twin', '--yes')
  })

  test('a container has ports without an image', async () => {
    const rented = await json('rent', '--kind', 'container', '--port', '8080', '--label', 'ports', '--yes')
    expect(rented.portMappings).toEqual([expect.objectContaining({ port: 8_080 })])
    await json('terminate', 'ports', '--yes')
  })

  test('rents a virtual machine and bare metal with --json; exec passes exit codes; one command ends both', async () => {
    const vm = await json('rent', '--kind', 'vm', '--gpu', 'h200', '--count', '1', '--label', 'box', '--yes')
    expect(vm).toMatchObject({ kind: 'virtual-machine', state: 'Running', ssh: { user: 'ubuntu' } })
    expect(vm).toMatchObject({ gpuType: 'h200', gpuCount: 1, label: 'box' })
    const metal = await json('rent', '--kind', 'metal', '--network', 'infiniband', '--label', 'node', '--yes')
    expect(metal).toMatchObject({ kind: 'bare-metal', gpuCount: 8, networkType: 'infiniband' })
    const { db } = cli.server.app.database
    const { spec } = await db.selectFrom('rental').select('spec').where('id', '=', vm.id).executeTakeFirstOrThrow()
    const machine = db.updateTable('machine').where('id', '=', spec.nodes[0]?.machineId ?? '')
    // The database has it as a real machine during the login.
    await machine.set({ simulation: null }).execute()
    await tryExec('box', vm.ssh)
    await machine.set({ simulation: 'machine' }).execute()
    const ended = await json('terminate', 'box', 'node', '--reason', 'a test', '--yes')
    expect(ended).toMatchObject([
      { id: vm.id, label: 'box', costSoFarUsd: expect.stringMatching(/^\d+\.\d{9}$/) },
      { id: metal.id, label: 'node', costSoFarUsd: expect.stringMatching(/^\d+\.\d{9}$/) },
    ])
    const { body } = await cli.server.as(key)('GET', `/v2/alpha/on-demand/rentals/${vm.id}`)
    expect(body).toMatchObject({ costSoFarUsd: ended[0].costSoFarUsd, meta: { termination_reason: 'a test' } })
  })

  /** Words arrive as they stand, and the exit code comes back. */
  async function tryExec(name: string, { user, host }: { user: string; host: string }): Promise<void> {
    // This stands for the SSH of the system.
    const ssh = path.join(cli.folder, 'ssh')
    await writeFile(ssh, '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    await chmod(ssh, 0o755)
    const { code, out } = await cli.berthProcess(['exec', name, '--', 'echo', 'two words', "it's", '--json'], {
      BERTH_KEY: key,
      PATH: `${cli.folder}:/usr/bin:/bin`,
    })
    expect(code).toBe(7)
    expect(out).toContain(`${user}@${host}\necho 'two words' 'it'\\''s' --json\n`)
    expect((await berth('exec', 'nobody', '--', 'true')).error).toContain('There is no machine nobody.')
    expect((await berth('exec', name)).error).toContain("missing required argument 'command'")
  }

  test('a reserved term: shows savings and conversion before the order, and can change the conversion', async () => {
    const vm = ['rent', '--kind', 'vm', '--gpu', 'h100', '--count', '1', '--network', 'ethernet', '--label', 'bound']
    const result = await cli.berth(vm, { BERTH_KEY: key }, { answers: ['1', 'n'] })
    expect(result.out).toBe('')
    expect(result.error).toMatch(/^Term +on demand; at a discount: --days 30 \(-10%\), 90 \(-18%\), 365 \(-30%\)$/m)
    const { code, out, error } = await berth(...vm, '--days', '30', '--terminate-after-term', '--yes')
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^Price +\$2\.24\/hr, \$53\.78 per day$/m)
    expect(out).toMatch(/^Term +30 days at -10%, \$1,613\.52 in total; then it terminates$/m)
    expect(out).toMatch(/^Hold +\$1,613\.52/m)
    expect(out).toMatch(/^Early end +.*\$2\.49\/hr.*at most \$1,613\.52/m)
    // The cost of ending now is shown before the confirmation.
    const ending = await cli.berth(['terminate', 'bound'], { BERTH_KEY: key }, { answers: ['n'] })
    expect(ending.error).toMatch(
      /^bound is reserved until \S+ \S+ If you end it now, its total cost is <?\$.*of the hold is released\.$/m,
    )
    const changed = await json('set', 'bound', '--after-term', 'continue')
    expect(changed).toMatchObject({
      convertToOnDemandOnExpiry: true,
      termPeriodDays: 30,
      discountPercentage: 10,
      pricePerHourUsd: '2.241000000',
    })
    await json('terminate', 'bound', '--yes')
  })

  test('change: sets label and end time of rentals and instances; none removes them', async () => {
    await json('rent', '--kind', 'container', '--gpu', '3090', '--count', '1', '--label', 'old', '--yes')
    const { out } = await berth('set', 'old', '--label', 'new', '--hours', '2', '--spending-limit', '7.50')
    expect(out).toMatch(/^Name +new\nTerminates +at \d{4}-\S+ \S+Z\nSpending limit +\$7\.50$/m)
    const freed = await berth('set', 'new', '--hours', 'none', '--spending-limit', 'none', '--label', '')
    expect(freed.error).toBe('')
    expect(freed.out).toMatch(/^Terminates +never\nSpending limit +none$/m)
    const [, name = ''] = /^Name +(\S+)$/m.exec(freed.out) ?? []
    const late = await berth('set', name, '--spending-limit', '0.000000001')
    expect(late).toMatchObject({ code: 2, error: expect.stringContaining('add --yes') })
    const result = await cli.berth(
      ['set', name, '--spending-limit', '0.000000001'],
      { BERTH_KEY: key },
      { answers: ['n'] },
    )
    expect(result.error).toMatch(/^It has already cost <?\$0\.0\d+: .* \[y\/N\]/)
    const { code, error } = await berth('set', name, '--after-term', 'terminate')
    expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining('convertToOnDemandOnExpiry') })
    expect((await berth('set', name)).error).toContain('No changes were given.')
    expect((await berth('set', name, '--hours', 'soon')).error).toContain('a whole number')
    await json('terminate', name, '--yes')
  })

  test('requests a large reservation', async () => {
    expect((await berth('reserve', '512')).out).toMatch(/ 512 GPUs .*operator\.$/m)
    const days = (from: string, until: string) => berth('reserve', '512', '--from', from, '--until', until)
    expect(await days('2026-12-01', '2026-12-01')).toMatchObject({ code: 0 })
    const refused = await days('2026-12-10', '2026-12-01')
    expect(refused).toMatchObject({ out: '', error: expect.stringContaining('until: Must not be before from') })
    expect(refused.code).toBe(1)
    expect((await berth('reserve', 'many')).code).toBe(2)
  })

  test('--no-wait returns at once', async () => {
    const machine = await json('rent', '--kind', 'vm', '--gpu', 'h100', '--count', '1', '--no-wait', '--yes')
    expect(machine).toMatchObject({ gpuCount: 1 })
    await json('terminate', String(machine.id), '--yes')
  })

  test('a failed start: exit code 1, the cause and what to do', async () => {
    const { code, error } = await berth('rent', '--kind', 'vm', '--gpu', 'h100', '--label', 'fault-boot-fails', '--yes')
    expect(code).toBe(1)
    expect(error).toMatch(/^error: fault-boot-fails has failed: .+\.$/m)
    const [, name = ''] = /berth terminate (\S+)/.exec(error) ?? []
    expect((await json('terminate', name, '--yes'))[0]).toMatchObject({ costSoFarUsd: '0.000000000' })
  })

  test.each([
    [['--gpu', 'h100'], 2, 'This needs a confirmation, and there is no terminal.\n  To confirm in advance, add --yes'],
    [['--yes'], 2, 'Choose what to rent with'],
    [['--gpu', 'abacus', '--yes'], 1, 'To see what you can rent: berth gpus ls'],
    [['--kind', 'vm', '--image', 'debian', '--yes'], 2, '--image is for containers, and this offer is a vm.'],
    [['--kind', 'vm', '--volume', '1', '--yes'], 2, '--volume is for bare metal'],
    [['--kind', 'metal', '--port', '80', '--yes'], 2, '--port is not for bare metal'],
    [['--kind', 'vm', '--hours', '0', '--yes'], 2, 'from 1 to'],
    [['--kind', 'vm', '--days', '7', '--yes'], 2, 'There is no term of 7 days.\n  Terms: --days 30 (-10%), 90'],
    [['--kind', 'container', '--days', '30', '--yes'], 2, '--days is for virtual machines and bare metal'],
    [['--kind', 'vm', '--terminate-after-term', '--yes'], 2, '--terminate-after-term needs --days.'],
    [['--kind', 'vm', '--spending-limit', '-1', '--yes'], 2, 'Must be an amount in USD'],
  ])('%j: exit code %i and the next step', async (args, exitCode, text) => {
    // Those of other tests may still be on their way out.
    const before = await rentedIds()
    const { code, error } = await berth('rent', ...args)
    expect(code).toBe(exitCode)
    expect(error).toContain(text)
    expect((await rentedIds()).filter((id) => !before.includes(id))).toEqual([])
  })

  async function rentedIds(): Promise<unknown[]> {
    const { rentals } = await json('ls')
    return rentals.map((one: { readonly id: number }) => one.id)
  }

  test.each([
    ['vm', 'mock-region', 'ethernet', 1, '2.49'],
    ['metal', 'us-central-1', 'infiniband', 8, '2.79'],
  ])(
    '%s: a price that is raised between the question and the answer is refused',
    async (kind, region, network, n, usd) => {
      const machineType = kind === 'vm' ? 'virtual-machine' : 'bare-metal'
      const row = { machineType, region, gpuType: 'h100', networkType: network, gpuCount: n, enabled: true }
      const setPrice = async (perGpuHourUsd: string): Promise<string> => {
        const book = { gpus: [{ ...row, perGpuHourUsd }], reason: 'a test' }
        const { status } = await cli.server.operator('PUT', '/v2/operator/price-book', book)
        expect(status).toBe(200)
        return 'y'
      }
      const args = [
        'rent',
        '--kind',
        kind,
        '--gpu',
        'h100',
        '--region',
        region,
        '--network',
        network,
        '--count',
        String(n),
      ]
      const answers = [async () => setPrice('9')]
      const before = await rentedIds()
      const refused = await cli.berth([...args, '--label', 'dear'], { BERTH_KEY: key }, { answers })
      expect(refused).toMatchObject({ code: 1, out: '' })
      expect(refused.error).toContain(`$${(Number(usd) * n).toFixed(2)}/hr`)
      expect(refused.error).toContain(`error: The price is now $${9 * n}.00/hr, above your maximum of $`)
      expect(refused.error).toContain('berth gpus ls')
      expect((await rentedIds()).filter((id) => !before.includes(id))).toEqual([])
      await setPrice(usd)
    },
  )

  test('without money and without an SSH key: exit code 1 and the next step', async () => {
    const poor = await cli.server.account({ usd: '1' })
    const order = ['rent', '--kind', 'vm', '--gpu', 'h100', '--count', '1', '--yes', '--key']
    const broke = await cli.berth([...order, poor.key])
    expect({ code: broke.code, error: broke.error }).toEqual({
      code: 1,
      error: expect.stringContaining('berth balance'),
    })
    const keyless = await cli.server.account({ usd: '100', sshKey: false })
    const { code, error } = await cli.berth([...order, keyless.key])
    expect(code).toBe(1)
    expect(error).toContain('To add one: berth ssh-keys add')
  })
})

describe('in a terminal', () => {
  const env = () => ({ BERTH_KEY: key })

  test('rent asks for machine, count and confirmation, and terminate asks first', async () => {
    const { code, out } = await cli.inTerminal(
      ['rent', '--gpu', '3090'],
      [
        [/Offer \(1 to \d+\) \[1\]: /, '99\r'],
        [/Offer \(1 to \d+\) \[1\]: /, '2\r'],
        ['GPUs (1 to 2) [1]: ', '2\r'],
        ['Label (optional): ', 'mine\r'],
        ['Rent it? [y/N] ', 'y\r'],
      ],
      env(),
    )
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/^Terminate +berth terminate mine$/m) })
    expect(out).toMatch(/^Price +\$0\.38\/hr, \$9\.12 per day$/m)
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)

    const result = await cli.inTerminal(['terminate', 'mine'], [['Terminate it? [y/N] ', 'n\r']], env())
    expect(result).toMatchObject({ code: 1, out: expect.stringContaining('error: Cancelled.') })
    expect((await berth('ls')).out).toContain('mine')
    const ended = await cli.inTerminal(['terminate', 'mine'], [['Terminate it? [y/N] ', 'yes\r']], env())
    expect(ended).toMatchObject({ code: 0, out: expect.stringContaining('Terminated mine.') })
  })

  test('Ctrl-C rents nothing', async () => {
    const { code, out } = await cli.inTerminal(
      [
        'rent',
        '--kind',
        'vm',
        '--gpu',
        'b200',
        '--count',
        '1',
        '--label',
        'left',
        '--network',
        'ethernet',
        '--region',
        'mock-region',
      ],
      [['Rent it? [y/N] ', '\u0003']],
      env(),
    )
    expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining('Cancelled.') })
    expect((await berth('ls')).out).not.toContain('left')
  })
})
