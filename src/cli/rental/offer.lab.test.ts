/** What can be rented: the list of offers, and the option that leaves none of them. */
import { spawn } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest, type CustomerCli } from '../../../test/lab/cli.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let berth: CustomerCli['berth']
let json: CustomerCli['json']

beforeAll(async () => {
  cli = await startCliTest()
  ;({ berth, json } = cli.as((await cli.server.account({ usd: '10000' })).key))
})
afterAll(() => cli.close())

interface WireOffer {
  readonly kind: string
  readonly gpu: string
  readonly gpuCount: number
  readonly region: string
  readonly pricePerGpuHourUsd: string
  readonly free: number
}

describe('gpus', () => {
  test('lists all offers in one table of 80 columns, cheapest first, without a key', async () => {
    const { code, out } = await cli.berth(['gpus'], { BERTH_DATA_DIR: '/nowhere' })
    expect(code).toBe(0)
    const [head = '', ...lines] = out.trimEnd().split('\n')
    expect(head).toMatch(/^GPU +GPUS +KIND +REGION +\$\/GPU +FREE +MACHINE$/)
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
    for (const kind of ['container', 'vm', 'metal']) expect(out).toMatch(new RegExp(`^\\S.* ${kind} +\\S+ +\\$`, 'm'))
    const prices = [...out.matchAll(/\$(\d+\.\d+)/g)].map(([, price]) => price)
    expect(prices.map(Number)).toEqual(prices.map(Number).toSorted((a, b) => a - b))
    const sum = `${prices.length} offers, priced per GPU-hour. To rent one, use the same options: berth rent`
    expect(lines.at(-1)).toBe(sum)
  })

  test.each([
    [['--gpu', 'H100'], (one: WireOffer) => one.gpu.startsWith('H100')],
    [['--gpu', 'rtx 4090'], (one: WireOffer) => one.gpu === 'RTX 4090'],
    [['--region', 'mock-region'], (one: WireOffer) => one.region === 'mock-region'],
    [['--kind', 'metal'], (one: WireOffer) => one.kind === 'metal'],
    [['--kind', 'vm', '--count', '2'], (one: WireOffer) => one.kind === 'vm' && one.gpuCount === 2],
    [['--kind', 'container', '--count', '2'], (one: WireOffer) => one.kind === 'container' && one.gpuCount >= 2],
    [['--max-price', '0.39'], (one: WireOffer) => Number(one.pricePerGpuHourUsd) <= 0.39],
  ])('%j chooses', async (args, isWanted) => {
    const all = (await json('gpus')) as WireOffer[]
    const some = (await json('gpus', ...args)) as WireOffer[]
    expect(some).toEqual(all.filter(isWanted))
    expect(some.length).toBeGreaterThan(0)
    expect(some.length).toBeLessThan(all.length)
  })

  test('--kind takes the names of the API too, and quote takes the short ones', async () => {
    expect(await json('gpus', '--kind', 'virtual-machine')).toEqual(await json('gpus', '--kind', 'vm'))
    const quote = (kind: string) =>
      json('quote', '--kind', kind, '--gpu', 'h100', '--region', 'us-central-1', '--count', '8')
    expect(await quote('metal')).toEqual(await quote('bare-metal'))
    expect((await berth('quote', '--kind', 'boat')).error).toContain('Allowed choices are ')
    expect((await berth('quote', '--help')).out).toMatch(/--kind <kind> .*vm.*metal.*default: vm/s)
  })

  test('prints what to do when nothing matches', async () => {
    expect(await berth('gpus', '--gpu', 'abacus')).toMatchObject({
      code: 0,
      out: expect.stringContaining('To include rented ones: berth gpus ls --all'),
    })
    expect((await berth('gpus', '--kind', 'boat')).error).toContain('Allowed choices are container, vm, metal')
    expect((await berth('gpus', '--max-price', 'much')).error).toContain('Must be a price such as 2.49.')
  })

  test('--watch prints changes', async () => {
    const args = ['gpus', '--watch', '--every', '1', '--gpu', 'b200', '--kind', 'container', '--json']
    const watching = spawn(process.execPath, [cli.program, ...args], { env: cli.environment() })
    let seen = ''
    watching.stdout.on('data', (chunk: Buffer) => (seen += chunk.toString()))
    const free = (): number[] =>
      seen
        .split('\n')
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as WireOffer[]).reduce((sum, one) => sum + one.free, 0))
    await waitFor('the first look', () => free().length >= 1)
    await json(
      'rent',
      '--gpu',
      'b200',
      '--kind',
      'container',
      '--count',
      '3',
      '--label',
      'watched',
      '--no-wait',
      '--yes',
    )
    await waitFor('a look that differs', () => free().length >= 2)
    watching.kill()
    const [before = 0, after] = free()
    expect(after).toBe(before - 3)
    await json('terminate', 'watched', '--yes')
  })
})

test.each([
  [['--gpu', 'z9000'], 'No GPU is called z9000.'],
  [['--machine', 'nowhere'], 'There is no marketplace machine nowhere.'],
  [['--kind', 'metal', '--gpu', '4090'], 'Matching machines are of kind container.'],
  [['--gpu', '4090', '--region', 'moon'], 'Matching machines are in '],
  [['--kind', 'container', '--network', 'infiniband'], 'No matching machine has InfiniBand.'],
  [['--kind', 'vm', '--count', '3'], 'Matching virtual machines come with 1, 2, 4 or 8 GPUs.'],
  [['--kind', 'container', '--count', '100'], 'Matching containers have at most 8 GPUs.'],
  [['--gpu', 'b200', '--count', '100'], 'Matching bare metal comes with 8 GPUs.'],
  [['--gpu', '4090', '--max-price', '0.01'], 'The cheapest matching machine costs $0.35 per GPU-hour.'],
])('%j: says which option leaves nothing to rent', async (args, message) => {
  const { code, error } = await berth('rent', ...args, '--yes')
  expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining(message) })
})
