/** An agent signs in with OAuth while a person decides in a real browser. Promise P59. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sha256 } from '../../src/base/id.ts'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { enterAccount } from '../lab/sign-in-page.ts'
import { needs } from '../needs.ts'

needs('browser')

const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'

describe.skipIf(whyNoBrowser() !== undefined)(`agents that sign in${browserLeftOut}`, () => {
  let mails: MailServer
  let browser: ConsoleBrowser
  /** The agent: it serves its document, and waits for the answer. */
  let agent: Server
  let agentUrl: string

  beforeAll(async () => {
    mails = await startMailServer()
    browser = await openBrowser({
      env: {
        BERTH_PUBLIC_URL: 'https://cloud.example',
        BERTH_SMTP_URL: mails.url,
        BERTH_MAIL_FROM: 'berth@cloud.example',
      },
    })
    agent = createServer((request, response) => {
      const document = {
        client_id: `${agentUrl}/client.json`,
        client_name: 'Helm',
        redirect_uris: ['http://127.0.0.1/callback'],
      }
      response.end(request.url === '/client.json' ? JSON.stringify(document) : 'Back at the agent')
    })
    await new Promise<void>((listening) => agent.listen(0, '127.0.0.1', listening))
    agentUrl = `http://127.0.0.1:${(agent.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    await browser?.close()
    await mails.close()
    agent.close()
  })

  test('P59: the person sees the agent, chooses what it may do, and the agent gets a key', async () => {
    const owner = { email: 'agent-owner@example.test', name: 'Agent lab' }
    const { operator } = browser.server
    await succeed(operator, 'POST', '/v2/operator/accounts', { name: owner.name, ownerEmail: owner.email })
    const { page, look, faults, close } = await browser.open(null)
    const parameters = new URLSearchParams({
      response_type: 'code',
      client_id: `${agentUrl}/client.json`,
      redirect_uri: `${agentUrl}/callback`,
      code_challenge: sha256(VERIFIER).toString('base64url'),
      code_challenge_method: 'S256',
      state: 'kept as it is',
      scope: 'compute:read compute:write operator',
    })
    const question = `/authorize?${parameters.toString()}`
    // Who is not signed in comes back to the question afterwards.
    await page.goto(question)
    const link = await page.getByRole('link', { name: 'Sign in' }).getAttribute('href')
    expect(new URL(link ?? '', 'https://cloud.example').searchParams.get('next')).toBe(question)
    await enterAccount(page, mails, owner)

    await page.goto(question)
    await page.getByRole('heading', { name: 'Sign Helm in?' }).waitFor()
    await page.getByText(new URL(agentUrl).host, { exact: true }).waitFor()
    await look('authorize')
    expect(await page.getByRole('checkbox', { name: 'compute:write' }).isChecked()).toBe(true)
    expect(await page.getByRole('checkbox', { name: 'inference' }).isChecked()).toBe(false)
    expect(await page.getByRole('checkbox', { name: 'operator' }).count()).toBe(0)
    await page.getByRole('checkbox', { name: 'compute:write' }).uncheck()
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('Back at the agent').waitFor()
    const answer = new URL(page.url())
    expect(answer.origin + answer.pathname).toBe(`${agentUrl}/callback`)
    expect(answer.searchParams.get('state')).toBe('kept as it is')

    const exchanged = await fetch(`${browser.server.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code: answer.searchParams.get('code') ?? '',
        client_id: `${agentUrl}/client.json`,
        redirect_uri: `${agentUrl}/callback`,
        code_verifier: VERIFIER,
      }),
    })
    expect(await exchanged.json()).toMatchObject({ token_type: 'Bearer', scope: 'compute:read' })

    await page.goto(question)
    await page.getByRole('button', { name: 'Deny' }).click()
    await page.getByText('Back at the agent').waitFor()
    expect(new URL(page.url()).searchParams.get('error')).toBe('access_denied')
    // The two ways back to the agent leave this site.
    expect(faults().filter((text) => !text.startsWith(`a request to ${agentUrl}/callback?`))).toEqual([])
    await page.goto('/authorize?client_id=x')
    await page.getByText('This link is not complete', { exact: false }).waitFor()
    await look('authorize-incomplete')
    await close()
  })
})
