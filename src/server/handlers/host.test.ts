/** Over HTTP: who can add a machine, what it can declare, and what its owner and the operator can do with it. */
import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../../../test/harness/journey.ts'
import { testOffer } from '../../../test/harness/host-sockets.ts'
import type { Call } from '../../../test/harness/server.ts'
import { HOUR_MS } from '../../base/instant.ts'
import { exampleBodies } from '../../contract/openapi/example-body.ts'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'

let journey: Journey
let ada: { id: string; key: string; call: Call }
let bob: { id: string; key: string; call: Call }
const supplier = { scopes: ['supply'], platformFeePercentage: 10 } as const

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_DRIVERS: 'mock,host' } })
  ada = await journey.account({ ...supplier, scopes: [...supplier.scopes] })
  bob = await journey.account({ ...supplier, scopes: [...supplier.scopes] })
})
afterAll(() => journey.close())

function newKey(): string {
  return generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x ?? ''
}
const tokenOf = async (by: Call, options = {}): Promise<string> =>
  (await succeed(by, 'POST', '/v2/supply/join-tokens', options)).token
const join = (body: object) =>
  journey.anonymous('POST', '/v2/agent/join', { publicKey: newKey(), offer: testOffer, ...body })
const joined = async (body: object): Promise<string> =>
  (await succeed(journey.anonymous, 'POST', '/v2/agent/join', { publicKey: newKey(), offer: testOffer, ...body }))
    .hostId
const auditOf = async (subject: string): Promise<string[]> => {
  const { records } = await succeed(journey.operator, 'GET', '/v2/operator/audit?limit=1000')
  const own = (records as Array<{ subject: string; action: string }>).filter((record) => record.subject === subject)
  return own.map((record) => record.action).toReversed()
}
const fieldsOf = (reply: Awaited<ReturnType<Call>>) => [
  reply.status,
  reply.body.reason,
  reply.body.issues?.[0]?.path?.join('.'),
]

describe('a join token', () => {
  test('is for suppliers and the operator only, and comes with the command to run', async () => {
    const customer = await journey.account({ scopes: ['supply'] })
    const refused = await customer.call('POST', '/v2/supply/join-tokens', {})
    expect([refused.status, refused.body.reason]).toEqual([403, 'not_a_supplier'])
    const created = await succeed(ada.call, 'POST', '/v2/supply/join-tokens', { uses: 2, expiresInHours: 1 })
    expect(created).toMatchObject({ usesLeft: 2, supplierId: ada.id, token: expect.stringMatching(/^bj_\w{49}$/) })
    expect(created.command).toBe(`curl -fsSL ${journey.url}/install.sh | sh -s -- --token ${created.token}`)
    const house = await succeed(journey.operator, 'POST', '/v2/supply/join-tokens', {})
    expect(house).toMatchObject({ usesLeft: 1, supplierId: null })
    expect(await auditOf(`join_token:${created.id}`)).toEqual(['join_token.create'])
  })

  test('is stored as a hash, and never shown again', async () => {
    const { id, token } = await succeed(ada.call, 'POST', '/v2/supply/join-tokens', {})
    const list = await succeed(ada.call, 'GET', '/v2/supply/join-tokens')
    expect(list.tokens.map((one: { id: string }) => one.id)).toContain(id)
    expect(JSON.stringify(list)).not.toContain(token.slice(3, 20))
    const row = await journey.app.database.db
      .selectFrom('join_token')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    expect(row.hash).toHaveLength(32)
    expect(JSON.stringify({ ...row, hash: row.hash.toString() })).not.toContain(token.slice(3, 20))
  })

  test('admits its number of machines until it expires, and none once revoked', async () => {
    const token = await tokenOf(ada.call, { uses: 1, expiresInHours: 1 })
    await joined({ token })
    const again = await join({ token })
    expect([again.status, again.body.reason]).toEqual([403, 'join_token_refused'])
    const late = await tokenOf(ada.call, { expiresInHours: 1 })
    journey.clock.advance(HOUR_MS)
    expect((await join({ token: late })).body.reason).toBe('join_token_refused')
    const created = await succeed(ada.call, 'POST', '/v2/supply/join-tokens', {})
    expect((await bob.call('DELETE', `/v2/supply/join-tokens/${created.id}`)).status).toBe(404)
    await succeed(ada.call, 'DELETE', `/v2/supply/join-tokens/${created.id}`)
    expect((await join({ token: created.token })).body.reason).toBe('join_token_refused')
    for (const wrong of ['bj_', `bj_${'0'.repeat(49)}`, `${token.slice(0, -1)}!`]) {
      expect((await join({ token: wrong })).status).toBe(403)
    }
  })

  test('of a suspended account admits no machine', async () => {
    const carl = await journey.account({ ...supplier, scopes: [...supplier.scopes] })
    const token = await tokenOf(carl.call)
    const change = { suspended: true, reason: 'does not answer' }
    await succeed(journey.operator, 'PATCH', `/v2/operator/accounts/${carl.id}`, change)
    expect((await join({ token })).body.reason).toBe('join_token_refused')
  })

  test('is rate-limited against guessing', async () => {
    const other = await startJourney({ env: { BERTH_TRUST_PROXY: '1' } })
    try {
      const guess = (address: string) =>
        other.anonymous(
          'POST',
          '/v2/agent/join',
          { token: 'bj_x', publicKey: newKey(), offer: testOffer },
          { 'X-Forwarded-For': address },
        )
      const guesses = await Promise.all(Array.from({ length: 601 }, () => guess('10.9.9.9')))
      const statuses = guesses.map((reply) => reply.status)
      expect([statuses.filter((one) => one === 403).length, statuses.filter((one) => one === 429).length]).toEqual([
        600, 1,
      ])
      expect((await guess('10.9.9.8')).status).toBe(403)
    } finally {
      await other.close()
    }
  })
})

