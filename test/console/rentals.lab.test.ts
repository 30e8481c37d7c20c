/** A customer's machines in the console: live state, login, logs and metrics, termination. */
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MuxStream } from '../../src/base/net/mux.ts'
import { streamRequest, type StreamRequest } from '../../src/contract/agent.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { TestAgent, testOffer } from '../harness/host-sockets.ts'
import { succeed } from '../harness/journey.ts'
import type { Call, TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const V2 = '/v2/alpha/on-demand'

describe.skipIf(whyNoBrowser() !== undefined)(`rentals${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let customer: { key: string; call: Call }

  beforeAll(async () => {
    browser = await openBrowser({ env: { BERTH_DRIVERS: 'mock,host' } })
    customer = await browser.server.account({ usd: '250' })
  })
  afterAll(() => browser.close())

  async function rent(label: string, more: Record<string, unknown> = {}): Promise<number> {
    const body = { gpuCount: 1, region: 'mock-region', label, ...more }
    const { id } = await succeed(customer.call, 'POST', `${V2}/virtual-machine-rentals`, body)
    return id as number
  }

  async function status(id: number, wanted: string): Promise<void> {
    await waitFor(`rental ${id} to be ${wanted}`, async () => {
      const { body } = await customer.call('GET', `${V2}/rentals/${id}`)
      return body.status === wanted
    })
  }

  test('shows the first steps to a new account and checks them off', async () => {
    const newcomer = await browser.server.account({ usd: '20' })
    const { page, visit, look, close } = await browser.open(newcomer.key)
    await visit('/', 'Overview')
    await page.getByText('No rentals yet').waitFor()
    await page.getByText('No current spend').waitFor()
    await look('overview-first')
    await page.getByRole('link', { name: 'Take the tour' }).click()
    await page.getByRole('heading', { name: /Rent a machine.*not done/ }).waitFor()
    const order = { gpuCount: 1, region: 'mock-region' }
    const { id } = await succeed(newcomer.call, 'POST', `${V2}/virtual-machine-rentals`, order)
    await page.getByRole('heading', { name: /Rent a machine.*Done/ }).waitFor()
    expect(await page.getByText('Done', { exact: true }).count()).toBe(1)
    await waitFor('it to run', async () => (await newcomer.call('GET', `/v2/rentals/${id}`)).body.state === 'Running')
    await succeed(newcomer.call, 'DELETE', `/v2/rentals/${id}`)
    await waitFor('the first charge', async () => {
      const { body } = await newcomer.call('GET', '/v2/usage/summary')
      return Number(body.totalUsd) > 0
    })
    await page.getByRole('heading', { name: /See what it cost.*not done/ }).waitFor()
    await look('tour')
    await page.getByRole('main').getByRole('link', { name: 'Costs' }).click()
    await page.getByRole('heading', { level: 1, name: 'Costs' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: /See what it cost.*Done/ }).waitFor()
    await close()
  })

  test('shows, changes and terminates a rental without a reload', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    await visit('/rentals', 'Rentals')
    await page.getByText('No rentals yet').waitFor()
    const id = await rent('train', { spendingLimitUsd: '20' })
    const row = page.getByRole('row', { name: /train/ })
    await row.getByText('Running').waitFor()
    await row.getByRole('link', { name: 'train' }).click()
    await page.getByRole('heading', { level: 1, name: 'train' }).waitFor()
    const timeline = page.getByRole('list', { name: 'Timeline' })
    await timeline.getByText('Pending').first().waitFor()
    await timeline.getByText(/^Next: .* or Terminating\./).waitFor()
    const command = await page.getByLabel('SSH command').inputValue()
    expect(command).toMatch(/^ssh -p 22 -o HostKeyAlias=berth-\S+ -o StrictHostKeyChecking=accept-new ubuntu@[\d.]+$/)
    await expectDuring(page.getByRole('button', { name: 'Copied' }), () =>
      page.getByRole('button', { name: 'Copy' }).first().click(),
    )
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command)
    await look('rental')

    await page.getByRole('button', { name: 'Change', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Label').fill('train-v2')
    await dialog.getByLabel('Spending limit (USD)').fill('a lot')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('Must be an amount in USD').waitFor()
    await look('rental-change')
    await dialog.getByLabel('Spending limit (USD)').fill('25.50')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { level: 1, name: 'train-v2' }).waitFor()
    await page.getByText('$25.50').waitFor()

    await page.getByRole('tab', { name: 'Metrics' }).click()
    await page.getByText('The machine is simulated').waitFor()
    await page.getByRole('tab', { name: 'Logs' }).click()
    await page.getByText('Simulated machines have no logs').waitFor()
    await page.getByRole('tab', { name: 'Terminal' }).click()
    await page.getByRole('button', { name: 'Open terminal' }).click()
    await page.getByText('This machine is simulated').waitFor()
    await page.getByRole('tab', { name: 'Volumes' }).click()
    await page.getByText('This machine was ordered without volumes.').waitFor()
    await page.getByRole('tab', { name: 'Events' }).click()
    await page.getByRole('table', { name: 'Events of this rental' }).getByText('Rental changed').waitFor()
    await page.getByRole('tab', { name: 'Overview' }).click()

    await page.getByRole('button', { name: 'Terminate' }).click()
    await dialog.getByText('This cannot be undone').waitFor()
    await look('rental-terminate')
    await dialog.getByRole('button', { name: 'Terminate' }).click()
    await timeline.getByText('The machine and the data on its disk have been deleted').waitFor()
    expect(await page.getByRole('button', { name: 'Terminate' }).isDisabled()).toBe(true)
    // The reason is also available by keyboard.
    await expectDuring(page.getByRole('status').getByText('The machine is Terminated'), () =>
      page.getByRole('button', { name: 'Change', exact: true }).press('Enter'),
    )
    expect(await page.getByRole('button', { name: 'Change', exact: true }).getAttribute('title')).toBe(
      'The machine is Terminated',
    )
    const { body } = await customer.call('GET', `${V2}/rentals/${id}`)
    const [dollars = '', nanos = ''] = (body.costSoFarUsd as string).split('.')
    const overview = page.getByRole('tabpanel', { name: 'Overview' })
    await overview.getByText(`$${dollars}.${nanos.slice(0, 4)}`).waitFor()
    await close()
  })

  test('explains a failure and shows state changes live', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    const failed = await rent('batch fault-boot-fails')
    await status(failed, 'Failed')
    await visit(`/rentals/${failed}`, /batch/)
    await page
      .getByRole('alert')
      .getByText(/^This machine failed\./)
      .waitFor()
    await look('rental-failed')
    const refused = await rent('fault-no-capacity')
    await status(refused, 'Failed')
    await visit(`/rentals/${refused}`, /fault-no-capacity/)
    await page.getByText(/try another region, size or GPU/).waitFor()
    await page.setViewportSize({ width: 390, height: 780 })
    await look('rental-phone')
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
    await page.setViewportSize({ width: 1280, height: 800 })
    const pending = await rent('warm-up fault-slow-boot')
    await visit(`/rentals/${pending}`, /warm-up/)
    await page.getByText('The SSH command appears here when the machine is running.').waitFor()
    // It is terminated elsewhere.
    await succeed(customer.call, 'POST', `${V2}/virtual-machine-rentals/terminate`, { rentalId: pending })
    await page
      .getByRole('list', { name: 'Timeline' })
      .getByText('The machine and the data on its disk have been deleted')
      .waitFor()
    expect(await page.getByText('The machine has ended.').isVisible()).toBe(true)
    await close()
  })

  test('lists rentals by kind and state, and ended ones', async () => {
    await status(await rent('notebook'), 'Running')
    const metal = await succeed(customer.call, 'POST', `${V2}/bare-metal-rentals`, {
      networkType: 'infiniband',
      gpuCount: 8,
      gpuType: 'h100',
      region: 'us-central-1',
      label: 'cluster-a',
      storageVolume: { isNew: true, label: 'datasets', sizeInGb: 512 },
    })
    await status(metal.id as number, 'Running')
    const { page, visit, look, close } = await browser.open(customer.key)
    await visit('/rentals', 'Rentals')
    const table = page.getByRole('table', { name: 'Rentals' })
    await table.getByRole('row', { name: /cluster-a.*Bare metal/ }).waitFor()
    await look('rentals')
    await page.getByLabel('State').selectOption('Failed')
    await table.getByRole('link', { name: 'fault-no-capacity' }).waitFor()
    await table.getByRole('link', { name: 'notebook' }).waitFor({ state: 'detached' })
    expect(page.url()).toContain('state=Failed')
    await page.getByLabel('Name or label').fill('no such')
    await page.getByText('No rentals match').waitFor()
    await page.getByRole('tab', { name: 'Ended' }).click()
    await page.getByRole('table', { name: 'Ended rentals' }).getByText('Terminated on request.').first().waitFor()
    await look('rentals-ended')

    await visit('/', 'Overview')
    await page.getByRole('table', { name: 'Machines' }).getByText('cluster-a').waitFor()
    await look('overview')
    await visit('/events', 'Events')
    await page.getByRole('table', { name: 'Events' }).getByText('Rental running').first().waitFor()
    await look('events')
    await page.getByLabel('Type').selectOption({ label: 'Rental failed' })
    await page
      .getByRole('row', { name: /Rental running/ })
      .first()
      .waitFor({ state: 'detached' })
    expect(page.url()).toContain('type=rental.failed')

    await visit(`/rentals/${metal.id}`, 'cluster-a')
    await page.getByText('infiniband', { exact: true }).waitFor()
    await look('rental-bare-metal')
    await page.getByRole('tab', { name: 'Volumes' }).click()
    await page.getByRole('row', { name: /datasets.*\/mnt\/datasets.*attached/ }).waitFor()
    await look('rental-volumes')
    await page.getByRole('button', { name: 'Detach datasets' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Detach' }).click()
    await page.getByText('No volumes', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Attach volume' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Attach' }).click()
    await page.getByRole('cell', { name: 'datasets', exact: true }).waitFor()
    await close()
  })

  test('shows metrics, live logs and a terminal of a container', async () => {
    const host = await joinHost(browser.server)
    try {
      const { instance_name: name } = await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', {
        cluster_name: testOffer.clusterName,
        node_name: host.id,
        gpu_count: 2,
        label: 'render',
        image: { name: 'debian', tag: '12', port: 8080 },
      })
      const { page, visit, look, close } = await browser.open(customer.key)
      // The address of a container in older links.
      await visit(`/rentals/containers/${name}`, 'render')
      expect(page.url()).toContain(`/rentals/${name}`)
      const here = page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name: 'Rentals' })
      expect(await here.getAttribute('aria-current')).toBe('page')
      await page.getByLabel('SSH command').waitFor()
      await look('rental-container')

      await page.getByRole('button', { name: 'Change', exact: true }).click()
      const change = page.getByRole('dialog', { name: 'Change rental' })
      await change.getByLabel('Label').fill('render-v2')
      await change.getByLabel('Spending limit (USD)').fill('12.50')
      await change.getByRole('button', { name: 'Save' }).click()
      await page.getByRole('heading', { level: 1, name: 'render-v2' }).waitFor()
      await page.getByText('$12.50').waitFor()
      expect((await customer.call('GET', `/v2/rentals/${name}`)).body).toMatchObject({
        label: 'render-v2',
        spendingLimitUsd: '12.500000000',
        autoTerminateAt: null,
      })

      host.measure(37)
      await page.getByRole('tab', { name: 'Metrics' }).click()
      await page
        .getByRole('list', { name: /^GPU utilization/ })
        .getByText('37%')
        .first()
        .waitFor()
      host.measure(82)
      const last = page.getByRole('list', { name: /^GPU utilization/ }).getByText('82%')
      await last.first().waitFor()
      await page.getByRole('table', { name: 'Latest samples' }).getByText('82%').first().waitFor()
      await page.locator('figure canvas').first().waitFor()
      // The average of both GPUs.
      await page.getByLabel('Live metrics').getByText('79%').waitFor()
      await look('rental-metrics')
      // Averages of five minutes.
      const daily = page.waitForResponse((response) => response.url().includes('step=300'))
      await page.getByRole('button', { name: '24 h' }).click()
      const { history } = await (await daily).json()
      const utilization = history.series.find((one: { metric: string }) => one.metric === 'gpuUtilizationPercent')
      const average = Math.round(utilization.average.findLast((value: number | null) => value !== null))
      expect([average >= 37, average <= 82]).toEqual([true, true])
      const shown = page.getByRole('list', { name: /^GPU utilization/ }).getByText(`${average}%`)
      await shown.first().waitFor()
      await page.getByRole('button', { name: '1 h', exact: true }).click()

      await page.getByRole('tab', { name: 'Logs' }).click()
      const log = await host.opened('logs')
      expect(log.request).toMatchObject({ follow: true })
      log.stream.write('\u001B[32mepoch 1\u001B[0m loss 0.91\nepoch 2 loss 0.74\n')
      const lines = page.getByRole('log', { name: 'Logs' })
      await lines.getByText('epoch 1 loss 0.91').waitFor()
      await page.getByRole('button', { name: 'Pause' }).click()
      log.stream.write('epoch 3 loss 0.55\n')
      await page.getByText('Paused, 1 new line.').waitFor()
      expect(await lines.textContent()).not.toContain('epoch 3')
      await page.getByRole('button', { name: 'Resume' }).click()
      await lines.getByText('epoch 3 loss 0.55').waitFor()
      await page.getByLabel('Timestamps').check()
      await page.getByRole('searchbox', { name: 'Search the log' }).fill('loss')
      await page.getByRole('main').getByRole('button', { name: 'Search' }).click()
      const found = await waitFor('a search', async () => {
        const one = await host.opened('logs')
        return one.request.kind === 'logs' && one.request.search === 'loss' && one.request.timestamps && one
      })
      found.stream.write('2026-11-14T12:00:00.000Z epoch 1 loss 0.91\n')
      await lines.getByText('2026-11-14T12:00:00.000Z epoch 1').waitFor()
      const href = await page.getByRole('link', { name: 'Download' }).getAttribute('href')
      expect(new URL(href ?? '', browser.server.url).searchParams.toString()).toBe(
        'tail=100000&timestamps=true&download=true&search=loss',
      )
      await look('rental-logs')

      await page.getByRole('tab', { name: 'Terminal' }).click()
      await waitFor('the end of the log', () => log.stream.destroyed && found.stream.destroyed)
      await page.getByRole('button', { name: 'Open terminal' }).click()
      const { request, stream, heard, signals } = await host.opened('terminal')
      expect(request).toMatchObject({ command: null })
      stream.write('root@render:~# \u001B[31mred \u001B[1;32mbold green \u001B[0;38;2;120;80;200mviolet\u001B[0m ')
      const screen = page.getByRole('group', { name: 'Terminal' })
      await screen.locator('.xterm-rows').getByText('violet').waitFor()
      const colors = await page.evaluate(readColors)
      expect(colors).toMatchObject([
        { color: 'rgb(179, 38, 30)' },
        { color: 'rgb(20, 113, 58)', fontWeight: '700' },
        { color: 'rgb(120, 80, 200)' },
      ])
      await screen.locator('.xterm-cursor').waitFor()
      await page.keyboard.type('nvidia-smi\r')
      await waitFor('the keys', () => heard().endsWith('nvidia-smi\r'))
      await page.setViewportSize({ width: 900, height: 800 })
      await waitFor('the size', () => signals.length > 0)
      await look('rental-terminal')
      stream.sendSignal({ exitCode: 3 })
      stream.end('logout\r\n')
      await page.getByText('The session ended with exit code 3.').waitFor()

      // The host goes silent and comes back.
      host.pause()
      const lost = page.getByRole('alert').getByText('Contact with this machine was lost')
      await lost.waitFor()
      await look('rental-lost')
      host.resume()
      await lost.waitFor({ state: 'detached' })

      await page.getByRole('button', { name: 'Terminate' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Terminate' }).click()
      await page.getByRole('tab', { name: 'Overview' }).click()
      await page
        .getByRole('list', { name: 'Timeline' })
        .getByText('The machine and the data on its disk have been deleted')
        .waitFor()
      await look('rental-ended')
      await close()
    } finally {
      await host.end()
    }
  })
})

/** Runs in the page: colors and weights of the words on the terminal. */
const readColors = `['red', 'bold green', 'violet'].map((word) => {
  const span = [...document.querySelectorAll('.xterm-rows span')].find((one) => one.textContent.trim() === word)
  const { color, fontWeight } = getComputedStyle(span)
  return { color, fontWeight }
})`

interface OpenedStream {
  readonly request: StreamRequest
  readonly stream: MuxStream
  readonly signals: unknown[]
  readonly heard: () => string
}

/** A host with a real connection to the server. It reports everything desired as running. */
async function joinHost({ url, operator, anonymous }: TestServer) {
  const { token } = await succeed(operator, 'POST', '/v2/supply/join-tokens', {})
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x } = publicKey.export({ format: 'jwk' })
  const { hostId } = await succeed(anonymous, 'POST', '/v2/agent/join', { token, publicKey: x, offer: testOffer })
  const streams: OpenedStream[] = []
  const agent = new TestAgent(url, { id: hostId as string, privateKey }, (request, stream) => {
    const signals: unknown[] = []
    let text = ''
    stream.on('signal', (value) => signals.push(value))
    stream.on('data', (piece: Buffer) => (text += piece.toString()))
    streams.push({ request: streamRequest.parse(request), stream, signals, heard: () => text })
  })
  const act = (): void => {
    const { generation, workloads } = agent.last('desired') ?? { generation: 0, workloads: [] }
    const running = workloads.filter(({ want }) => want === 'run')
    agent.report({
      generation,
      workloads: running.map(({ id, tag }) => ({ id, tag, state: 'running', sshUser: 'root', disks: [] })),
    })
  }
  await agent.enter()
  agent.socket.on('message', (_, isBinary) => {
    if (!isBinary) act()
  })
  // A host that does not report for a while counts as lost.
  let beat = setInterval(act, 1_000)
  await waitFor('the machine to be on sale', async () => {
    const { body } = await anonymous('POST', '/v1/marketplace', { filters: { cluster_name: testOffer.clusterName } })
    return body.instances.length > 0
  })
  return {
    id: hostId as string,
    measure: (utilizationPercent: number) =>
      agent.say({
        type: 'metrics',
        gpus: [0, 1].map((index) => ({
          index,
          utilizationPercent: utilizationPercent - 6 * index,
          memoryUsedMib: 9_000 + 100 * utilizationPercent,
          memoryTotalMib: testOffer.gpuRamMib,
          powerWatts: 90 + 3 * utilizationPercent,
          temperatureCelsius: null,
        })),
        cpuPercent: null,
        memoryUsedGb: null,
        diskFreeGb: null,
      }),
    /** Waits for the last stream of a kind. */
    opened: (kind: StreamRequest['kind']): Promise<OpenedStream> =>
      waitFor(`a stream of ${kind}`, () => streams.findLast(({ request }) => request.kind === kind)),
    /** Stops reporting, like a host that hangs. */
    pause: () => clearInterval(beat),
    resume: () => {
      beat = setInterval(act, 1_000)
    },
    end: () => {
      clearInterval(beat)
      return agent.end()
    },
  }
}
