/** Jobs in the console: ordered in a dialog, followed to their end with output and attempts, arrays, and cancelled. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserLeftOut, expectDuring, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { handOverOutput } from '../harness/job-output.ts'
import { joinHost, type JoinedHost } from '../harness/joined-host.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`jobs${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let host: JoinedHost
  let customer: { id: string; key: string; call: Call }

  beforeAll(async () => {
    browser = await openBrowser({ env: { BERTH_DRIVERS: 'host' } })
    host = await joinHost(browser.server, 9, { gpusTotal: 4 })
    customer = await browser.server.account({ usd: '50' })
  })
  afterAll(async () => {
    await host?.close()
    await browser.close()
  })

  /** What an agent does when a command has ended. */
  async function endWith(workloadId: string, exitCode: number, files: Readonly<Record<string, string>>): Promise<void> {
    host.end(workloadId, exitCode)
    expect(await handOverOutput(browser.server, host, workloadId, files)).toBe(200)
  }

  test('a customer runs a job, sees why it waits and how it ends, and downloads its output', async () => {
    const { page, visit, look, faults, close } = await browser.open(customer.key)
    await visit('/jobs', 'Jobs')
    await page.getByText('No jobs yet').waitFor()
    await look('jobs-empty')
    await page.getByRole('button', { name: 'Run a job' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'Run a job' })
    await dialog.getByLabel('Name').fill('train')
    await dialog.getByLabel('Image').fill('python:3.13')
    await dialog.getByLabel('Command').fill('python train.py')
    await dialog.getByText('Input and array').click()
    await dialog.getByLabel('Input (JSON)').fill('{"epochs": ')
    await dialog.getByRole('button', { name: 'Run', exact: true }).click()
    await dialog.getByText('Must be JSON', { exact: false }).waitFor()
    await dialog.getByLabel('Input (JSON)').fill('{"epochs": 3}')
    await look('jobs-run')
    await expectDuring(page.getByText('Job created'), () =>
      dialog.getByRole('button', { name: 'Run', exact: true }).click(),
    )
    await page.getByRole('heading', { level: 1, name: 'train' }).waitFor()
    await page.getByText('Running', { exact: true }).first().waitFor()
    const [workload] = await waitFor('its workload', () => host.workloads().length === 1 && host.workloads())
    expect(workload?.spec?.program).toMatchObject({
      command: ['/bin/sh', '-c', 'python train.py'],
      files: [{ path: '/berth/input.json', content: '{"epochs":3}' }],
    })
    await endWith(workload?.id ?? '', 3, { 'result.json': '{"loss":0.5}', 'model/weights.bin': 'w'.repeat(2_000) })
    await page.getByText('Failed', { exact: true }).first().waitFor()
    await page.getByLabel('Result').getByText('"loss": 0.5').waitFor()
    await page.getByRole('table', { name: 'Files' }).getByRole('link', { name: 'model/weights.bin' }).waitFor()
    await page.getByRole('link', { name: 'Download all' }).waitFor()
    await page.getByRole('table', { name: 'Attempts' }).getByText('failed').waitFor()
    faults()
    await look('job')
    await page.setViewportSize({ width: 390, height: 844 })
    await look('job-390')
    await page.setViewportSize({ width: 1280, height: 800 })
    await visit('/jobs', 'Jobs')
    await page.getByRole('table', { name: 'Jobs' }).getByText('Failed').waitFor()
    await look('jobs')
    await close()
  })

  test('the tasks of an array are listed, one is opened, and the job is cancelled', async () => {
    const image = { name: 'debian', tag: '12' }
    const { id } = await succeed(customer.call, 'POST', '/v2/jobs', { image, array: { count: 3, parallel: 1 } })
    const { page, visit, look, faults, close } = await browser.open(customer.key)
    await visit(`/jobs/${id}`, id)
    await page.getByText('0 of 3').waitFor()
    await page.getByRole('link', { name: 'Task 0' }).click()
    await page.getByRole('heading', { name: 'Task 0' }).waitFor()
    await page.getByRole('table', { name: 'Attempts' }).getByText('runs').waitFor()
    faults()
    await look('job-array')
    await page.getByRole('button', { name: `Cancel ${id}` }).click()
    await expectDuring(page.getByText('The job is being cancelled'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click(),
    )
    await page.getByText('3 of 3').waitFor()
    expect(await succeed(customer.call, 'GET', `/v2/jobs/${id}`)).toMatchObject({ counts: { cancelled: 3 } })
    // The host of this test has no log to show.
    faults()
    await close()
  })
})