describe('a machine that joins', () => {
  test('belongs to its supplier, under its own or a generated name', async () => {
    const token = await tokenOf(ada.call, { uses: 2 })
    expect(await joined({ token, name: 'pier-1' })).toBe('pier-1')
    expect(await joined({ token })).toMatch(/^[a-z]+-[a-z]+-[a-z]+$/)
    const { hosts } = await succeed(ada.call, 'GET', '/v2/supply/hosts')
    expect(hosts.find((host: { id: string }) => host.id === 'pier-1')).toMatchObject({
      driver: 'host',
      state: 'ready',
      isSilent: true,
      seenAt: null,
      offering: 'marketplace',
      region: 'us-east',
      clusterName: 'lab',
      gpusTotal: 2,
      simulated: true,
      tenants: 0,
      metrics: null,
    })
    const others = await succeed(bob.call, 'GET', '/v2/supply/hosts')
    expect(others.hosts.map((host: { id: string }) => host.id)).not.toContain('pier-1')
    expect(await auditOf('host:pier-1')).toEqual(['host.join'])
  })

  test('can join again with its key, also with a used-up token', async () => {
    const token = await tokenOf(ada.call)
    const publicKey = newKey()
    const first = await joined({ token, publicKey, name: 'pier-2' })
    expect(await joined({ token, publicKey, name: 'another' })).toBe(first)
    const cheaper = { ...testOffer, priceUsdPerGpuHour: '0.01' }
    const offerOf = async () =>
      (await journey.app.database.db.selectFrom('host').select('offer').where('id', '=', first).executeTakeFirst())
        ?.offer
    // Used up: the machine identifies itself and uses no further join.
    expect(await joined({ token, publicKey, offer: cheaper })).toBe(first)
    expect((await offerOf())?.priceUsdPerGpuHour).toBe('0.40')
    const fresh = await tokenOf(ada.call)
    expect(await joined({ token: fresh, publicKey, offer: cheaper })).toBe(first)
    expect((await offerOf())?.priceUsdPerGpuHour).toBe('0.01')
    // A repeated join does not use up the token.
    await joined({ token: fresh })
    expect(await auditOf(`host:${first}`)).toEqual(['host.join'])
  })

  test('becomes one host after twenty concurrent requests', async () => {
    const token = await tokenOf(ada.call, { uses: 5 })
    const publicKey = newKey()
    const ids = await Promise.all(Array.from({ length: 20 }, () => joined({ token, publicKey })))
    expect(new Set(ids).size).toBe(1)
    const tokens = await Promise.all(Array.from({ length: 5 }, () => tokenOf(ada.call)))
    const key = newKey()
    const apart = await Promise.all(tokens.map((one) => joined({ token: one, publicKey: key })))
    expect(new Set(apart).size).toBe(1)
  })

  test('cannot take a name or a key that another has', async () => {
    const token = await tokenOf(ada.call, { uses: 5 })
    const publicKey = newKey()
    await joined({ token, publicKey, name: 'pier-3' })
    expect(fieldsOf(await join({ token, name: 'pier-3' }))).toEqual([400, 'name_in_use', 'name'])
    expect(fieldsOf(await join({ token, name: 'mock-iad-h100-01' }))).toEqual([400, 'name_in_use', 'name'])
    // A machine that the engine does not have yet.
    expect(fieldsOf(await join({ token, name: 'mock-iad-h100-99' }))).toEqual([400, 'name_in_use', 'name'])
    const theirs = await tokenOf(bob.call, { uses: 5 })
    expect(fieldsOf(await join({ token: theirs, publicKey }))).toEqual([400, 'key_in_use', 'publicKey'])
    expect(fieldsOf(await join({ token, publicKey: `${'A'.repeat(42)}B` }))).toEqual([
      400,
      'bad_public_key',
      'publicKey',
    ])
  })

  test.each([
    [{ offering: 'bare-metal' }, 'bare_metal_needs_ssh', 'offer.offering'],
    [{ priceUsdPerGpuHour: null }, 'offer_not_sellable', 'offer.priceUsdPerGpuHour'],
    [{ priceUsdPerGpuHour: '1000.01' }, 'offer_not_sellable', 'offer.priceUsdPerGpuHour'],
    [{ priceUsdPerGpuHour: '-1' }, 'offer_not_sellable', 'offer.priceUsdPerGpuHour'],
    [{ gpusSick: [2] }, 'offer_not_sellable', 'offer.gpusSick'],
    [{ gpuRamMib: 2 ** 40 }, 'offer_not_sellable', 'offer.gpuRamMib'],
    [{ networkType: 'infiniband' }, 'offer_not_sellable', 'offer.ethernetVariant'],
    [{ offering: 'virtual-machine' }, 'offer_not_sellable', 'offer.region'],
    [{ offering: 'virtual-machine', region: 'us-east-1' }, 'offer_not_sellable', 'offer.gpuType'],
    [
      { offering: 'virtual-machine', region: 'us-east-1', gpuType: 'h100' },
      'offer_not_sellable',
      'offer.priceUsdPerGpuHour',
    ],
  ])('that could not be sold is refused by the field: %j', async (change, reason, field) => {
    const token = await tokenOf(ada.call)
    expect(fieldsOf(await join({ token, offer: { ...testOffer, ...change } }))).toEqual([400, reason, field])
  })

  test('can leave when empty, and return with its key', async () => {
    const token = await tokenOf(ada.call)
    const publicKey = newKey()
    const id = await joined({ token, publicKey })
    const move = (state: string) => ada.call('PATCH', `/v2/supply/hosts/${id}`, { state })
    expect((await move('draining')).body.state).toBe('draining')
    expect((await move('ready')).body.state).toBe('ready')
    expect((await bob.call('PATCH', `/v2/supply/hosts/${id}`, { state: 'left' })).status).toBe(404)
    expect((await move('left')).body.state).toBe('left')
    const back = await move('ready')
    expect([back.status, back.body.reason]).toEqual([400, 'host_removed'])
    expect((await join({ token, publicKey })).body.reason).toBe('join_token_refused')
    const fresh = await tokenOf(ada.call)
    expect(await joined({ token: fresh, publicKey })).toBe(id)
    expect((await join({ token: fresh })).body.reason).toBe('join_token_refused')
    const moves = ['host.move', 'host.move', 'host.move']
    expect(await auditOf(`host:${id}`)).toEqual(['host.join', ...moves, 'host.rejoin'])
  })

  test('belongs to the operator when the operator’s token is used', async () => {
    const id = await joined({ token: await tokenOf(journey.operator), name: 'house-1' })
    const { hosts } = await succeed(journey.operator, 'GET', '/v2/supply/hosts')
    expect(hosts.map((host: { id: string }) => host.id)).toEqual([id])
    const all = await succeed(journey.operator, 'GET', '/v2/operator/hosts?limit=1000&driver=host')
    expect(all.hosts.length).toBeGreaterThan(5)
    expect(all.hosts.find((host: { id: string }) => host.id === id)).toMatchObject({ supplierId: null, address: null })
  })
})

