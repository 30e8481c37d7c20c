/** The operator's pages for traffic, models and the fleet. */
import { fail } from '../../src/contract/result.ts'
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, systemClock, type Clock } from '../../src/base/instant.ts'
import { hostActions, type HostState } from '../../src/domain/host.ts'
import { rentalStateTable } from '../../src/contract/rental-state.ts'
import { makeSshKeyPair } from '../../src/base/ssh-key-pair.ts'
import type { ModelServer } from '../sim/model-server.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { TestAgent, testOffer } from '../harness/host-sockets.ts'
import { serveModel } from '../harness/inference.ts'
import { succeed } from '../harness/journey.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const MODEL = 'house/harbour-chat'
/** Its server is down. */
const GONE = 'house/harbour-large'
/** This many failures in a row open a breaker. */
const FAILURES = 5
const stops: Array<() => Promise<unknown> | void> = []

describe.skipIf(whyNoBrowser() !== undefined)(`the operator’s fleet in the console${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let server: TestServer
  let upstream: ModelServer

  beforeAll(async () => {
    // Late enough to be flagged as stuck; five minutes later its engine releases it.
    const clock = lateClock(rentalStateTable.Terminating.limit?.ms ?? 0)
    browser = await openBrowser({ clock, env: { BERTH_DRIVERS: 'mock,host,private-cloud' } })
    server = browser.server
    const pier = await server.account({ usd: '500' })
    await makeStuckRental(server, pier.call, () => clock.catchUp())
    await succeed(pier.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', {
      gpuCount: 1,
      region: 'mock-region',
      label: 'train',
    })
    upstream = (await serveModel(server, { name: MODEL, behaviour: { words: 12 } })).upstream
    stops.push(() => upstream.close())
    await askModel(server, 6)
    upstream.behaviour.faultsOnce.push({ kind: 'status', status: 400 })
    await server.demo('POST', '/v1/chat/completions', question)
    const gone = await serveModel(server, { name: GONE })
    await gone.upstream.close()
    await waitFor('its breaker to open', async () => {
      for (let n = 0; n < FAILURES; n += 1) {
        await server.demo('POST', '/v1/chat/completions', { ...question, model: GONE })
      }
      const { models } = await succeed(server.operator, 'GET', '/v2/operator/models')
      return JSON.stringify(models).includes('"breaker":"open"')
    })
  })
  afterAll(async () => {
    for (const stop of stops.splice(0).toReversed()) await stop()
    await browser?.close()
  })

  test('operators land on a home page with money, health, traffic and stuck work', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey, { width: 1440, height: 900 })
    await visit('/', 'Operator home')
    await page.getByRole('alert').getByText('1 stuck rental').waitFor()
    await page.getByRole('img', { name: 'Requests per minute', exact: true }).waitFor()
    const rentals = page.getByRole('region', { name: 'Rentals' })
    await rentals.getByText('1', { exact: true }).first().waitFor()
    await page.getByRole('list', { name: 'GPUs by model' }).getByText(/free$/).first().waitFor()
    await page
      .getByRole('region', { name: /^Needs attention \(\d+\)$/ })
      .getByText('1 stuck rental')
      .waitFor()
    await page
      .getByRole('region', { name: /^Revenue per day/ })
      .getByText('in 30 days')
      .waitFor()
    await page.getByRole('region', { name: 'Models' }).getByText(MODEL).waitFor()
    await look('operator-home')
    // Inside the console, the overview of the operator's own account is a link away.
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(new URL(page.url()).pathname).toBe('/')
    await close()
    const phone = await browser.open(server.operatorKey, { width: 390 })
    await phone.visit('/operator', 'Operator home')
    await phone.page.getByRole('list', { name: 'GPUs by model' }).waitFor()
    await phone.look('operator-home-phone')
    await phone.visit('/operator/fleet?tab=clusters', 'Fleet')
    await phone.page.getByText('No clusters').waitFor()
    await phone.look('fleet-clusters-phone')
    await phone.close()
  })

  test('traffic shows stuck rentals, the load of models and live events', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey)
    await visit('/operator/traffic', 'Traffic')
    const warning = page.getByRole('alert')
    await warning.getByText('1 stuck rental').waitFor()
    await page.getByText(/of Test 1: Terminating for 1\d minutes/).waitFor()
    await page.getByRole('img', { name: 'Requests per minute', exact: true }).waitFor()
    const load = page.getByRole('table', { name: 'Load of models' }).getByRole('row', { name: MODEL })
    await load.getByRole('cell', { name: '7', exact: true }).waitFor()
    await load.getByText('ready').waitFor()
    const events = page.getByRole('table', { name: 'Events of all accounts' })
    await events.getByText('rental.stuck').waitFor()
    await server.operator('POST', '/v2/operator/accounts/demo/credit', { amountUsd: '5', reason: 'a good customer' })
    await events
      .getByRole('row', { name: /Demo.*balance\.credited/ })
      .first()
      .waitFor()
    await look('traffic')
    await page.getByRole('link', { name: 'View stuck rentals' }).click()
    await page
      .getByRole('table', { name: 'Stuck rentals' })
      .getByText(/the engine mock still reports/)
      .waitFor()
    expect(new URL(page.url()).searchParams.get('tab')).toBe('rentals')
    await close()
    const phone = await browser.open(server.operatorKey, { width: 390 })
    await phone.visit('/operator/traffic', 'Traffic')
    await phone.page.getByRole('table', { name: 'Load of models' }).getByText(MODEL).waitFor()
    await phone.look('traffic-phone')
    await phone.close()
  })

  test('models are added, priced, drained and deleted, and errors appear at their fields', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey)
    await visit('/operator/models', 'Models')
    await page.getByRole('heading', { level: 2, name: MODEL }).waitFor()
    await page.getByRole('button', { name: 'Add model' }).click()
    const dialog = page.getByRole('dialog', { name: 'Add a model' })
    await dialog.getByLabel('Name', { exact: true }).fill('house/voice')
    await dialog.getByLabel('Kind').selectOption('Speech')
    await dialog.getByLabel('USD per million characters').fill('cheap')
    await dialog.getByLabel('URL').fill('http://169.254.169.254/')
    await dialog.getByRole('button', { name: 'Add model' }).click()
    await dialog.getByText(/a price in USD up to 10000/).waitFor()
    await dialog.getByLabel('USD per million characters').fill('4.50')
    await dialog.getByRole('button', { name: 'Add model' }).click()
    await dialog.getByLabel('URL').and(page.locator('[aria-invalid=true]')).waitFor()
    await look('models-add')
    expect(await modelNames(server)).not.toContain('house/voice')
    await dialog.getByLabel('URL').fill(`http://${upstream.host}:${upstream.port}`)
    await dialog.getByLabel('API key').fill('sk-secret-of-theirs')
    await expectDuring(page.getByRole('status').getByText('Added house/voice.'), () =>
      dialog.getByRole('button', { name: 'Add model' }).click(),
    )
    const voice = page.getByRole('region', { name: 'house/voice', exact: true })
    await voice.getByText('$4.50 per million characters').waitFor()
    await voice.getByText('with an API key').waitFor()
    expect(await page.content()).not.toContain('sk-secret-of-theirs')

    const servers = page.getByRole('table', { name: `Deployments of ${GONE}` })
    await servers.getByText(/failing|recovering/).waitFor()
    await page.getByRole('region', { name: GONE, exact: true }).getByText('no healthy deployment').waitFor()
    await look('models')
    await voice.getByRole('button', { name: /^Drain/ }).click()
    await voice.getByText('drained', { exact: true }).waitFor()
    await voice.getByRole('button', { name: 'Change house/voice' }).click()
    const change = page.getByRole('dialog', { name: 'Change house/voice' })
    await change.getByLabel('USD per million characters').fill('3.25')
    await look('models-change')
    await change.getByRole('button', { name: 'Save changes' }).click()
    await voice.getByText('$3.25 per million characters').waitFor()
    await voice.getByRole('button', { name: 'Delete house/voice' }).click()
    const sure = page.getByRole('dialog', { name: 'Delete house/voice?' })
    expect(await sure.getByRole('button', { name: 'Delete' }).isDisabled()).toBe(true)
    await sure.getByLabel('Type house/voice to confirm').fill('house/voice')
    await sure.getByRole('button', { name: 'Delete' }).click()
    await voice.waitFor({ state: 'detached' })
    expect(await modelNames(server)).not.toContain('house/voice')
    await close()
  })

  test('machines are found by the filters in the URL and changed with a reason', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey)
    await visit('/operator/fleet?q=rtx4090&offering=marketplace', 'Fleet')
    const rows = page.getByRole('table', { name: 'Machines' }).getByRole('row')
    await waitFor('five of them and the header', async () => (await rows.count()) === 6)
    await page.getByLabel('Search').fill('pdx-rtx4090-01')
    await page.waitForURL(({ searchParams }) => searchParams.get('q') === 'pdx-rtx4090-01')
    const row = page.getByRole('row', { name: 'mock-pdx-rtx4090-01' })
    await row.getByRole('button', { name: 'Change' }).click()
    const dialog = page.getByRole('dialog', { name: 'mock-pdx-rtx4090-01' })
    await dialog.getByLabel('Draining').check()
    await dialog.getByLabel('GPUs withdrawn from sale').fill('9')
    await dialog.getByLabel('Reason').fill('a fan is loud')
    await dialog.getByRole('button', { name: 'Save changes' }).click()
    await dialog.getByText(fail('gpu_out_of_range', { gpus: 4 }).message).waitFor()
    await dialog.getByLabel('GPUs withdrawn from sale').fill('3')
    // The machine's owner sets the price.
    expect(await dialog.getByLabel('Price per GPU-hour').count()).toBe(0)
    await dialog.getByLabel('Supplier').selectOption('Operator')
    expect(await dialog.getByLabel('Price per GPU-hour').inputValue()).toBe('0.35')
    await dialog.getByLabel('Price per GPU-hour').fill('0.4100000001')
    await dialog.getByRole('button', { name: 'Save changes' }).click()
    await dialog.getByLabel('Price per GPU-hour').and(page.locator('[aria-invalid=true]')).waitFor()
    await look('fleet-machine-change')
    await dialog.getByLabel('Price per GPU-hour').fill('0.41')
    await dialog.getByRole('button', { name: 'Save changes' }).click()
    await row.getByText('draining').waitFor()
    await row.getByText('$0.41').waitFor()
    // The form does not send back GPUs that the engine reports as sick.
    await page.getByLabel('Search').fill('pdx-rtx4090-02')
    await page.getByRole('row', { name: 'mock-pdx-rtx4090-02' }).getByRole('button', { name: 'Change' }).click()
    const sick = page.getByRole('dialog', { name: 'mock-pdx-rtx4090-02' })
    await sick.getByText('Faulty (reported by the engine)').waitFor()
    expect(await sick.getByLabel('GPUs withdrawn from sale').inputValue()).toBe('')
    await sick.getByRole('button', { name: 'Cancel' }).click()
    await page.getByLabel('Search').fill('')
    await page.getByLabel('Offered as').selectOption('')
    await waitFor('all of them', async () => (await rows.count()) > 6)
    await look('fleet-machines')

    await page.getByRole('tab', { name: 'Engines' }).click()
    await page.getByRole('heading', { level: 3, name: 'mock' }).waitFor()
    await page.getByText('No differences from the database.').first().waitFor()
    await look('fleet-engines')
    await page.getByRole('tab', { name: 'Rentals' }).click()
    const all = page.getByRole('table', { name: 'Rentals of all accounts' })
    await all.getByText('Running').first().waitFor()
    await look('fleet-rentals')
    await page.getByLabel('State').selectOption('Terminating')
    await waitFor('one of them alone', async () => (await all.getByRole('row').count()) === 2)
    await close()
  })

  test('hosts allow only the actions of their state', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey)
    const agent = await joinAgent(server, 'pier-1')
    await visit('/operator/fleet?tab=hosts', 'Fleet')
    const row = page.getByRole('row', { name: /pier-1/ })
    await row.getByText('GPU 97%, 61 °C, CPU 12%').waitFor()
    await row.getByRole('button', { name: 'Manage pier-1' }).click()
    const host = page.getByRole('dialog', { name: 'pier-1' })
    expect(await host.getByRole('button', { name: 'Release' }).getAttribute('title')).toBe('It is ready')
    expect(await host.getByRole('button', { name: 'Release' }).isDisabled()).toBe(true)
    await look('fleet-host')
    await host.getByRole('button', { name: 'Quarantine' }).click()
    const sure = page.getByRole('dialog', { name: 'Quarantine pier-1' })
    await sure.getByLabel('Reason').fill('its fans have stopped')
    await sure.getByRole('button', { name: 'Quarantine' }).click()
    await row.getByText('quarantined').waitFor()
    await row.getByRole('button', { name: 'Manage pier-1' }).click()
    await host.getByText('its fans have stopped').waitFor()
    await host.getByRole('button', { name: 'Remove' }).click()
    const removal = page.getByRole('dialog', { name: 'Remove pier-1' })
    await removal.getByLabel('Reason').fill('sold')
    await removal.getByLabel('Type pier-1 to confirm').fill('pier-1')
    await removal.getByRole('button', { name: 'Remove' }).click()
    await row.getByText('left').waitFor()
    await agent.end()

    await page.getByRole('button', { name: 'Add bare metal' }).click()
    const form = page.getByRole('dialog', { name: 'Add bare metal' })
    await form.getByLabel('Type').selectOption('h200')
    expect(await form.getByLabel('Model').inputValue()).toBe('NVIDIA-H200-SXM-141GB')
    await form.getByLabel('Cores').fill('many')
    await form.getByRole('button', { name: 'Add host' }).click()
    await form.getByLabel('Cores').and(page.locator('[aria-invalid=true]')).waitFor()
    await look('fleet-host-add')
    const facts = { Name: 'rack-7', Cluster: 'metal-east', 'Host name': 'rack-7.example.test', CPU: 'EPYC 9654' }
    const addresses = { 'Public address': '203.0.113.7', 'Private address': '10.0.0.7' }
    const sizes = { Cores: '96', Threads: '192', 'Memory (GB)': '2304', 'Disk (GB)': '30720' }
    for (const [label, value] of Object.entries({ ...facts, ...addresses, ...sizes })) {
      await form.getByLabel(label, { exact: true }).fill(value)
    }
    await form.getByLabel('Private key').fill(makeSshKeyPair('operator').privateKey)
    await form.getByRole('button', { name: 'Add host' }).click()
    await page
      .getByRole('row', { name: /rack-7/ })
      .getByText(/cleaning|quarantined/)
      .waitFor()
    await look('fleet-hosts')
    await close()
  })

  test('base images are added and deleted, and a placement is explained', async () => {
    const { page, visit, look, close } = await browser.open(server.operatorKey)
    await visit('/operator/fleet?tab=images', 'Fleet')
    await page.getByRole('button', { name: 'Add image' }).click()
    const dialog = page.getByRole('dialog', { name: 'Add a base image' })
    await dialog.getByLabel('Name', { exact: true }).fill('debian-12')
    await dialog.getByLabel('Source').fill('https://images.example.test/debian-12-generic-amd64.qcow2')
    await dialog.getByLabel('SHA-256').fill('not a digest')
    await dialog.getByLabel('Login user').fill('debian')
    await dialog.getByRole('button', { name: 'Add image' }).click()
    await dialog.getByText('Must be 64 lowercase hexadecimal digits').waitFor()
    await dialog.getByLabel('SHA-256').fill('AB'.repeat(32))
    await dialog.getByLabel('Default image').check()
    await dialog.getByRole('button', { name: 'Add image' }).click()
    const row = page.getByRole('row', { name: /debian-12/ })
    await row.getByText('default').waitFor()
    await look('fleet-images')
    await row.getByRole('button', { name: 'Delete debian-12' }).click()
    await page.getByRole('dialog', { name: 'Delete debian-12?' }).getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No base images yet').waitFor()

    await page.getByRole('tab', { name: 'Placement' }).click()
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('can be placed').waitFor()
    await page
      .getByRole('table', { name: 'Matching machines' })
      .getByText('mock-lab-h100-01', { exact: true })
      .waitFor()
    await look('fleet-placement')
    await page.getByLabel('GPUs', { exact: true }).fill('64')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('cannot be placed').waitFor()
    await page.getByText('Different size').first().waitFor()
    expect(await page.getByRole('link', { name: 'View price book' }).getAttribute('href')).toBe('/operator/prices')
    await close()
  })
})

