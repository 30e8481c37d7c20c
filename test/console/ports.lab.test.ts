/**
 * "Open" in the console, in a real browser: the application appears on an origin of its own, with its WebSocket, and
 * nothing of the console gets there. The application and its host are in this process; everything else is real.
 */
import { once } from 'node:events'
import http, { type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { testOffer } from '../harness/host-sockets.ts'
import { joinHost, type JoinedHost } from '../harness/joined-host.ts'
import { succeed } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { needs } from '../needs.ts'

needs('browser')

const PORT = 8_888
const PAGE = `<!doctype html><html lang="en"><head><title>App</title></head><body><h1>The application</h1>
<p id="socket"></p><script>
const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket')
socket.onopen = () => socket.send('ping')
socket.onmessage = ({ data }) => { document.getElementById('socket').textContent = 'socket: ' + data }
document.cookie = 'own=1'
</script></body></html>`

describe.skipIf(whyNoBrowser() !== undefined)(`ports${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let customer: { key: string; call: Call }
  let name: string
  let machine: JoinedHost
  let application: http.Server
  const seen: IncomingHttpHeaders[] = []

  beforeAll(async () => {
    browser = await openBrowser({ env: { BERTH_DRIVERS: 'host' } })
    application = http.createServer((request, response) => {
      seen.push(request.headers)
      response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(PAGE)
    })
    const sockets = new WebSocketServer({ server: application })
    sockets.on('connection', (socket, request) => {
      seen.push(request.headers)
      socket.on('message', (data) => socket.send(`${(data as Buffer).toString()} back`))
    })
    await once(application.listen(0, '127.0.0.1'), 'listening')
    machine = await joinHost(browser.server, (application.address() as AddressInfo).port)
    customer = await browser.server.account({ usd: '50' })
    const order = { cluster_name: testOffer.clusterName, node_name: machine.id, gpu_count: 1 }
    const ports = [{ port: PORT, protocol: 'http', healthPath: '/' }]
    const made = await succeed(customer.call, 'POST', '/v1/marketplace/instances/create', { ...order, ports })
    name = made.instance_id as string
  })
  afterAll(async () => {
    await machine?.close()
    application?.closeAllConnections()
    application?.close()
    await browser.close()
  })

  test('opens an HTTP port on its own origin, with its WebSocket, and without anything of the console', async () => {
    const { page, visit, look, context, close } = await browser.open(customer.key)
    await visit(`/rentals/containers/${name}`, name)
    const ports = page.getByRole('list', { name: 'Ports' })
    await ports.getByText('healthy').waitFor()
    await look('rental-ports')
    seen.length = 0
    const opening = context.waitForEvent('page')
    await page.getByRole('button', { name: `Open port ${PORT}` }).click()
    const tab = await opening
    await tab.getByRole('heading', { name: 'The application' }).waitFor()
    await tab.getByText('socket: ping back').waitFor()
    const { host, origin } = new URL(tab.url())
    expect([tab.url(), host]).toEqual([`${origin}/`, `${name}-${PORT}.localhost:${new URL(browser.server.url).port}`])
    expect(await tab.evaluate('window.opener')).toBeNull()
    // Neither with its page nor with its WebSocket does the application get a cookie of ours, or see one.
    expect(seen.map(({ cookie }) => cookie ?? '').filter((one) => one.includes('berth'))).toEqual([])
    expect(await tab.evaluate('document.cookie')).toBe('own=1')
    const cookies = await context.cookies(origin)
    expect(cookies.find((one) => one.name === 'berth_port')).toMatchObject({
      domain: `${name}-${PORT}.localhost`,
      httpOnly: true,
      sameSite: 'Lax',
    })
    expect(cookies.map((one) => one.name)).not.toContain('berth_session')
    // The console's API is another origin for the application.
    const stolen = `fetch('${browser.server.url}/v2/users/me', { credentials: 'include' }).then(() => 'read', () => 'blocked')`
    expect(await tab.evaluate(stolen)).toBe('blocked')
    const stranger = await browser.open(null)
    const refused = await stranger.page.goto(origin)
    expect(refused?.status()).toBe(404)
    await stranger.context.close()

    await page.getByRole('button', { name: `Tokens of port ${PORT}` }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('No tokens yet').waitFor()
    await dialog.getByLabel('Name').fill('ci')
    await dialog.getByRole('button', { name: 'Create token' }).click()
    expect(await dialog.getByLabel('Token ci').inputValue()).toMatch(/^bpt_\w{43}$/)
    await look('rental-port-tokens')
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByText('No tokens yet').waitFor()
    await close()
  })
})