describe('bare metal over SSH', () => {
  const pair = makeSshKeyPair('test')
  const entry = { ...exampleBodies.addHost, privateKey: pair.privateKey }
  const add = (change: object) => journey.operator('POST', '/v2/operator/hosts', { ...entry, ...change })
  const act = (id: string, action: string) =>
    journey.operator('PATCH', `/v2/operator/hosts/${id}`, { action, reason: 'for the test' })

  test('is not for sale until checked, and its key is sealed and not shown', async () => {
    const { status, body } = await add({ id: 'metal-1' })
    expect([status, body]).toMatchObject([
      200,
      { state: 'cleaning', stateReason: 'new', driver: 'private-cloud', supplierId: null, offering: 'bare-metal' },
    ])
    expect(body.address).toEqual({
      hostname: 'rack1-01.example.com',
      publicIp: '198.51.100.17',
      privateIp: '10.20.0.17',
      sshPort: 22,
    })
    const listed = await succeed(journey.operator, 'GET', '/v2/operator/hosts?state=cleaning')
    expect(listed.hosts.map((host: { id: string }) => host.id)).toEqual(['metal-1'])
    expect(JSON.stringify([body, listed])).not.toContain('PRIVATE KEY')
    const row = await journey.app.database.db
      .selectFrom('host')
      .selectAll()
      .where('id', '=', 'metal-1')
      .executeTakeFirstOrThrow()
    expect(row.access).toMatch(/^v1\./)
    expect(JSON.parse(journey.app.vault.open(row.access ?? ''))).toMatchObject({
      access: { address: '198.51.100.17', port: 22, user: 'root', privateKey: pair.privateKey, scratch: ['/scratch'] },
      declared: { cpuCores: 224, ramGb: 2_048, gpus: { count: 8, model: 'NVIDIA-H100-SXM5-80GB' } },
    })
    expect(await auditOf('host:metal-1')).toEqual(['host.add'])
  })

  test('rejects a power command over the API: only the inventory file may set one', async () => {
    const reply = await add({ id: 'metal-switch', bmc: { kind: 'command', reset: ['touch', '/tmp/owned'] } })
    expect(fieldsOf(reply)).toEqual([400, undefined, 'bmc.kind'])
    expect(reply.body.issues[0].message).toContain('inventory file')
    const redfish = { kind: 'redfish', url: 'https://198.51.100.18', username: 'berth', password: 'secret' }
    expect(
      (await add({ id: 'metal-switch', hostname: 'switch', publicIp: '198.51.100.18', bmc: redfish })).status,
    ).toBe(200)
    await act('metal-switch', 'remove')
  })

  test.each([
    [{ privateKey: 'not a key' }, 'privateKey'],
    [{ privateKey: pair.publicKey }, 'privateKey'],
    [{ scratch: ['/etc'] }, 'scratch.0'],
    [{ publicIp: 'nowhere' }, 'publicIp'],
    [{ tenantUser: 'Root!' }, 'tenantUser'],
  ])('is refused by the field: %j', async (change, field) => {
    const reply = await add({ id: 'metal-2', ...change })
    expect(fieldsOf(reply)).toEqual([400, 'bad_inventory', field])
    expect(JSON.stringify(reply.body)).not.toContain('PRIVATE KEY')
  })

  test('has a unique name', async () => {
    expect(fieldsOf(await add({ id: 'metal-1' }))).toEqual([400, 'name_in_use', 'id'])
    expect(fieldsOf(await add({ id: 'mock-iad-h100-01' }))).toEqual([400, 'name_in_use', 'id'])
  })

  test('leaves quarantine only through cleaning, and can be removed when empty', async () => {
    await add({ id: 'metal-3' })
    expect((await act('metal-3', 'drain')).body.reason).toBe('host_not_ready')
    expect((await act('metal-3', 'quarantine')).body).toMatchObject({
      state: 'quarantined',
      stateReason: 'for the test',
    })
    for (const action of ['drain', 'resume']) expect((await act('metal-3', action)).body.reason).toBe('host_not_ready')
    expect((await act('metal-3', 'release')).body).toMatchObject({ state: 'cleaning', stateReason: null })
    expect((await act('metal-3', 'release')).body.reason).toBe('host_not_quarantined')
    expect((await act('metal-3', 'quarantine')).status).toBe(200)
    expect((await act('metal-3', 'remove')).body).toMatchObject({ state: 'left' })
    for (const action of ['drain', 'resume', 'quarantine']) {
      expect((await act('metal-3', action)).body.reason).toBe('host_removed')
    }
    expect((await act('nobody', 'drain')).status).toBe(404)
    // Added again, it starts over.
    expect((await add({ id: 'metal-3', clusterName: 'rack2' })).body).toMatchObject({
      state: 'cleaning',
      clusterName: 'rack2',
    })
    const done = ['host.add', 'host.quarantine', 'host.release', 'host.quarantine', 'host.remove', 'host.add']
    expect(await auditOf('host:metal-3')).toEqual(done)
  })
})

