/**
 * Crusoe: virtual machines with whole GPUs. Every request is signed. Creates and deletes are operations that continue
 * after the answer and can still fail, for example for lack of stock, so `create` follows its operation for a while. A
 * machine is recognized by its name, which is our tag. Its public address ends with it: the API shows addresses with
 * ids but cannot release them. Its InfiniBand partition (partition.ts) and a boot disk that a failed operation left
 * behind are companions.
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
import { DELETING_STATE, GONE_STATE, LOGIN_USER, offerOf, quotaFor, showVm } from './machine.ts'
import { needsPartition, Partitions } from './partition.ts'
import { costOf, parsePriceList } from './price-list.ts'
import { signatureHeaders } from './signature.ts'

/** The vendor documents no maximum; its examples use this size. */
const PAGE_SIZE = 20
/** At the pace of its route, this is 90 seconds. An order without stock may fail that late; it then goes elsewhere. */
const MAX_OPERATION_READS = 30
/** Companions are disks unless their id says otherwise. */
const PARTITION = 'partition/'
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
  callTimeoutMs: 150_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => new CrusoeCloud(credentials, clock, http),
}

class CrusoeCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #credentials: Credentials
  readonly #partitions: Partitions
  /** Keeps withdrawn types too, since running machines of such a type are still shown. */
  readonly #types = new Map<string, api.VmType>()

  constructor(credentials: Credentials, clock: Clock, http: Parameters<CloudVendor['open']>[0]['http']) {
    this.#credentials = credentials
    const key = { id: credentials.accessKey ?? '', secret: credentials.secretKey ?? '' }
    this.#http = http({ authorize: async (sent) => signatureHeaders(key, sent, clock.now()) })
    this.#partitions = new Partitions(this.#http, this.#path('/networking'))
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const types = await this.#readTypes(signal)
    const running = await this.#vms(signal)
    await this.#partitions.list(signal)
    const quotas = await this.#quotas(signal)
    const prices = parsePriceList(this.#credentials.prices ?? '')
    const priced = types.filter(({ product_name: name }) => costOf(prices, name) !== undefined)
    const free = priced.filter(({ product_name: name }) => quotaFor(quotas, name) > 0)
    return [
      { check: 'reachable', result: 'passed', detail: counted(types.length, 'machine type') },
      { check: 'rights', result: 'passed', detail: `lists ${counted(running.length, 'machine')} of the project` },
      {
        check: 'limits',
        result: free.length > 0 ? 'passed' : 'failed',
        detail: `the quotas have room for ${free.length} of the types with a price`,
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
    const quotas = await this.#quotas(signal)
    const prices = parsePriceList(this.#credentials.prices ?? '')
    return types.flatMap((type) => {
      const { product_name: name } = type
      const cost = costOf(prices, name)
      if (cost === undefined || type.num_gpu < 1) return []
      const places = items.filter((one) => one.type === name)
      // A place can have several entries. The largest counts, limited by the quota of the project.
      return [...new Set(places.map(({ location }) => location))].map((place) => {
        const rooms = places.filter(({ location }) => location === place).map(({ quantity }) => quantity)
        return offerOf(type, place, Math.min(Math.max(...rooms), quotaFor(quotas, name)), cost)
      })
    })
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag, startupScript } = order
    const { type, region } = order.offer
    if (startupScript === undefined) return refused('no_capacity', 'Crusoe runs scripts, but no cloud-init.')
    if (startupScript.length > MAX_SCRIPT_CHARS) return refused('no_capacity', 'Crusoe takes no script of this size.')
    const partition = needsPartition(type)
      ? await this.#partitions.ensure({ tag, type, location: region }, signal)
      : undefined
    if (needsPartition(type) && partition === undefined)
      return refused('no_capacity', `Crusoe has no InfiniBand network with room for ${type} in ${region}.`)
    const body = {
      name: tag,
      type,
      location: region,
      image: `ubuntu22.04-nvidia-${type.includes('-sxm') ? 'sxm' : 'pcie'}-docker:latest`,
      ssh_public_key: plainKeys(order.spec)[0] ?? '',
      startup_script: startupScript,
      install_crusoe_watch_agent: false,
      ...(partition === undefined ? {} : { host_channel_adapters: [{ ib_partition_id: partition }] }),
      // Without it, a machine would use up a reservation of the operator, which costs another price.
      reservation_specification: { selection_strategy: 'on_demand' },
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
      if (await this.#isBusy(id, signal))
        throw new Error('Crusoe is still creating the machine, and does not show it yet.', { cause: error })
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

  /** Lists disks of ours that have no machine, and partitions. The vendor names a boot disk after its machine. */
  async companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]> {
    const { items } = await this.#http.read(api.disks, { path: this.#path('/storage/disks'), signal })
    const disks = items.flatMap(({ id, name, attached_to: machines }) => {
      const tag = /^berth-[a-z0-9]+-[a-z0-9]+-[0-9a-f]{8}/.exec(name)?.[0]
      return tag !== undefined && (machines ?? []).length === 0 ? [{ id, tag, what: 'disk' }] : []
    })
    const partitions = (await this.#partitions.list(signal)).map(({ id, name }) => ({
      id: `${PARTITION}${id}`,
      tag: name,
      what: 'partition',
    }))
    return [...disks, ...partitions].filter(({ tag }) => tag.startsWith(tagPrefix))
  }

  async removeCompanion({ id }: CloudCompanion, signal: AbortSignal): Promise<void> {
    const path = this.#path(`/storage/disks/${encodeURIComponent(id)}`)
    const removal = id.startsWith(PARTITION)
      ? this.#partitions.remove(id.slice(PARTITION.length), signal)
      : this.#http.write(api.started, { method: 'DELETE', path, signal })
    await removal.catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }

  #path(suffix: string): string {
    return `/v1/projects/${encodeURIComponent(this.#credentials.projectId ?? '')}${suffix}`
  }

  async #readTypes(signal: AbortSignal): Promise<api.VmType[]> {
    const { items } = await this.#http.read(api.vmTypes, { path: this.#path('/compute/vms/types'), signal })
    for (const type of items) this.#types.set(type.product_name, type)
    return items
  }

  async #quotas(signal: AbortSignal): Promise<api.Quota[]> {
    return (await this.#http.read(api.quotas, { path: this.#path('/quotas'), signal })).quotas ?? []
  }

  /**
   * Tells whether an operation of the machine is in progress. The vendor shows a machine only some time after its
   * creation began.
   */
  async #isBusy(id: string, signal: AbortSignal): Promise<boolean> {
    const path = this.#path('/compute/vms/instances/operations')
    const query = { resource_id: id, state: 'IN_PROGRESS' }
    const { items } = await this.#http.read(api.operations, { path, query, signal })
    return (items ?? []).some(({ state, metadata }) => state === 'IN_PROGRESS' && metadata?.id === id)
  }

  async #vms(signal: AbortSignal): Promise<api.Vm[]> {
    const request = { path: this.#path('/compute/vms/instances'), query: { limit: PAGE_SIZE }, signal }
    const pages = await this.#http.readPages(api.vms, request, ({ next_page_token: next }) =>
      (next ?? '') === '' ? undefined : { limit: PAGE_SIZE, next_token: next ?? '' },
    )
    return pages.flatMap(({ items }) => items)
  }

  /**
   * Follows the operation until it ends or the reads run out; `list` shows a machine that fails later. An operation
   * that cannot be read is not followed further, since it may well create the machine. A failed operation that left a
   * machine behind is not a refusal.
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
      const leftover = vms.find(({ name, state }) => name === tag && state !== GONE_STATE)
      if (leftover !== undefined) return { kind: 'created', id: leftover.id }
      const reason = api.reasonOf(operation.result)
      return refused(
        isNoCapacity(reason) ? 'no_capacity' : 'rejected_by_provider',
        'Crusoe could not create the machine.',
        reason,
      )
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

function isNoCapacity(reason: string): boolean {
  return /out.of.stock|quota|capacity|available|hardware|insufficient|not enough/i.test(reason)
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const mayTryElsewhere = isNoCapacity(api.reasonOf(error.answer)) || [401, 403, 404].includes(error.status ?? 0)
  return refused(
    mayTryElsewhere ? 'no_capacity' : 'rejected_by_provider',
    `Crusoe refused the order: ${error.status ?? ''}.`,
  )
}
