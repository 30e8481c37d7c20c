/** Volumes from the command line, as customers use them, on the simulated engine. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest, type CustomerCli } from '../../../test/lab/cli.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let key: string
let berth: CustomerCli['berth']
let json: CustomerCli['json']
beforeAll(async () => {
  cli = await startCliTest()
  key = (await cli.server.account({ usd: '1000' })).key
  ;({ berth, json } = cli.as(key))
})
afterAll(() => cli.close())

interface Listed {
  readonly label: string
  readonly status: string
  readonly sizeGb: number
  readonly growingToGb: number | null
  readonly mounts: ReadonlyArray<{ readonly path: string | null; readonly readOnly: boolean; readonly state: string }>
}

/** Waits until the volume is as wanted. */
async function until(label: string, isMatch: (volume: Listed) => boolean): Promise<Listed> {
  return waitFor(`the volume ${label}`, async () => {
    const all: Listed[] = await json('volumes', 'ls')
    return all.find((one) => one.label === label && isMatch(one))
  })
}

test('creates, attaches, detaches and deletes volumes by label', async () => {
  expect((await berth('volumes', 'ls')).out).toContain('There are no volumes.')
  await json('rent', '--kind', 'metal', '--region', 'us-central-1', '--label', 'node-a', '--yes')
  const creation = await berth('volumes', 'create', 'datasets', '--size', '256', '--region', 'us-central-1')
  expect(creation.out).toMatch(/^Creating datasets: volume \d+, 256 GB in us-central-1\.$/m)
  const shows = (text: RegExp) =>
    waitFor(`volumes to show ${text.source}`, async () => text.test((await berth('volumes', 'ls')).out))
  await shows(/^ *\d+ +datasets +256 +active +us-central-1 +\$0\.0256$/m)
  expect((await berth('volumes', 'attach', 'datasets', 'node-a')).out).toContain('Attaching datasets to rental')
  await shows(new RegExp(`^ *\\d+ +datasets .*\\$0\\.0256 +node-a$`, 'm'))
  const refused = await berth('volumes', 'rm', 'datasets', '--yes')
  expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('To detach it: berth volumes detach') })
  expect((await berth('volumes', 'detach', 'datasets')).out).toContain('Detaching datasets.')
  await waitFor('it to let go', async () => (await json('volumes', 'ls'))[0].attachedRentals.length === 0)
  expect((await berth('volumes', 'rm', 'datasets')).error).toContain('add --yes')
  const result = await cli.berth(['volumes', 'rm', 'datasets'], { BERTH_KEY: key }, { answers: ['y'] })
  expect(result).toMatchObject({ code: 0, error: 'Delete datasets (256 GB) and all its data? [y/N] \n' })
  expect((await berth('volumes', 'rm', 'nothing', '--yes')).error).toContain('There is no volume nothing.')
  await json('terminate', 'node-a', '--yes')
})