test('the table of host actions matches the server', async () => {
  const server = await testServer({ runLoops: false })
  const { token } = await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})
  const publicKey = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x
  await succeed(server.anonymous, 'POST', '/v2/agent/join', { token, name: 'pier-2', offer: testOffer, publicKey })
  const { db } = server.app.database
  for (const [action, from] of Object.entries(hostActions)) {
    for (const state of ['ready', 'draining', 'cleaning', 'quarantined', 'left'] as const) {
      await db.updateTable('host').set({ state, state_reason: null }).where('id', '=', 'pier-2').execute()
      const reply = await server.operator('PATCH', '/v2/operator/hosts/pier-2', { action, reason: 'for the test' })
      const leadsElsewhere = reply.status === 200 && reply.body.state !== state
      const isReported = (from as readonly HostState[]).includes(state)
      expect({ action, state, leadsElsewhere }).toEqual({ action, state, leadsElsewhere: isReported })
    }
  }
  await server.close()
})

/** A clock behind the browser's, to make something last for long. */
function lateClock(lateMs: number): Clock & { catchUp(): void } {
  let behindMs = lateMs
  return { now: () => addMs(systemClock.now(), -behindMs), catchUp: () => void (behindMs = 0) }
}

/** A stuck rental: terminated a quarter of an hour ago, and still at its engine. */
async function makeStuckRental(server: TestServer, call: TestServer['demo'], letTimePass: () => void): Promise<void> {
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const order = { gpuCount: 1, region: 'mock-region', label: 'fault-destroy-slow' }
  const { id } = await succeed(call, 'POST', path, order)
  const isIn = (status: string) => async (): Promise<boolean> =>
    (await succeed(call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === status
  await waitFor('the machine to run', isIn('Running'))
  await succeed(call, 'POST', `${path}/terminate`, { rentalId: id })
  const listed = async (query: string) =>
    (await succeed(server.operator, 'GET', `/v2/operator/rentals${query}`)).rentals
  await waitFor('the engine to be asked', async () => (await listed(''))[0]?.attempts > 0)
  letTimePass()
  await waitFor('it to be flagged', async () => (await listed('?stuck=true')).length > 0)
}

const question = { model: MODEL, messages: [{ role: 'user', content: 'Which ships come in today?' }] }

async function askModel(server: TestServer, times: number): Promise<void> {
  await waitFor('the model to answer', async () => {
    const reply = await server.demo('POST', '/v1/chat/completions', question)
    return reply.status === 200
  })
  for (let n = 1; n < times; n += 1) await succeed(server.demo, 'POST', '/v1/chat/completions', question)
}

async function modelNames(server: TestServer): Promise<string[]> {
  const { models } = await succeed(server.operator, 'GET', '/v2/operator/models')
  return (models as Array<{ name: string }>).map((model) => model.name)
}

/** A machine of the operator that reports. */
async function joinAgent(server: TestServer, name: string): Promise<TestAgent> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { token } = await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})
  const body = { token, name, offer: testOffer, publicKey: publicKey.export({ format: 'jwk' }).x }
  const { hostId } = await succeed(server.anonymous, 'POST', '/v2/agent/join', body)
  const agent = await new TestAgent(server.url, { id: hostId, privateKey }).enter()
  stops.push(() => agent.end())
  agent.report({ notes: ['Containers have no disks that grow.'] })
  const gpu = { utilizationPercent: 97, memoryUsedMib: 20_000, memoryTotalMib: 24_564, powerWatts: 400 }
  const gpus = [0, 1].map((index) => ({ index, ...gpu, temperatureCelsius: 60 + index }))
  agent.say({ type: 'metrics', gpus, cpuPercent: 12, memoryUsedGb: 31, diskFreeGb: 640 })
  return agent
}