describe('images of virtual machines', () => {
  const image = { ...exampleBodies.addBaseImage, isDefault: false }
  const add = (change: object) => journey.operator('POST', '/v2/operator/base-images', { ...image, ...change })
  const list = async (): Promise<Array<{ name: string; isDefault: boolean }>> =>
    (await succeed(journey.operator, 'GET', '/v2/operator/base-images')).images

  test('have one default per architecture, the last one set', async () => {
    await add({ name: 'one', isDefault: true })
    await add({ name: 'arm', arch: 'arm64', isDefault: true })
    expect((await add({ name: 'two', isDefault: true })).body).toMatchObject({ name: 'two', isDefault: true })
    const isDefault = (await list()).map((one) => [one.name, one.isDefault])
    expect(isDefault).toEqual([
      ['arm', true],
      ['one', false],
      ['two', true],
    ])
    const racing = await Promise.all(['a', 'b', 'c', 'd'].map((name) => add({ name, isDefault: true })))
    expect(racing.map((reply) => reply.status)).toEqual([200, 200, 200, 200])
    expect((await list()).filter((one) => one.isDefault)).toHaveLength(2)
  })

  test('have unique names, and are removed by name', async () => {
    await add({ name: 'three' })
    expect(fieldsOf(await add({ name: 'three' }))).toEqual([400, 'name_in_use', 'name'])
    for (const source of ['http://images.example.com/a', 'file:relative', '/etc/passwd']) {
      expect((await add({ name: 'four', source })).status).toBe(400)
    }
    await succeed(journey.operator, 'DELETE', '/v2/operator/base-images/three')
    expect((await journey.operator('DELETE', '/v2/operator/base-images/three')).status).toBe(404)
    expect(await auditOf('base_image:three')).toEqual(['base_image.add', 'base_image.remove'])
  })
})
