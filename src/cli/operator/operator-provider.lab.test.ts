/** `berth operator providers` with a simulated cloud. test/journeys/clouds.test.ts rents machines there. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { systemClock } from '../../base/instant.ts'
import { LambdaSim } from '../../../test/sim/clouds/lambda/cloud.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const sim = new LambdaSim({ clock: systemClock })
let cli: CliTest
let url: string

beforeAll(async () => {
  url = await sim.server.listen()
  cli = await startCliTest({ BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' })
})
afterAll(async () => {
  await cli.close()
  await sim.server.close()
})

const providers = (args: readonly string[], input?: string) =>
  cli.berth(['operator', 'providers', ...args], {}, input === undefined ? {} : { input })

test('says which clouds can be added, and adds an account with a key from standard input', async () => {
  expect((await providers(['ls'])).out).toContain('lambda needs apiKey.')
  const add = ['create', 'lambda', 'main', '--credentials', '-', '--base-url', url, '--markup', '20']
  const empty = await providers(add, '')
  expect([empty.code === 0, empty.error]).toEqual([false, expect.stringContaining('nothing was changed')])
  const added = await providers(add, `${sim.apiKey}\n`)
  expect([added.code, added.out]).toEqual([0, expect.stringContaining('Added main.')])
  const { out } = await providers(['ls'])
  expect(out).toMatch(/^main +Lambda .*cost \+ 20%/m)
  expect(out).not.toContain(sim.apiKey)
})

test('checks it, and lists what it offers and does not sell', async () => {
  const checked = await providers(['check', 'main'])
  expect([checked.code, checked.out]).toEqual([0, expect.stringMatching(/reachable +passed/)])
  // The server lists the offers of a new account with its next inventory.
  const out = await waitFor('the offers to be on sale', async () => {
    const result = await providers(['offers', 'main'])
    return /gpu_1x_h100_sxm5 +us-east-1 \(us-east-1\) .*on sale/.test(result.out) && result.out
  })
  expect(out).toMatch(/gpu_1x_a10 .*not sold: GPU/)
})

test('replaces credentials, and a check says that the cloud rejects wrong ones', async () => {
  expect((await providers(['rotate', 'main', '--credentials', '-'], '{"apiKey": "wrong-key"}')).code).toBe(0)
  const wrong = await providers(['check', 'main'])
  expect([wrong.code === 0, wrong.error]).toEqual([false, expect.stringContaining('does not answer')])
  expect(wrong.error).not.toContain('wrong-key')
  expect((await providers(['rotate', 'main', '--credentials', '-'], sim.apiKey)).code).toBe(0)
})

test('compares a bill in CSV, lists margins, changes and removes the account', async () => {
  const file = path.join(cli.folder, 'bill.csv')
  await writeFile(file, 'machine,amount\ni-1,"1.50"\ni-1,0.25\n')
  const compared = await providers(['compare', 'main', file])
  expect([compared.code === 0, compared.out]).toEqual([false, expect.stringMatching(/i-1 +- +\$1\.75 +not known/)])
  const imported = await providers(['import', 'main', file, '--from', '2026-11-01', '--to', '2026-11-30'])
  expect([imported.code === 0, imported.out]).toEqual([false, expect.stringMatching(/Imported bill\.csv as bil_/)])
  const bill = /bil_\w+/.exec(imported.out)?.[0] ?? ''
  const again = await providers(['import', 'main', file, '--from', '2026-11-01', '--to', '2026-11-30'])
  expect(again.out).toContain(`Imported before, as ${bill}`)
  expect((await providers(['bills', 'ls', 'main'])).out).toMatch(
    /bil_\w+ +bill\.csv +2026-11-01 to 2026-11-30 +1 +\$1\.75/,
  )
  expect((await providers(['bills', 'show', 'main', bill])).out).toMatch(/i-1 +- +\$1\.75 +not known/)
  expect((await providers(['bills', 'rm', 'main', bill])).out).toContain(`Deleted ${bill}.`)
  expect((await providers(['margin', '--by', 'day'])).code).toBe(0)
  expect((await providers(['set', 'main', '--monthly-cap', '5000'])).code).toBe(0)
  expect((await providers(['suspend', 'main'])).code).toBe(0)
  expect((await providers(['ls'])).out).toMatch(/^main +Lambda +suspended/m)
  expect((await providers(['resume', 'main'])).code).toBe(0)
  expect((await providers(['rm', 'main'])).code).toBe(2)
  expect((await providers(['rm', 'main', '--yes'])).code).toBe(0)
})
