/** Sign-in at an OpenID provider by another author than our client's: the PyPI package oidc-provider-mock. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startMailServer, type MailServer } from './harness/mail-server.ts'
import { ownPorts } from './harness/own-port.ts'
import { TestBrowser } from './harness/people.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { addProvider, begin, comeBack, endOf, PUBLIC_URL } from './harness/sso.ts'
import { waitFor } from './harness/wait.ts'
import { pythonPackages, whyNoPython } from './lab/python-packages.ts'
import { needs } from './needs.ts'

needs('python')

const why = whyNoPython()
/** The first run installs the packages. */
const START_MS = 10 * 60_000
const VERSION = '0.3.4'

describe.skipIf(why !== undefined)(`oidc-provider-mock${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let mails: MailServer
  let server: TestServer
  let program: ChildProcess
  let issuer: string
  beforeAll(async () => {
    const PYTHONPATH = await pythonPackages(`oidc-provider-mock-${VERSION}`, [`oidc-provider-mock==${VERSION}`])
    const port = ownPorts()
    issuer = `http://localhost:${port}`
    const args = ['-m', 'oidc_provider_mock', '--port', String(port), '--require-nonce', 'true']
    program = spawn('python3', args, { env: { PATH: process.env['PATH'], PYTHONPATH }, stdio: 'ignore' })
    const isReady = () =>
      fetch(`${issuer}/.well-known/openid-configuration`).then(
        ({ ok }) => ok,
        () => false,
      )
    await waitFor('the provider', isReady)
    mails = await startMailServer()
    server = await testServer({ env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SIGN_UP: 'open' } })
    await addProvider(server.operator, { issuer }, 'mock')
  }, START_MS)
  afterAll(async () => {
    await server.close()
    await mails.close()
    program.kill()
    await once(program, 'exit')
  })

  /** Types the subject into the page of the provider. */
  async function visit(url: URL, subject: string | undefined): Promise<URL> {
    const body = new URLSearchParams(subject === undefined ? { action: 'deny' } : { sub: subject })
    const answer = await fetch(url, { method: 'POST', redirect: 'manual', body })
    return new URL(answer.headers.get('location') ?? '')
  }

  async function define(subject: string, claims: object): Promise<void> {
    const answer = await fetch(`${issuer}/users/${subject}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(claims),
    })
    expect(answer.ok).toBe(true)
  }

  const meOf = async (browser: TestBrowser) =>
    JSON.parse((await browser.send('GET', '/v2/people/me')).text) as { id: string; email: string }

  test('the checks of the operator pass', async () => {
    const checked = await server.operator('POST', '/v2/operator/sso/mock/test')
    expect([checked.body.ok, checked.body]).toEqual([true, checked.body])
  })

  test('promise 2: a person signs in, and stays the same when the address changes', async () => {
    await define('ada', { email: 'ada@example.test', email_verified: true })
    const browser = new TestBrowser(server.url, mails)
    const signIn = async () => endOf(await comeBack(browser, await visit(await begin(browser, 'mock'), 'ada')))
    expect((await signIn()).path).toBe('/')
    const first = await meOf(browser)
    expect(first.email).toBe('ada@example.test')
    await define('ada', { email: 'ada.second@example.test', email_verified: true })
    await signIn()
    expect((await meOf(browser)).id).toBe(first.id)
  })

  test('promise 3: another there with the same address is refused', async () => {
    await define('eve', { email: 'ada@example.test', email_verified: true })
    const browser = new TestBrowser(server.url, mails)
    const end = endOf(await comeBack(browser, await visit(await begin(browser, 'mock'), 'eve')))
    expect(end).toEqual({ path: '/sign-in', values: { error: 'sso_not_connected', provider: 'mock' } })
  })

  test('promise 7: its code works once', async () => {
    const browser = new TestBrowser(server.url, mails)
    const url = await visit(await begin(browser, 'mock'), 'ada')
    expect(endOf(await comeBack(browser, url)).path).toBe('/')
    expect(endOf(await comeBack(browser, url)).values['error']).toBe('sso_ended')
  })

  test('promise 8: a code of another sign-in is refused by PKCE or its nonce', async () => {
    const browser = new TestBrowser(server.url, mails)
    const first = await visit(await begin(browser, 'mock'), 'ada')
    const second = await visit(await begin(browser, 'mock'), 'ada')
    second.searchParams.set('code', first.searchParams.get('code') ?? '')
    expect(endOf(await comeBack(browser, second)).values['error']).toBe('sso_rejected')
  })

  // This provider leaves the state out of a refusal, so it belongs to no sign-in.
  test('a refusal of the person signs nobody in', async () => {
    const browser = new TestBrowser(server.url, mails)
    const end = endOf(await comeBack(browser, await visit(await begin(browser, 'mock'), undefined)))
    expect(end.values['error']).toBe('sso_ended')
    expect(browser.cookies.has('berth_session')).toBe(false)
  })
})
