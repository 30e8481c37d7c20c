/** The Terraform provider, driven by real OpenTofu against a real server with simulated machines. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { succeed } from './harness/journey.ts'
import { testServer, testSshKey, type TestServer } from './harness/server.ts'
import { go, goProgram } from './lab/go-build.ts'
import { tofuProject, whyNoTofu, type TofuProject } from './lab/tofu.ts'
import { needs } from './needs.ts'

needs('go')

const why = whyNoTofu()
/** The first run builds OpenTofu. */
const START_MS = 40 * 60_000
const TEST_MS = 10 * 60_000

type Customer = Awaited<ReturnType<TestServer['account']>>

/** A resource `it`, and a change of it. `before` and `after` are the bodies of its block. */
interface LifeOfResource {
  readonly type: string
  readonly before: string
  readonly after: string
  /** Blocks that it needs beside it. */
  readonly beside?: string
  /** What is imported; default: the ID. */
  readonly importId?: string
  /** Whether the change replaces it. */
  readonly replaces?: true
  /** Paths of the lists that must no longer name it after the destroy. */
  readonly gone: (server: Customer, id: string) => Promise<boolean>
}

const notIn =
  (list: string, field: string, key = 'id') =>
  async ({ call }: Customer, id: string): Promise<boolean> => {
    const { body } = await call('GET', list)
    const rows = (body as Record<string, Array<Record<string, unknown>>>)[field] ?? []
    return !rows.some((row) => row[key] === id && (row['revokedAt'] ?? null) === null)
  }
const isTerminated = async ({ call }: Customer, id: string): Promise<boolean> =>
  (await succeed(call, 'GET', `/v2/rentals/${id}`)).state === 'Terminated'

const otherSshKey = testSshKey.replace('Hx4f test@example.test', 'Hx5f other')

const lives: readonly LifeOfResource[] = [
  {
    type: 'berth_ssh_key',
    before: `name = "laptop"\n public_key = "${otherSshKey}"`,
    after: `name = "desk"\n public_key = "${otherSshKey} with another comment"`,
    replaces: true,
    gone: notIn('/v2/ssh-keys', 'sshKeys'),
  },
  {
    type: 'berth_secret',
    before: 'name = "TOKEN"\n value_wo = "first"',
    after: 'name = "TOKEN"\n value_wo = "second"\n value_wo_version = 2',
    importId: 'TOKEN@2',
    gone: notIn('/v2/secrets', 'secrets', 'name'),
  },
  {
    type: 'berth_registry_credential',
    before: 'name = "team"\n server = "registry.example.com"\n username = "ci"\n password_wo = "first"',
    after: 'name = "team"\n server = "registry.example.com"\n username = "bot"\n password_wo = "first"',
    replaces: true,
    gone: notIn('/v2/registry-credentials', 'registryCredentials'),
  },
  {
    type: 'berth_api_key',
    before: 'name = "ci"\n scopes = ["inference"]\n monthly_limit_usd = "12.5"',
    after:
      'name = "ci"\n scopes = ["inference"]\n monthly_limit_usd = "20.00"\n expires_at = "2031-01-01T01:00:00+01:00"',
    replaces: true,
    gone: notIn('/v2/api-keys', 'apiKeys', 'publicId'),
  },
  {
    type: 'berth_template',
    before: 'name = "notebook"\n image = "jupyter:5000/lab:4"\n env = { MODE = "fast" }\n ports = ["8888/http"]',
    after: 'name = "notebook"\n image = "jupyter:5000/lab:5"\n summary = "Jupyter"\n ports = ["8888/http", "22/tcp"]',
    gone: notIn('/v2/templates', 'templates'),
  },
  {
    type: 'berth_budget',
    before: 'name = "all"\n monthly_usd = "500"',
    after: 'name = "all"\n monthly_usd = "600.50"\n alerts_percent = [80]\n action = "block"',
    gone: notIn('/v2/budgets', 'budgets'),
  },
  {
    type: 'berth_webhook',
    before: 'url = "https://example.com/hooks"\n event_types = ["rental.running"]',
    after: 'url = "https://example.com/hooks/2"\n description = "moved"\n enabled = false',
    gone: notIn('/v2/webhooks', 'webhooks'),
  },
  {
    type: 'berth_volume',
    before: 'label = "data-1"\n region = "us-central-1"\n size_gb = 256',
    after: 'label = "data-1"\n region = "us-central-1"\n size_gb = 512',
    gone: async ({ call }, id) => {
      const { body } = await call('GET', '/v2/alpha/on-demand/storage-volumes')
      return !(body as unknown as Array<{ id: number; terminatedAt: unknown }>).some(
        (row) => String(row.id) === id && row.terminatedAt === null,
      )
    },
  },
  {
    type: 'berth_virtual_machine',
    before: 'region = "mock-region"\n gpu_count = 1\n label = "one"\n spending_limit_usd = "12.5"',
    after:
      'region = "mock-region"\n gpu_count = 1\n label = "two"\n spending_limit_usd = "13"\n auto_terminate_at = "2031-01-01T01:00:00+01:00"\n running = false',
    gone: isTerminated,
  },
  {
    type: 'berth_bare_metal',
    before: 'region = "us-central-1"\n gpu_count = 8\n label = "one"',
    after:
      'region = "us-central-1"\n gpu_count = 8\n volumes = [{ volume_id = berth_volume.data.id }]\n spending_limit_usd = "900.10"',
    beside: 'resource "berth_volume" "data" {\n label = "shared"\n region = "us-central-1"\n size_gb = 256\n}\n',
    gone: isTerminated,
  },
  {
    type: 'berth_container',
    before:
      'gpu_model = "rtx-4090"\n gpu_count = 1\n image = "ubuntu:24.04"\n env = { A = "1" }\n ports = ["8888/http"]',
    after:
      'gpu_model = "rtx-4090"\n gpu_count = 1\n image = "ubuntu:24.04"\n env = { A = "1" }\n ports = ["8888/http"]\n label = "web"',
    gone: isTerminated,
  },
  {
    type: 'berth_volume_attachment',
    before: 'rental_id = berth_bare_metal.box.id\n volume_id = berth_volume.data["one"].id',
    after: 'rental_id = berth_bare_metal.box.id\n volume_id = berth_volume.data["two"].id',
    beside: `resource "berth_volume" "data" {
      for_each = toset(["one", "two"])
      label    = "disk-\${each.key}"
      region   = "us-central-1"
      size_gb  = 256
    }
    resource "berth_bare_metal" "box" {
      region    = "us-central-1"
      gpu_count = 8
    }
    `,
    replaces: true,
    gone: (account, id) => isTerminated(account, id.split('/')[0] ?? ''),
  },
  {
    type: 'berth_deployment',
    before:
      'name = "assistant"\n recipe = jsonencode({ name = "custom", image = { name = "lab/engine" } })\n gpu_model = "B900"',
    after:
      'name = "assistant"\n recipe = jsonencode({ name = "custom", image = { name = "lab/engine", tag = "2" } })\n gpu_model = "B900"\n max_replicas = 3\n hourly_budget_usd = "12.5"\n requests_per_replica = 4',
    gone: async ({ call }, id) => (await call('GET', `/v2/deployments/${id}`)).status === 404,
  },
]

