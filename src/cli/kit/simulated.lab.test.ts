/** A simulated machine: every order says so, and nobody waits for a login that never comes. */
import { spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let programs: string

beforeAll(async () => {
  cli = await startCliTest({ BERTH_MOCK_DESTROY_MS: '3600000' })
  programs = await mkdtemp(path.join(os.tmpdir(), 'berth-ssh-'))
  // Writes down what it was asked for, in place of the system's ssh.
  const ssh = path.join(programs, 'ssh')
  await writeFile(ssh, `#!/bin/sh\nprintf '%s\\n' "$@" > ${programs}/asked\n`)
  await chmod(ssh, 0o755)
})
afterAll(async () => {
  await cli.close()
  await removeFolder(programs)
})

describe('machines of each kind', () => {
  const kinds = [
    { kind: 'vm', order: ['--kind', 'vm', '--gpu', 'h100', '--count', '1', '--port', '8080'] },
    { kind: 'metal', order: ['--kind', 'metal', '--gpu', 'h100'] },
    { kind: 'container', order: ['--kind', 'container', '--gpu', '3090', '--port', '8080'] },
  ]

  test.each(kinds)(
    '$kind: the order, its answer and its detail say so, and logging in is refused',
    async ({ kind, order }) => {
      const { key } = await cli.server.account({ usd: '10000' })
      const rented = await cli.berth(['rent', ...order, '--label', 'box', '--yes', '--key', key])
      expect(rented).toMatchObject({ code: 0, error: '' })
      // Before the order, and after it.
      expect(rented.out.match(/^Note .*simulated/gm)).toHaveLength(2)
      expect(rented.out).not.toContain('berth ssh')
      // Bare metal takes no ports.
      const ports = [...rented.out.matchAll(/^Port +8080\/tcp → 198\.18\.\d+\.\d+:8080$/gm)]
      expect(ports).toHaveLength(kind === 'metal' ? 0 : 1)

      const result = await cli.berth(['show', 'box', '--key', key])
      expect(result.out).toMatch(/^Note .*simulated/m)
      const detail = await cli.berth(['show', 'box', '--key', key, '--json'])
      expect(JSON.parse(detail.out)).toMatchObject({ simulated: 'machine', label: 'box' })

      const attempts = [
        ['ssh', 'box'],
        ['ssh', 'box', '--print'],
        ['exec', 'box', 'true'],
        ['exec', 'box', '--ssh', 'true'],
        ['terminal', 'box'],
      ]
      for (const words of attempts) {
        const { code, error } = await cli.berth([...words.slice(0, 2), '--json', '--key', key, ...words.slice(2)])
        expect(code).toBe(1)
        expect(JSON.parse(error)).toMatchObject({ error: { reason: 'simulated_machine' } })
      }
    },
  )
})

test('rental options and marketplace machines mark simulated ones', async () => {
  const { call } = await cli.server.account({ usd: '1' })
  const { body: options } = await call('GET', '/v2/alpha/on-demand/rental-options')
  expect(options.every(({ simulated }: { simulated: string }) => simulated === 'machine')).toBe(true)
  const { body: listed } = await call('POST', '/v1/marketplace', {})
  expect(listed.instances[0].network).toMatchObject({ simulated: true, simulation: 'machine' })
})

test('no two simulated machines share an address', async () => {
  const { call } = await cli.server.account({ usd: '10000' })
  const count = 12
  for (let i = 0; i < count; i += 1) {
    const order = { gpuCount: 1, region: i % 2 === 0 ? 'mock-region' : 'eu-north-2' }
    await call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  }
  const hosts = await waitFor('all to run', async () => {
    const { body } = await call('GET', '/v2/alpha/on-demand/virtual-machine-rentals')
    const addresses = (body as Array<{ providerData: { sshNetworking?: Array<{ host: string }> } }>).flatMap(
      ({ providerData }) => providerData.sshNetworking?.[0]?.host ?? [],
    )
    return addresses.length === count && addresses
  })
  expect(new Set(hosts).size).toBe(count)
})

test('a failed start shows the reason of its event', async () => {
  const { key, call } = await cli.server.account({ usd: '100' })
  for (const kind of ['vm', 'container']) {
    const order = ['rent', '--kind', kind, '--count', '1', '--label', `fault-create-refused-${kind}`, '--yes']
    const { code, error } = await cli.berth([...order, '--key', key, '--json'])
    expect(code).toBe(1)
    const reply = JSON.parse(error) as { error: { message: string; reason: string } }
    const { body } = await call('GET', '/v2/events?type=rental.failed')
    const { data } = (body as { events: Array<{ data: { reason: string; detail: string } }> }).events[0] ?? {}
    expect(reply.error.reason).toBe(data?.reason)
    expect(reply.error.message).toContain(data?.detail.replace(/\.$/, ''))
  }
})

test('no model runs on simulated machines: the catalog and an attempt say so', async () => {
  const { key } = await cli.server.account({ usd: '1000' })
  const { out } = await cli.berth(['catalog', 'ls', '--key', key])
  expect(out).toMatch(/^qwen3-8b .* GB, only simulated *$/m)
  expect(out).toMatch(/\nOnly simulated: .* simulated machines never run models\.\n.*berth agent run\n$/)
  const { code, error } = await cli.berth(['deploy', 'qwen3-8b', '--key', key])
  expect(code).toBe(1)
  expect(error).toMatch(/are simulated, and simulated machines never run models\..* "berth agent run"\.\n$/)
})

test('a machine that is ending is in one list, and the other says so', async () => {
  const { key } = await cli.server.account({ usd: '100' })
  await cli.berth(['rent', '--kind', 'container', '--gpu', '3090', '--label', 'brief', '--yes', '--key', key])
  await cli.berth(['terminate', 'brief', '--yes', '--key', key])
  expect((await cli.berth(['ls', '--key', key])).out).toMatch(/^brief +container +Terminating /m)
  const { out } = await cli.berth(['ls', '--ended', '--key', key])
  expect(out).toBe('No machine has ended yet.\nStill ending: 1 machine. To list your machines: berth ls\n')
})

test('ssh times out on a machine that does not answer', async () => {
  const { key, id } = await cli.server.account({ usd: '100' })
  await cli.berth(['rent', '--kind', 'container', '--gpu', '3090', '--label', 'real', '--yes', '--key', key])
  const { db } = cli.server.app.database
  const { spec } = await db.selectFrom('rental').select('spec').where('account_id', '=', id).executeTakeFirstOrThrow()
  await waitFor('ssh to be asked', async () => {
    // The database has it as a real machine, at an address without a listener, until the next inventory.
    await db
      .updateTable('machine')
      .set({ simulation: null })
      .where('id', '=', spec.nodes[0]?.machineId ?? '')
      .execute()
    const child = spawn(process.execPath, [cli.program, 'ssh', 'real', '--key', key], {
      env: cli.environment({ PATH: programs }),
    })
    return (await new Promise((resolve) => child.once('close', resolve))) === 0
  })
  expect(await readFile(path.join(programs, 'asked'), 'utf8')).toMatch(/^ConnectTimeout=\d+$/m)
})
