/** What the Terraform provider promises about rentals, driven by real OpenTofu against servers with simulated machines. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { addMs, formatInstant, systemClock } from '../src/base/instant.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { tofuProject, whyNoTofu, type TofuProject } from './lab/tofu.ts'
import { needs } from './needs.ts'

needs('go')

const why = whyNoTofu()
/** The first run builds OpenTofu. */
const START_MS = 40 * 60_000
const TEST_MS = 10 * 60_000
const HOUR_MS = '3600000'
/** The loop of budgets and the meter take a minute each. */
const BUDGET_MS = 5 * 60_000
const machine = 'region = "mock-region"\n gpu_count = 1\n'

type Customer = Awaited<ReturnType<TestServer['account']>>

interface Rental {
  readonly id: number
  readonly state: string
  readonly label: string | null
}

async function rentalsOf({ call }: Pick<Customer, 'call'>, ended = 'exclude'): Promise<Rental[]> {
  return (await succeed(call, 'GET', `/v2/rentals?ended=${ended}`)).rentals as Rental[]
}

function block(type: string, body: string, name = 'it'): string {
  return `resource "${type}" "${name}" {\n${body}\n}\n`
}

describe.skipIf(why !== undefined)(`Terraform rentals${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let server: TestServer
  /** Its machines never start by themselves. */
  let slow: TestServer
  let project: TofuProject

  beforeAll(async () => {
    server = await testServer()
    slow = await testServer({ env: { BERTH_MOCK_BOOT_MS: HOUR_MS } })
    await (await tofuProject(server.url, '')).close()
  }, START_MS)
  afterEach(() => project.close())
  afterAll(async () => {
    await server.close()
    await slow.close()
  })

  test(
    'promise 44: a timeout leaves a tainted resource with its ID, and names its hourly cost',
    async () => {
      const customer = await slow.account({ usd: '1000' })
      project = await tofuProject(slow.url, customer.key)
      await project.write(block('berth_virtual_machine', `${machine} timeouts = { create = "3s" }`))
      const { code, output } = await project.run(['apply', '-auto-approve', '-no-color'])
      expect(code).toBe(1)
      const [rental] = await rentalsOf(customer)
      const { pricePerHourUsd } = await succeed(customer.call, 'GET', `/v2/rentals/${rental?.id}`)
      expect(output).toContain(String(Number(pricePerHourUsd)))
      expect(await project.attributes('berth_virtual_machine.it')).toMatchObject({ id: String(rental?.id) })
      const state = JSON.parse(await readFile(path.join(project.folder, 'terraform.tfstate'), 'utf8'))
      expect(state.resources[0].instances[0].status).toBe('tainted')
      expect(await project.plan()).toBe('changes')
      await project.must('destroy', '-auto-approve')
      expect((await rentalsOf(customer, 'include')).map(({ state: word }) => word)).toEqual(['Terminated'])
    },
    TEST_MS,
  )

  test(
    'promise 45: no capacity fails within five seconds with alternatives, or waits; a plan warns of a replacement',
    async () => {
      const [other, customer] = [await server.account({ usd: '10000' }), await server.account({ usd: '10000' })]
      const only = { region: 'mock-region', gpuType: 'b200', networkType: 'ethernet', gpuCount: 8 }
      const blocking = await succeed(other.call, 'POST', '/v2/rentals', { kind: 'virtual-machine', ...only })
      project = await tofuProject(server.url, customer.key)
      const full = 'region = "mock-region"\n gpu_type = "b200"\n network_type = "ethernet"\n gpu_count = 8\n'
      // It would say that the time is over if it took longer.
      await project.write(block('berth_virtual_machine', `${full} timeouts = { create = "5s" }`))
      const failed = await project.run(['apply', '-auto-approve', '-no-color'])
      expect(failed.code).toBe(1)
      expect(failed.output).toContain('no_capacity')
      expect(failed.output).toMatch(/b200 in us-east-1/)
      expect(await rentalsOf(customer)).toEqual([])

      await project.write(block('berth_virtual_machine', machine))
      await project.apply()
      await project.write(block('berth_virtual_machine', full))
      const warned = await project.must('plan', '-no-color')
      expect(warned).toMatch(/Warning: /)
      expect(warned).toMatch(/b200 in us-east-1/)
      // A replacement by the GPUs that it has itself can be placed.
      await project.write(block('berth_virtual_machine', `${machine} on_start = "true"`))
      expect(await project.must('plan', '-no-color')).not.toMatch(/free GPUs/)
      await project.must('destroy', '-auto-approve')

      await project.write(block('berth_virtual_machine', `${full} wait_for_capacity = "5m"`))
      let isReleased = false
      const waited = await project.run(['apply', '-auto-approve', '-no-color'], {
        onOutput: (output) => {
          if (isReleased || !output.includes('Still creating')) return
          isReleased = true
          void other.call('DELETE', `/v2/rentals/${blocking.id}`)
        },
      })
      expect({ code: waited.code, isReleased }).toEqual({ code: 0, isReleased: true })
      await project.must('destroy', '-auto-approve')
    },
    TEST_MS,
  )

  test(
    'promise 46: a rental that its own limit has ended is ordered again only with recreate_after_end',
    async () => {
      const customer = await server.account({ usd: '1000' })
      project = await tofuProject(server.url, customer.key)
      await project.write(block('berth_virtual_machine', machine))
      await project.apply()
      const { id } = await project.attributes('berth_virtual_machine.it')
      await succeed(customer.call, 'PATCH', `/v2/rentals/${id}`, { spendingLimitUsd: '0.000001' })
      await waitFor('its end', async () => (await rentalsOf(customer)).length === 0)
      const { statusReason } = await succeed(customer.call, 'GET', `/v2/rentals/${id}`)
      expect(statusReason).toBe('spending_limit')
      expect(await project.plan()).toBe('empty')
      await project.apply()
      expect(await project.attributes('berth_virtual_machine.it')).toMatchObject({ id, ended_by: 'spending_limit' })
      await project.write(block('berth_virtual_machine', `${machine} label = "later"`))
      await project.apply()
      expect(await project.plan()).toBe('empty')
      expect(await rentalsOf(customer)).toEqual([])

      await project.write(block('berth_virtual_machine', `${machine} recreate_after_end = true`))
      expect(await project.plan()).toBe('changes')
      await project.apply()
      const next = await project.attributes('berth_virtual_machine.it')
      expect([next['id'] === id, next['ended_by']]).toEqual([false, null])
      expect(await project.plan()).toBe('empty')

      // Somebody else's end is a change that an apply undoes.
      await succeed(customer.call, 'DELETE', `/v2/rentals/${next['id']}`)
      await project.write(block('berth_virtual_machine', machine))
      expect(await project.plan()).toBe('changes')
    },
    TEST_MS,
  )

  test(
    'promise 46: nor is one that its end time or a budget has ended',
    async () => {
      const customer = await server.account({ usd: '1000' })
      project = await tofuProject(server.url, customer.key)
      const both =
        block('berth_virtual_machine', machine) + block('berth_bare_metal', 'region = "us-central-1"\n gpu_count = 8')
      await project.write(both)
      await project.apply()
      const timed = await project.attributes('berth_virtual_machine.it')
      const autoTerminateAt = formatInstant(addMs(systemClock.now(), 1_000))
      await succeed(customer.call, 'PATCH', `/v2/rentals/${timed['id']}`, { autoTerminateAt })
      // A budget stops what can be stopped, and ends other machines.
      await succeed(customer.call, 'POST', '/v2/budgets', { name: 'all', monthlyUsd: '0.000001', action: 'terminate' })
      await waitFor('both to end', async () => (await rentalsOf(customer)).length === 0, BUDGET_MS)
      expect(await project.plan()).toBe('empty')
      await project.apply()
      const budgeted = await project.attributes('berth_bare_metal.it')
      expect([(await project.attributes('berth_virtual_machine.it'))['ended_by'], budgeted['ended_by']]).toEqual([
        'auto_terminate',
        'budget_exceeded',
      ])
      expect((await rentalsOf(customer, 'include')).map(({ state }) => state)).toEqual(['Terminated', 'Terminated'])
    },
    TEST_MS,
  )

  test(
    'promise 47: changes from outside are drift, another spelling of an amount is none',
    async () => {
      const customer = await server.account({ usd: '1000' })
      project = await tofuProject(server.url, customer.key)
      const limited = `${machine} label = "mine"\n running = true\n`
      await project.write(block('berth_virtual_machine', `${limited} spending_limit_usd = "12.5"`))
      await project.apply()
      const { id } = await project.attributes('berth_virtual_machine.it')
      await project.write(block('berth_virtual_machine', `${limited} spending_limit_usd = "12.500000000"`))
      expect(await project.plan()).toBe('empty')
      const rentalPath = `/v2/rentals/${id}`
      await succeed(customer.call, 'PATCH', rentalPath, { label: 'theirs', spendingLimitUsd: '99' })
      expect(await project.plan()).toBe('changes')
      await project.apply()
      expect(await succeed(customer.call, 'GET', rentalPath)).toMatchObject({
        label: 'mine',
        spendingLimitUsd: '12.500000000',
      })
      await succeed(customer.call, 'POST', `${rentalPath}/stop`)
      await waitFor('the stop', async () => (await succeed(customer.call, 'GET', rentalPath)).state === 'Stopped')
      expect(await project.plan()).toBe('changes')
      await project.apply()
      expect(await succeed(customer.call, 'GET', rentalPath)).toMatchObject({ state: 'Running' })
      expect(await project.plan()).toBe('empty')
      await project.must('destroy', '-auto-approve')
    },
    TEST_MS,
  )

  test(
    'promise 49: limits go with every order, a volume does not shrink, and an attached one is detached first',
    async () => {
      const customer = await server.account({ usd: '10000' })
      project = await tofuProject(server.url, customer.key)
      await project.write(block('berth_virtual_machine', `${machine} max_cost_per_hour_usd = "0.01"`))
      const dear = await project.run(['apply', '-auto-approve', '-no-color'])
      expect([dear.code, dear.output.includes('price_changed')]).toEqual([1, true])
      expect(await rentalsOf(customer, 'include')).toEqual([])

      const defaults = 'provider "berth" {\n default_spending_limit_usd = "77"\n}\n'
      await project.write(defaults + block('berth_virtual_machine', machine))
      await project.apply()
      const order = await project.attributes('berth_virtual_machine.it')
      const rental = await succeed(customer.call, 'GET', `/v2/rentals/${order['id']}`)
      expect(rental.spendingLimitUsd).toBe('77.000000000')
      expect(Number(order['max_cost_per_hour_usd'])).toBe(Number(rental.pricePerHourUsd))
      expect(await project.plan()).toBe('empty')

      const volume = (size: number) =>
        block('berth_volume', `label = "data-9"\n region = "us-central-1"\n size_gb = ${size}`, 'data')
      const metal = block('berth_bare_metal', 'region = "us-central-1"\n gpu_count = 8')
      await project.write(volume(512) + metal)
      await project.apply()
      await project.write(volume(256) + metal)
      const { code, output } = await project.run(['plan', '-no-color'])
      expect([code, output.includes('512 GB')]).toEqual([1, true])
      const [{ id }, { id: rentalId }] = [
        await project.attributes('berth_volume.data'),
        await project.attributes('berth_bare_metal.it'),
      ]
      const rentalPath = `/v2/rentals/${rentalId}`
      await succeed(customer.call, 'POST', `${rentalPath}/volumes`, { storageVolumeId: Number(id) })
      await project.write(metal)
      await project.apply()
      expect((await succeed(customer.call, 'GET', `${rentalPath}/volumes`)).volumes).toEqual([])
      expect(await succeed(customer.call, 'GET', rentalPath)).toMatchObject({ state: 'Running' })
      expect(await project.addresses()).toEqual(['berth_bare_metal.it'])
      await project.must('destroy', '-auto-approve')
    },
    TEST_MS,
  )

  test(
    'promise 50: fifty resources at once wait as long as a rate limit asks',
    async () => {
      const customer = await server.account({ usd: '1000' })
      const limited = { name: 'slow', scopes: ['compute:read', 'compute:write'], requestsPerMinute: 40 }
      const { key } = await succeed(customer.call, 'POST', '/v2/api-keys', limited)
      project = await tofuProject(server.url, String(key))
      await project.write(block('berth_template', 'count = 50\n name = "t-${count.index}"\n image = "ubuntu:24.04"'))
      const applied = await project.run(['apply', '-auto-approve', '-parallelism=50', '-no-color'], {
        env: { TF_LOG_PROVIDER: 'DEBUG' },
      })
      const refreshed = await project.run(['plan', '-detailed-exitcode', '-parallelism=50'], {
        env: { TF_LOG_PROVIDER: 'DEBUG' },
      })
      expect([applied.code, refreshed.code]).toEqual([0, 0])
      expect(applied.output + refreshed.output).toMatch(/status=429/)
      const { templates } = await succeed(customer.call, 'GET', '/v2/templates')
      const names = (templates as Array<{ name: string; owner: string }>).filter(({ owner }) => owner === 'account')
      expect(new Set(names.map(({ name }) => name)).size).toBe(50)
      expect(names).toHaveLength(50)
    },
    TEST_MS,
  )

  test.each([
    ['with the journal of its folder', '', false],
    ['with a client_token, without the folder', 'client_token = "prod-${count.index}"\n', true],
  ])(
    'promise 50: a killed apply that is repeated orders nothing twice (%s)',
    async (_, token, losesJournal) => {
      const COUNT = 8
      const customer = await slow.account({ usd: '10000' })
      project = await tofuProject(slow.url, customer.key)
      await project.write(
        block('berth_virtual_machine', `count = ${COUNT}\n ${machine} ${token} timeouts = { create = "20s" }`),
      )
      let ordered: Rental[] = []
      let isAsked = false
      const killed = await project.run(['apply', '-auto-approve', '-no-color', `-parallelism=${COUNT}`], {
        onOutput: (output, kill) => {
          if (isAsked || !output.includes('Still creating')) return
          isAsked = true
          void rentalsOf(customer)
            .then((rentals) => void (ordered = rentals))
            .finally(kill)
        },
      })
      expect(killed.code).toBe(null)
      expect(ordered).toHaveLength(COUNT)
      expect(await project.openCreates()).toHaveLength(losesJournal ? 0 : COUNT)
      if (losesJournal) await removeFolder(path.join(project.folder, '.terraform'))
      await project.run(['apply', '-auto-approve', '-no-color', `-parallelism=${COUNT}`])
      const state = JSON.parse(await readFile(path.join(project.folder, 'terraform.tfstate'), 'utf8'))
      const ids = (state.resources[0].instances as Array<{ attributes: { id: string } }>).map(
        ({ attributes }) => attributes.id,
      )
      expect(ids.toSorted()).toEqual(ordered.map(({ id }) => String(id)).toSorted())
      expect(await rentalsOf(customer, 'include')).toHaveLength(COUNT)
      await project.must('destroy', '-auto-approve', `-parallelism=${COUNT}`)
      expect((await rentalsOf(customer, 'include')).every((one) => one.state === 'Terminated')).toBe(true)
    },
    TEST_MS,
  )
})