describe.skipIf(why !== undefined)(`Terraform provider${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let server: TestServer
  let customer: Customer
  let project: TofuProject

  beforeAll(async () => {
    server = await testServer()
    customer = await server.account({ usd: '100000' })
    await (await tofuProject(server.url, customer.key)).close()
  }, START_MS)
  afterEach(() => project.close())
  afterAll(() => server.close())

  test.each(lives.map((life) => [life.type, life] as const))(
    'promise 43: %s is created, changed, imported and destroyed with empty plans between',
    async (type, { before, after, beside = '', replaces, importId, gone }) => {
      project = await tofuProject(server.url, customer.key)
      const address = `${type}.it`
      const write = (body: string): Promise<void> => project.write(`${beside}resource "${type}" "it" {\n${body}\n}\n`)
      await write(before)
      await project.apply()
      expect(await project.plan()).toBe('empty')
      const { id: first } = await project.attributes(address)
      await write(after)
      expect(await project.plan()).toBe('changes')
      await project.apply()
      expect(await project.plan()).toBe('empty')
      const { id } = await project.attributes(address)
      expect(id === first).toBe(replaces === undefined)
      await project.must('state', 'rm', address)
      await project.must('import', address, importId ?? id)
      expect(await project.plan()).toBe('empty')
      await project.must('destroy', '-auto-approve')
      expect(await gone(customer, id)).toBe(true)
      expect(await project.openCreates()).toEqual([])
    },
    TEST_MS,
  )

  test(
    'promise 48: no log, no plan and no state has a write-only secret, and no log any secret',
    async () => {
      project = await tofuProject(server.url, customer.key)
      const secrets = { TF_VAR_password: 'write-only-9f3c', BERTH_KEY: customer.key }
      await project.write(`
        variable "password" {
          type      = string
          ephemeral = true
        }
        resource "berth_secret" "it" {
          name     = "DEEP"
          value_wo = var.password
        }
        resource "berth_registry_credential" "it" {
          name        = "deep"
          server      = "registry.example.com"
          username    = "ci"
          password_wo = var.password
        }
        resource "berth_api_key" "it" {
          name   = "deep"
          scopes = ["inference"]
        }
        resource "berth_webhook" "it" { url = "https://example.com/deep" }
        ephemeral "berth_api_key" "run" {
          name   = "for one run"
          scopes = ["inference"]
        }
        resource "berth_secret" "run" {
          name     = "RUN"
          value_wo = ephemeral.berth_api_key.run.key
        }`)
      const env = { ...secrets, TF_LOG: 'TRACE' }
      const planned = await project.run(['plan', '-out=plan', '-no-color'], { env })
      const applied = await project.run(['apply', '-no-color', 'plan'], { env })
      const again = await project.run(['plan', '-no-color'], { env })
      expect([planned, applied, again].map(({ code }) => code)).toEqual([0, 0, 0])
      const { key } = await project.attributes('berth_api_key.it')
      const { secret } = await project.attributes('berth_webhook.it')
      const logs = [planned, applied, again].map(({ output }) => output).join('\n')
      expect(logs).toContain('TRACE')
      for (const one of [secrets.TF_VAR_password, customer.key, key, secret]) {
        expect(String(one).length).toBeGreaterThan(8)
        expect(logs.includes(String(one))).toBe(false)
      }
      const files = await Promise.all(
        ['terraform.tfstate', 'plan'].map((name) => readFile(path.join(project.folder, name), 'latin1')),
      )
      const shown = await project.must('show', '-json', 'plan')
      for (const text of [...files, shown]) expect(text.includes(secrets.TF_VAR_password)).toBe(false)
      // The ephemeral key is nowhere, and no longer works.
      const keyPattern = /\bbk_\w{8,}/g
      expect([logs, shown].map((text) => text.match(keyPattern))).toEqual([null, null])
      expect(files.map((text) => [...new Set(text.match(keyPattern))])).toEqual([[key], []])
      const { apiKeys } = await succeed(customer.call, 'GET', '/v2/api-keys')
      const ephemeral = (apiKeys as Array<{ name: string; revokedAt: unknown }>).filter(
        ({ name }) => name === 'for one run',
      )
      expect(ephemeral.length).toBeGreaterThan(0)
      expect(ephemeral.filter(({ revokedAt }) => revokedAt === null)).toEqual([])
      const destroyed = await project.run(['destroy', '-auto-approve', '-no-color'], { env: secrets })
      expect(destroyed).toMatchObject({ code: 0 })
    },
    TEST_MS,
  )

  test(
    'data sources have offers, options, a quote, models, the balance and rentals with their costs',
    async () => {
      project = await tofuProject(server.url, customer.key)
      const machine = 'region = "mock-region"\n gpu_count = 1'
      await project.write(`
        resource "berth_virtual_machine" "it" {\n${machine}\n label = "listed"\n}
        data "berth_options" "all" {\n kind = "bare-metal"\n region = "us-central-1"\n}
        data "berth_offers" "all" {\n gpu_model = "rtx-4090"\n min_gpus_free = 8\n}
        data "berth_quote" "one" {\n kind = "virtual-machine"\n${machine}\n}
        data "berth_models" "all" {}
        data "berth_balance" "now" {}
        data "berth_rentals" "mine" {
          search     = "listed"
          depends_on = [berth_virtual_machine.it]
        }
        output "all" {
          value = {
            options = data.berth_options.all.options, offers = data.berth_offers.all.offers
            price   = data.berth_quote.one.price_per_hour_usd, models = data.berth_models.all.models
            balance = data.berth_balance.now, rentals = data.berth_rentals.mine.rentals
          }
        }`)
      await project.apply()
      const shown = JSON.parse(await project.must('output', '-json', 'all')) as Record<
        string,
        Array<Record<string, unknown>>
      >
      const { id, price_per_hour_usd } = await project.attributes('berth_virtual_machine.it')
      expect(shown['price']).toBe(price_per_hour_usd)
      expect(shown['rentals']).toMatchObject([{ id, label: 'listed', state: 'Running', price_per_hour_usd }])
      expect(shown['options']?.length).toBeGreaterThan(0)
      expect(shown['options']?.every((one) => one['kind'] === 'bare-metal' && one['region'] === 'us-central-1')).toBe(
        true,
      )
      expect(shown['offers']?.length).toBeGreaterThan(0)
      expect(shown['offers']?.every((one) => Number(one['gpus_free']) >= 8)).toBe(true)
      expect(shown['models']).toEqual([])
      expect(shown['balance']).toMatchObject({ available_usd: expect.stringMatching(/^\d+(\.\d+)?$/) })
      await project.must('destroy', '-auto-approve')
    },
    TEST_MS,
  )

  test(
    'the example of the docs is applied and destroyed',
    async () => {
      project = await tofuProject(server.url, customer.key)
      const [, example = ''] =
        /```hcl\nterraform \{[^]*?\n\}\n([^]*?)```/.exec(await readFile('docs/customer/terraform.md', 'utf8')) ?? []
      await project.write(example)
      await project.apply()
      expect((await project.addresses()).toSorted()).toEqual(['berth_budget.month', 'berth_virtual_machine.trainer'])
      expect(await project.plan()).toBe('empty')
      await project.must('destroy', '-auto-approve')
    },
    TEST_MS,
  )

  test(
    'its own tests pass, and gofmt and go vet find nothing',
    async () => {
      const folder = path.resolve('terraform')
      expect(await go(folder, ['test', '-trimpath', './...'])).toMatch(
        /ok\s+terraform-provider-berth\/internal\/provider/,
      )
      await go(folder, ['vet', '-trimpath', './...'])
      expect(
        (await promisify(execFile)(path.join(path.dirname(goProgram() ?? ''), 'gofmt'), ['-l', folder])).stdout,
      ).toBe('')
    },
    TEST_MS,
  )
})
