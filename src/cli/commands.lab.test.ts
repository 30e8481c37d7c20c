/** Output of each command, as text and JSON, against a real server. */
import { spawn } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../test/lab/cli.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { tagOf } from '../domain/rental.ts'
import { needs } from '../../test/needs.ts'

needs('build')

let cli: CliTest

beforeAll(async () => {
  cli = await startCliTest()
})
afterAll(() => cli.close())

describe('for customers', () => {
  test('the balance, for people and for programs', async () => {
    const { key } = await cli.server.account({ usd: '1234.5' })
    const { out } = await cli.berth(['balance'], { BERTH_KEY: key })
    expect(out).toBe(
      'Balance    $1,234.50\nAvailable  $1,234.50, for new rentals\nOn hold    $0.00, for running machines and reserved terms\nSpending   nothing is running\n',
    )
    expect(await cli.json('balance', '--key', key)).toMatchObject({ balanceUsd: '1234.500000000', emptyAt: null })
  })

  test('stop waits until the machine is off; start and reboot work (issue 31, 17)', async () => {
    const { key, call } = await cli.server.account({ usd: '100' })
    const order = { gpuCount: 1, region: 'mock-region', label: 'web' }
    await call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
    const isNow = (state: string) =>
      waitFor(`web to be ${state}`, async () => {
        const machine = (await cli.json('show', 'web', '--key', key)) as { state: string }
        return machine.state === state
      })
    await isNow('Running')
    const { out: rebooted } = await cli.berth(['reboot', 'web', '--yes', '--key', key])
    expect(rebooted).toBe('web is rebooting.\n')
    const { out: stopped } = await cli.berth(['stop', 'web', '--yes', '--key', key])
    expect(stopped).toMatch(/^web is stopped\. .* its disk costs \$\d+\.\d+\/hr\.$/m)
    expect(await cli.json('show', 'web', '--key', key)).toMatchObject({ state: 'Stopped' })
    expect((await cli.berth(['show', 'web', '--key', key])).out).toMatch(/^While stopped +\$\d+\.\d+\/hr$/m)
    expect(await cli.json('start', 'web', '--if-no-gpu', 'wait', '--key', key)).toMatchObject({ state: 'Starting' })
    await isNow('Running')
    // Without a terminal nobody can be asked.
    const { code } = await cli.berth(['stop', 'web', '--key', key])
    expect(code).not.toBe(0)
  })

  test('lists rentals of every kind in one table without control sequences', async () => {
    const { key, call } = await cli.server.account({ usd: '1000' })
    expect((await cli.berth(['ls', '--key', key])).out).toContain('You have no machines.')
    const order = { gpuCount: 1, region: 'mock-region', label: 'box \u001B[31m' }
    await call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
    const { body: offers } = await call('POST', '/v1/marketplace', { filters: { available_only: true } })
    const [machine] = offers.instances
    await call('POST', '/v1/marketplace/instances/create', {
      cluster_name: machine.cluster_name,
      node_name: machine.id,
      gpu_count: 2,
      label: 'training',
    })
    const { out } = await waitFor('both to run', async () => {
      const result = await cli.berth(['ls', '--key', key])
      return result.out.match(/ Running /g)?.length === 2 && result
    })
    const [head = '', second = '', first = '', gap, sum] = out.split('\n')
    expect(first).toMatch(/^box \\x1b\[31m +vm +Running +1 × H100 +\$2\.49 {2}\d+[sm] +mock-region$/)
    expect(second).toMatch(/^training +container +Running +2 × /)
    for (const title of ['KIND', 'STATUS', 'GPUS', 'AGE', 'REGION']) {
      const at = head.indexOf(title)
      for (const line of [first, second]) expect(line.slice(at - 2, at)).toBe('  ')
    }
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(gap).toBe('')
    expect(sum).toMatch(/^2 rentals, [012] running; charged now: \$\d+\.\d\d\/hr$/)
    // The older name of the command, and everything that is known.
    const { out: wide } = await cli.berth(['rentals', '--wide', '--key', key])
    expect(wide).toMatch(/^ *\d+ +box .* \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  ssh ubuntu@\S+ -p \d+$/m)
    expect(await cli.json('ls', '--key', key)).toMatchObject({
      rentals: [
        { kind: 'container', state: 'Running' },
        { kind: 'virtual-machine', state: 'Running' },
      ],
    })
    const { out: balance } = await cli.berth(['balance', '--key', key])
    expect(balance).toMatch(/^Empty +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(in \d+ days\)$/m)
  })

  test('events as a log, and as they happen', async () => {
    const { id, key, call } = await cli.server.account()
    expect((await cli.berth(['events'])).out).toBe('No events yet.\n')
    const credit = (usd: string) =>
      cli.server.operator('POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: usd, reason: 'test' })
    await credit('1')
    await credit('2')
    const { out } = await cli.berth(['events', '--key', key, '-n', '2'])
    const line = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  balance\.credited +balance:\S+  .*amountUsd=1\.000000000/
    expect(out.split('\n')[0]).toMatch(line)
    expect(out.trimEnd().split('\n')).toHaveLength(2)

    const following = spawn(process.execPath, [cli.program, 'events', '-f', '-n', '1', '--json', '--key', key], {
      env: cli.environment(),
    })
    let seen = ''
    following.stdout.on('data', (chunk: Buffer) => (seen += chunk.toString()))
    await waitFor('the last event to be shown', () => seen.includes('"2.000000000"'))
    await call('POST', '/v2/api-keys', { name: 'for the test', scopes: ['inference'] })
    await waitFor('the next event', () => seen.includes('key.created') && seen.endsWith('\n'))
    following.kill()
    const types = seen
      .trimEnd()
      .split('\n')
      .map((text) => (JSON.parse(text) as { type: string }).type)
    expect(types).toEqual(['balance.credited', 'key.created'])
    const { out: filtered } = await cli.berth(['events', '--type', 'key.created', '--key', key])
    expect(filtered).toMatch(/^.*key\.created.*First key.*\n.*key\.created.*for the test.*\n$/)
    const { out: all } = await cli.berth(['events', '--all-accounts', '-n', '1'])
    expect(all).toMatch(new RegExp(`^\\S+ \\S+  key\\.created +${id}  key:.*for the test.*\\n$`))
  })
})

describe('for operators', () => {
  test('creates, lists and credits accounts', async () => {
    const args = [
      'operator',
      'accounts',
      'create',
      '--name',
      'Acme',
      '--owner-email',
      'owner@acme.test',
      '--platform-fee',
      '12.5',
    ]
    const result = await cli.berth([...args, '--scope', 'billing:read', 'supply'])
    expect(result.code).toBe(0)
    const [, id = ''] = /Account {2}Acme \((\w+)\)/.exec(result.out) ?? []
    const [, key = ''] = /API key {2}(bk_\w+)/.exec(result.out) ?? []
    const credited = await cli.berth([
      'operator',
      'credit',
      id,
      '12.50',
      '--reason',
      'first purchase',
      '--idempotency-key',
      'k1',
    ])
    expect(credited).toEqual({ code: 0, out: `Added $12.50 to ${id}. Available: $12.50\n`, error: '' })
    const again = await cli.berth([
      'operator',
      'credit',
      id,
      '12.50',
      '--reason',
      'first purchase',
      '--idempotency-key',
      'k1',
    ])
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('no money was moved') })
    expect((await cli.berth(['balance', '--key', key])).out).toContain('Balance    $12.50')
    const { out } = await cli.berth(['operator', 'accounts'])
    expect(out).toMatch(
      new RegExp(`^${id} +Acme +\\$12\\.50 +\\$0\\.00 +\\$12\\.50 +\\$0\\.00 +\\$0\\.00 +active$`, 'm'),
    )
    expect(out).toMatch(/^\d+ accounts$/m)
    expect(await cli.json('operator', 'accounts')).toMatchObject({ nextCursor: null })
  })

  test('an unknown account: exit code 1, and how to list accounts', async () => {
    const { code, out, error } = await cli.berth(['operator', 'credit', 'acc_nobody', '5', '--reason', 'a test'])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(error).toContain('berth operator accounts ls')
    const result = await cli.berth(['operator', 'credit', 'acc_nobody', '5', '--reason', 'a test', '--json'])
    expect(JSON.parse(result.error)).toMatchObject({
      error: { status: 404, reason: 'account_not_found', requestId: expect.any(String) },
    })
  })

  test('recounts the ledger: exit code 1 on a finding', async () => {
    const right = await cli.berth(['ledger', 'verify'])
    expect(right.code).toBe(0)
    expect(right.out).toMatch(/^ledger_sums_to_zero +\d+  none$/m)
    expect(right.out).toMatch(/^The ledger is correct: \d+ checks/m)
    const { id } = await cli.server.account({ usd: '1' })
    const { db } = cli.server.app.database
    const available = db.updateTable('ledger_account').where('account_id', '=', id).where('kind', '=', 'available')
    await available.set({ balance_nano: 7n }).execute()
    const wrong = await cli.berth(['ledger', 'verify'])
    expect(wrong.code).toBe(1)
    expect(wrong.out).toMatch(
      new RegExp(`^balance_is_its_transfers +${id} available +balance 7, transfers 1000000000$`, 'm'),
    )
    expect(wrong.out).toMatch(/^The ledger is wrong: 2 findings\./m)
    expect((await cli.berth(['ledger', 'verify', '--json'])).code).toBe(1)
    await available.set({ balance_nano: 1_000_000_000n }).execute()
    expect(await cli.json('ledger', 'verify')).toMatchObject({ ok: true })
  })

  test('compares engines with the database: exit code 1 if they differ', async () => {
    const { call } = await cli.server.account({ usd: '100' })
    await call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
    const same = await cli.berth(['audit'])
    expect(same.code).toBe(0)
    expect(same.out).toMatch(/^mock +yes +\d+ +\d+  none$/m)
    const { app } = cli.server
    const driver = app.drivers.get('mock')
    const { spec } = await app.database.db.selectFrom('rental').select('spec').limit(1).executeTakeFirstOrThrow()
    const tag = tagOf(app.installationId, 'rental', { id: 999_999, nonce: '0badcafe' })
    await driver?.create(tag, spec, AbortSignal.timeout(driver.callTimeoutMs))
    // An engine's list may lag behind a create.
    const differs = await waitFor('the engine to list it', async () => {
      const audit = await cli.berth(['audit'])
      return audit.code === 1 && audit
    })
    expect(differs.out).toMatch(new RegExp(`^unknown_rental +${tag} +\\S`, 'm'))
    expect(differs.out).toContain('Engines and database differ.')
  })
})