test('grows and copies a volume, and mounts it with the order of a machine', async () => {
  await json('volumes', 'create', 'models', '--size', '256', '--region', 'mock-region')
  await until('models', ({ status }) => status === 'active')
  const smaller = await berth('volumes', 'grow', 'models', '256')
  expect(smaller).toMatchObject({ code: 1, error: expect.stringContaining('can only grow') })
  const grown = await berth('volumes', 'grow', 'models', '512')
  expect(grown).toMatchObject({ code: 0, out: expect.stringContaining('from 256 to 512 GB; it then costs $0.0512/hr') })
  await until('models', ({ sizeGb, growingToGb }) => sizeGb === 512 && growingToGb === null)
  const copied = await berth('volumes', 'clone', 'models', 'models-2')
  expect(copied.out).toMatch(/^Copying models to models-2: volume \d+, 512 GB\.$/m)
  await until('models-2', ({ status }) => status === 'active')

  expect(await berth('rent', '--kind', 'vm', '--mount', 'nothing:/data', '--yes')).toMatchObject({
    code: 2,
    error: expect.stringContaining('There is no volume nothing.'),
  })
  const mounts = ['--mount', 'models:/models:ro', '--mount', 'models-2:/data']
  const at = ['--kind', 'vm', '--region', 'mock-region', '--gpu', 'h100']
  await json('rent', ...at, ...mounts, '--label', 'box', '--yes')
  const both = await waitFor('both to be attached', async () => {
    const { volumes } = await json('volumes', 'of', 'box')
    return volumes.every(({ state }: { state: string }) => state === 'attached') && volumes
  })
  expect(both).toMatchObject([
    { label: 'models', path: '/models', readOnly: true },
    { label: 'models-2', path: '/data', readOnly: false },
  ])
  const screen = await cli.onScreen(['volumes', 'of', 'box'], { BERTH_KEY: key })
  expect(screen).toMatch(/models +512 +\/models +read-only +attached/)
  expect((await berth('volumes', 'ls', '--wide')).out).toMatch(/models-2 .* box +unknown +\/data/)

  // The simulated engine attaches volumes of virtual machines only with their order.
  const fixed = 'fixed when it is ordered'
  expect((await berth('volumes', 'unmount', 'models', 'box')).error).toContain(fixed)
  expect((await berth('volumes', 'mount', 'datasets-3', 'box')).error).toContain('There is no volume datasets-3.')
  expect((await berth('volumes', 'mount', 'models', 'box', '--path', '/other')).error).toContain(fixed)
  expect((await berth('volumes', 'clone', 'models', 'models-3')).error).toContain('is attached to')

  // The command that was exported makes the same machine again.
  const command = (await berth('export', 'box', '--command')).out.replaceAll('\\\n', ' ').trim().split(/\s+/)
  expect(command).toEqual(expect.arrayContaining(['--mount', expect.stringMatching(/^\d+:\/models:ro$/)]))
  const first = await json('export', 'box')
  const again = await json(...command.slice(1), '--yes')
  expect(await json('export', again.name)).toEqual(first)
  await json('terminate', again.name, '--yes')
})

test('mounts and unmounts a volume of bare metal, and orders a container with one of its machine', async () => {
  await json('rent', '--kind', 'metal', '--region', 'us-central-1', '--label', 'node-b', '--yes')
  await json('volumes', 'create', 'shared', '--size', '256', '--region', 'us-central-1')
  const withPath = await berth('volumes', 'mount', 'shared', 'node-b', '--path', '/data')
  expect(withPath).toMatchObject({ code: 1, error: expect.stringContaining('not available for bare metal') })
  expect((await berth('volumes', 'mount', 'shared', 'node-b')).out).toContain('Attaching shared to node-b.')
  await until('shared', ({ mounts }) => mounts[0]?.state === 'attached')
  expect((await berth('volumes', 'of', 'node-b')).out).toMatch(/shared +256 +\/mnt\/shared +read-write +attached/)
  expect((await berth('volumes', 'unmount', 'shared', 'node-b')).out).toContain('Detaching shared from node-b.')
  await until('shared', ({ mounts }) => mounts.length === 0)
  expect((await berth('volumes', 'of', 'node-b')).out).toContain('berth rent --mount')

  const machine = 'mock-fra-h100pcie-01'
  await json('volumes', 'create', 'weights', '--size', '256', '--region', 'eu-north-2', '--machine', machine)
  await until('weights', ({ status }) => status === 'active')
  await json('rent', '--machine', machine, '--mount', 'weights:/weights', '--label', 'cont', '--yes')
  await until('weights', ({ mounts }) => mounts[0]?.path === '/weights')
  expect(await berth('volumes', 'attach', 'weights', 'cont')).toMatchObject({
    code: 1,
    error: expect.stringContaining('berth rent --mount'),
  })
  await json('terminate', 'node-b', 'cont', '--yes')
})
