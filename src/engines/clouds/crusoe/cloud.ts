/**
 * Crusoe: virtual machines with whole GPUs. Every request is signed. Creates and deletes are operations that go on after
 * the answer and can still fail, for example for lack of stock, so `create` follows its operation for a while. A machine is
 * found again by its name, which is our tag. Its public address ends with it: the API has addresses with ids, and nothing
 * to release them by. A boot disk that a failed operation left behind is a companion.
 */
import { counted } from '../../../base/counted.ts'
import type { Clock } from '../../../base/instant.ts'
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
  type Cloud,
  type CloudCompanion,
  type CloudMachine,
  type CloudOffer,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
  type Credentials,
} from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { plainKeys } from '../user-data.ts'
import * as api from './api.ts'
import { DELETING_STATE, GONE_STATE, LOGIN_USER, offerOf, showVm } from './machine.ts'
import { costOf, parsePriceList } from './price-list.ts'
import { signatureHeaders } from './signature.ts'

const PAGE_SIZE = 100
/** With the pace of its route: 15 seconds. Most orders without stock fail within some. */
const MAX_OPERATION_READS = 5
const MAX_SCRIPT_CHARS = 64_000

export const crusoe: CloudVendor = {
  id: 'crusoe',
  title: 'Crusoe',
  baseUrl: 'https://api.cloud.crusoe.ai',
  credentials: [
    { name: 'accessKey', help: 'ID of an access key (Security, API tokens)' },
    { name: 'secretKey', help: 'Secret of the access key' },
    { name: 'projectId', help: 'ID of the project in which machines are created' },
    { name: 'prices', help: 'Your prices per GPU-hour, since the API has none: h100-80gb-sxm-ib=3.90, …' },
  ],
  regions: {
    'us-northcentral1-a': 'us-central-1',
    'us-southcentral1-a': 'us-central-3',
    'us-east1-a': 'us-east-1',
    'us-east2-a': 'us-east-2',
    'eu-iceland1-a': 'eu-north-7',
    'eu-norway1-a': 'eu-north-8',
  },
  pace: { everyMs: 250, routes: { operation: 3_000 } },
  billing: { from: 'running', incrementMs: 60_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 90_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => new CrusoeCloud(credentials, clock, http),
}

class CrusoeCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #credentials: Credentials
  /** Types of running machines are shown also when they are sold no longer. */
  readonly #types = new Map<string, api.VmType>()

  constructor(credentials: Credentials, clock: Clock, http: Parameters<CloudVendor['open']>[0]['http']) {
    this.#credentials = credentials
    const key = { id: credentials.accessKey ?? '', secret: credentials.secretKey ?? '' }
    this.#http = http({ authorize: async (sent) => signatureHeaders(key, sent, clock.now()) })
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const types = await this.#readTypes(signal)
    const running = await this.#vms(signal)
    const { quotas } = await this.#http.read(api.quotas, { path: this.#path('/quotas'), signal })
    const free = (quotas ?? []).filter(({ category, available }) => /instance/i.test(category ?? '') && available > 0)
    const prices = parsePriceList(this.#credentials.prices ?? '')
    const priced = types.filter(({ product_name: name }) => costOf(prices, name) !== undefined)
    return [
      { check: 'reachable', result: 'passed', detail: counted(types.length, 'machine type') },
      { check: 'rights', result: 'passed', detail: `lists ${counted(running.length, 'machine')} of the project` },
      {
        check: 'limits',
        result: free.length > 0 ? 'passed' : 'failed',
        detail: `${counted(free.length, 'quota')} for instances with room`,
      },
      {
        check: 'prices',
        result: priced.length > 0 ? 'passed' : 'failed',
        detail: `the price list has ${priced.length} of the types`,
      },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    const types = await this.#readTypes(signal)
    const { items } = await this.#http.read(api.capacities, { path: '/v1/capacities', signal })
    const prices = parsePriceList(this.#credentials.prices ?? '')
    return items.flatMap(({ type: name, location, quantity }) => {
      const type = types.find((one) => one.product_name === name)
      const cost = type === undefined ? undefined : costOf(prices, type.product_name)
      return type === undefined || cost === undefined || type.num_gpu < 1
        ? []
        : [offerOf(type, location, quantity, cost)]
    })
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag, startupScript } = order
    const { type, region } = order.offer
    if (startupScript === undefined) return refused('no_capacity', 'Crusoe runs scripts, but no cloud-init.')
    if (startupScript.length > MAX_SCRIPT_CHARS) return refused('no_capacity', 'Crusoe takes no script of this size.')
    const body = {
      name: tag,
      type,
      location: region,
      image: `ubuntu22.04-nvidia-${type.includes('-sxm') ? 'sxm' : 'pcie'}-docker:latest`,
      ssh_public_key: plainKeys(order.spec)[0] ?? '',
      startup_script: startupScript,
      install_crusoe_watch_agent: false,
    }
    const path = this.#path('/compute/vms/instances')
    const started = await this.#http.write(api.started, { method: 'POST', path, body, signal })
    return this.#follow(started, tag, signal)
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    const path = this.#path(`/compute/vms/instances/${encodeURIComponent(id)}`)
    try {
      const { state } = await this.#http.read(api.vm, { path, signal })
      if (state === DELETING_STATE || state === GONE_STATE) return
      const started = await this.#http.write(api.started, { method: 'DELETE', path, signal })
      const { state: progress, result } = await this.#readOperation(started, signal)
      if (progress === 'FAILED') throw new Error(`Crusoe did not delete the machine: ${result?.code ?? 'failed'}`)
    } catch (error) {
      if (!isMissing(error)) throw error
    }
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    await this.#readTypes(signal)
    const ours = (await this.#vms(signal)).filter(
      ({ name, state }) => name.startsWith(tagPrefix) && state !== GONE_STATE,
    )
    const prices = parsePriceList(this.#credentials.prices ?? '')
    return ours.map((vm) => showVm(vm, this.#types.get(vm.type), prices))
  }

  /** Disks of ours without a machine. The vendor names a boot disk after its machine. */
  async companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const { items } = await this.#http.read(api.disks, { path: this.#path('/storage/disks'), signal })
    return items.flatMap(({ id, name, attached_to: machines }) => {
      const tag = /^berth-[a-z0-9]+-[a-z0-9]+-[0-9a-f]{8}/.exec(name)?.[0]
      const isOurs = tag !== undefined && tag.startsWith(tagPrefix) && (machines ?? []).length === 0
      return isOurs ? [{ id, tag, what: 'disk' }] : []
    })
  }

  async removeCompanion({ id }: CloudCompanion, signal: AbortSignal): Promise<void> {
    const path = this.#path(`/storage/disks/${encodeURIComponent(id)}`)
    await this.#http.write(api.started, { method: 'DELETE', path, signal }).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }

  #path(rest: string): string {
    return `/v1/projects/${encodeURIComponent(this.#credentials.projectId ?? '')}${rest}`
  }

  async #readTypes(signal: AbortSignal): Promise<api.VmType[]> {
    const { items } = await this.#http.read(api.vmTypes, { path: this.#path('/compute/vms/types'), signal })
    for (const type of items) this.#types.set(type.product_name, type)
    return items
  }

  async #vms(signal: AbortSignal): Promise<api.Vm[]> {
    const ask = { path: this.#path('/compute/vms/instances'), query: { limit: PAGE_SIZE }, signal }
    const pages = await this.#http.readPages(api.vms, ask, ({ next_page_token: next }) =>
      (next ?? '') === '' ? undefined : { limit: PAGE_SIZE, next_token: next ?? '' },
    )
    return pages.flatMap(({ items }) => items)
  }

  /**
   * Until it has ended, or long enough: a machine that fails later is seen by `list`. An operation that cannot be read is
   * not followed, since it may well create the machine. One that failed and left a machine is not a refusal.
   */
  async #follow(started: api.Operation, tag: string, signal: AbortSignal): Promise<CloudOutcome> {
    let operation = started
    for (let reads = 0; reads < MAX_OPERATION_READS && operation.state === 'IN_PROGRESS'; reads += 1) {
      const read = await this.#readOperation(operation, signal).catch(() => undefined)
      signal.throwIfAborted()
      if (read === undefined) break
      operation = read
    }
    const id = operation.metadata?.id ?? started.metadata?.id ?? ''
    if (operation.state === 'FAILED') {
      const vms = await this.#vms(signal).catch((error: unknown) => {
        // Not a refusal of the order.
        throw new Error('Crusoe did not list its machines after a failed order.', { cause: error })
      })
      const left = vms.find(({ name, state }) => name === tag && state !== GONE_STATE)
      if (left !== undefined) return { kind: 'created', id: left.id }
      const code = operation.result?.code ?? 'failed'
      return refused(isNoCapacity(code) ? 'no_capacity' : 'refused_by_engine', `Crusoe refused the order: ${code}.`)
    }
    if (id === '') throw new Error('Crusoe did not say which machine it creates.')
    return { kind: 'created', id }
  }

  async #readOperation({ operation_id: id }: api.Operation, signal: AbortSignal): Promise<api.Operation> {
    const path = this.#path(`/compute/vms/instances/operations/${encodeURIComponent(id)}`)
    return this.#http.read(api.started, { path, route: 'operation', signal })
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof CloudError && (error.status === 404 || api.codeOf(error.answer) === 'not_found')
}

function isNoCapacity(code: string): boolean {
  return /out_of_stock|quota|capacity|unavailable/.test(code)
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const code = api.codeOf(error.answer)
  const isElsewhere = isNoCapacity(code) || [401, 403, 404].includes(error.status ?? 0)
  return refused(
    isElsewhere ? 'no_capacity' : 'refused_by_engine',
    `Crusoe refused the order: ${code || String(error.status)}.`,
  )
}
