/** Deployments in the console: created with their cost shown, followed live, changed, rolled out and deleted. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usd } from '../../src/base/money.ts'
import { browserLeftOut, expectDuring, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { joinHost, type JoinedHost } from '../harness/joined-host.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { passForReal } from '../harness/simulated-machine.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const answer = JSON.stringify({
  id: 'x',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 20, total_tokens: 23 },
})

describe.skipIf(whyNoBrowser() !== undefined)(`deployments${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let host: JoinedHost
  let engine: http.Server
  let customer: { id: string; key: string; call: Call }

  beforeAll(async () => {
    browser = await openBrowser({ env: { BERTH_DRIVERS: 'host' } })
    engine = http.createServer((request, response) => {
      request.resume().on('end', () => response.writeHead(200, { 'Content-Type': 'application/json' }).end(answer))
    })
    await once(engine.listen(0, '127.0.0.1'), 'listening')
    host = await joinHost(browser.server, (engine.address() as AddressInfo).port, { gpusTotal: 4 })
    customer = await browser.server.account({ usd: '50' })
  })
  afterAll(async () => {
    await host?.close()
    engine?.closeAllConnections()
    engine?.close()
    await browser.close()
  })

  const ask = (model: string) =>
    succeed(customer.call, 'POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hi' }] })

  test('a customer deploys a model, sees its cost first, follows it, scales it and deletes it', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    const pretendNoLonger = await passForReal(browser.server.app)
    await visit('/deployments', 'Deployments')
    await page.getByText('No deployments').waitFor()
    await look('deployments-empty')
    await visit('/deployments/catalog', 'Model catalog')
    const card = page.getByRole('region', { name: 'Qwen3 8B' })
    await card.getByText('RTX 4090', { exact: false }).waitFor()
    await look('catalog')
    await card.getByRole('link', { name: 'Deploy' }).click()
    await page.getByRole('heading', { level: 1, name: 'Deploy a model' }).waitFor()
    expect(await page.getByRole('radio', { name: /Qwen3 8B/ }).isChecked()).toBe(true)
    const gpus = page.getByRole('group', { name: 'GPU' })
    await gpus.getByRole('radio', { name: /RTX 4090.*fits/ }).waitFor()
    await page.getByText('$0.00/hr idle, up to $0.40/hr.').waitFor()
    await page.getByText(`${customer.id}/qwen3-8b`).waitFor()
    await look('deploy-catalog')
    await visit('/deployments', 'Deployments')
    await page.getByRole('link', { name: 'Deploy a model' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Deploy a model' }).waitFor()
    await page.getByText('per replica', { exact: true }).waitFor()
    // Nothing is red before something was sent.
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(await page.locator('[aria-invalid]').count()).toBe(0)
    await look('deploy-first')
    await pretendNoLonger()
    await page.getByRole('button', { name: 'Deploy', exact: true }).click()
    await page.getByText('Choose a model', { exact: true }).waitFor()
    await page.getByText('Enter a name').waitFor()
    await page.getByRole('radio', { name: /Own image/ }).check()
    await page.getByLabel('Name', { exact: true }).fill('assistant')
    await page.getByRole('textbox', { name: 'Image' }).fill('lab/chat-engine:1')
    await page.getByRole('textbox', { name: 'Port' }).fill('8000')
    await page.getByText('Advanced').click()
    const weights = page.getByLabel('Weights (JSON)')
    const source = { kind: 'https', url: 'https://hub.example.com/model.gguf' }
    const fileWith = (sha256: string): string =>
      JSON.stringify({ mountPath: '/models', files: [{ path: 'model.gguf', bytes: 1_000, sha256, source }] })
    await weights.fill(fileWith('AB'))
    await page.getByText('files.0.sha256:', { exact: false }).waitFor()
    await weights.fill(fileWith('ab'.repeat(32)))
    await gpus.getByRole('radio', { name: /RTX 4090/ }).check()
    await page.getByLabel('Minimum replicas').fill('1')
    await page.getByLabel('Maximum replicas').fill('2')
    await page.getByText('$0.80/hr for 2 replicas').waitFor()
    await page.getByLabel('Hourly budget (USD)').fill('1')
    await look('deploy')
    await expectDuring(page.getByText(`Created ${customer.id}/assistant`), () =>
      page.getByRole('button', { name: 'Deploy', exact: true }).click(),
    )
    const model = `${customer.id}/assistant`
    const [made] = (await succeed(customer.call, 'GET', '/v2/deployments')).deployments
    expect(made.spec.recipe.weights).toEqual(JSON.parse(fileWith('ab'.repeat(32))))
    await page.getByRole('heading', { level: 1, name: model }).waitFor()
    await page.getByRole('table', { name: 'Replicas' }).getByText('Ready').waitFor()
    await page.getByText('1 of 1').waitFor()
    await ask(model)
    await page.getByText('1 request', { exact: true }).waitFor()
    await page.getByText('0 → 1 replicas', { exact: false }).or(page.getByText('Replica ready')).first().waitFor()

    await page.getByRole('button', { name: 'Change scaling' }).click()
    await page.getByRole('dialog').getByLabel('Minimum replicas').fill('3')
    await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click()
    await page
      .getByRole('dialog')
      .getByText(/minimum|max/i)
      .first()
      .waitFor()
    await page.getByRole('dialog').getByLabel('Minimum replicas').fill('2')
    await look('deployment-scaling')
    await expectDuring(page.getByText('Saved', { exact: true }), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click(),
    )
    await page.getByText('2 of 2').waitFor()
    const [changed] = (await succeed(customer.call, 'GET', '/v2/deployments')).deployments
    expect(changed).toMatchObject({ model, settings: { replicas: { min: 2, max: 2 }, hourlyBudgetUsd: '1' } })
    await plantFailure(model)
    await page.getByRole('heading', { name: 'Last output of failed replicas' }).waitFor()
    await look('deployment')
    await page.setViewportSize({ width: 390, height: 844 })
    await look('deployment-390')
    await visit('/deployments', 'Deployments')
    await look('deployments-390')
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.getByRole('link', { name: model }).click()
    await page.getByRole('button', { name: 'Roll out' }).click()
    await look('deployment-rollout')
    await expectDuring(page.getByText('Version 2 is being rolled out'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Roll out' }).click(),
    )
    await page.getByRole('heading', { name: 'Rollout of version 2' }).waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await expectDuring(page.getByRole('status').getByText('Deployment deleted'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click(),
    )
    await page.getByRole('heading', { level: 1, name: 'Deployments' }).waitFor()
    await waitFor('it to be gone', async () => {
      return (await succeed(customer.call, 'GET', '/v2/deployments')).deployments.length === 0
    })
    await close()
  }, 240_000)

  /** A replica that failed to start has left its output. */
  async function plantFailure(model: string): Promise<void> {
    await sql`
      with failed as (select id from replica where deployment_id = (select id from managed_deployment where model = ${model}) and state <> 'ended' order by created_at desc limit 1)
      update replica set state = 'ended', ready_at = null, ended_at = now(), reason = 'start_timed_out',
        detail = ${'connection refused\nengine one\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'}
      where id = (select id from failed)`.execute(browser.server.app.database.db)
  }

  test('an operator sees what a model earns and costs, and which price covers it', async () => {
    const { operator } = browser.server
    const made = await succeed(operator, 'POST', '/v2/deployments', {
      model: 'house/chat',
      forEveryone: true,
      recipe: { name: 'custom', image: { name: 'lab/chat-engine', tag: '1' }, port: 8_000 },
      gpus: { count: 1 },
      replicas: { min: 1, max: 1 },
      hourlyBudgetUsd: '2.00',
    })
    await succeed(operator, 'PATCH', '/v2/operator/models?name=house/chat', { outputUsdPerMillion: '100' })
    const read = () => succeed(operator, 'GET', `/v2/deployments/${made.id}`)
    await waitFor('a replica', async () => (await read()).readyReplicas === 1)
    await plantHour(made.id)
    await waitFor('advice', async () => {
      return (await succeed(operator, 'GET', '/v2/operator/economics')).models[0]?.advice.isMeasured === true
    })
    const { page, visit, look, close } = await browser.open(browser.server.operatorKey)
    await visit('/operator/economics', 'Economics')
    await page.getByRole('table', { name: 'Models' }).getByText('house/chat').waitFor()
    await page.getByText('Current prices', { exact: false }).waitFor()
    const shown = await succeed(operator, 'GET', '/v2/operator/economics')
    expect(usd(shown.marginUsd)).toBe(usd(shown.revenueUsd) - usd(shown.gpuCostUsd))
    await page.getByLabel('Utilization (%)').fill('50')
    await page.getByText('At 50% utilization', { exact: false }).waitFor()
    await look('economics')
    await page.setViewportSize({ width: 390, height: 844 })
    await look('economics-390')
    await close()
  }, 120_000)

  /** Fifty minutes of GPU time, due to be charged, and enough requests for advice in an hour that is not counted again. */
  async function plantHour(deploymentId: string): Promise<void> {
    const { db } = browser.server.app.database
    const rental = sql`(select rental_id from replica_record where deployment_id = ${deploymentId} limit 1)`
    await sql`update segment set started_at = now() - interval '1 hour', ended_at = now() - interval '1 hour',
      settled_until = now() - interval '1 hour' where rental_id = ${rental} and ended_at is not null`.execute(db)
    await sql`update segment set started_at = now() - interval '50 minutes', settled_until = now() - interval '50 minutes',
      due_at = now() where rental_id = ${rental} and ended_at is null`.execute(db)
    await sql`
      insert into replica_hour (replica_id, hour, models, requests, input_units, cached_units, output_units, request_ms, busy_ms)
      select replica_id, date_trunc('hour', now()) - interval '3 hours', '{house/chat}', 500, 200000, 0, 100000, 2400000, 1200000
      from replica_record where deployment_id = ${deploymentId} limit 1`.execute(db)
  }
})
